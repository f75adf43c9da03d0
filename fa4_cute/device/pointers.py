"""Addresses as the pointers that the DSL's operations take."""

from cutlass import Int32, Int64, cute
from cutlass.cute.typing import AddressSpace


def shared(address: Int32, dtype: type = Int64, align: int | None = None) -> cute.Pointer:
    """Return shared ``address`` as a pointer; by default that of an mbarrier."""
    return cute.make_ptr(dtype, address, mem_space=AddressSpace.smem, assumed_align=align)


def in_global(address: Int64, dtype: type) -> cute.Pointer:
    """Return a global address as a pointer."""
    return cute.make_ptr(dtype, address, mem_space=AddressSpace.gmem)


def generic(address: Int64, align: int) -> cute.Pointer:
    """Return a generic address as a pointer."""
    return cute.make_ptr(Int64, address, mem_space=AddressSpace.generic, assumed_align=align)


def in_tensor_memory(address: Int32) -> cute.Pointer:
    """Return a Tensor Memory address as a pointer."""
    return cute.make_ptr(Int32, address, mem_space=AddressSpace.tmem)

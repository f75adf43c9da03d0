"""Virtual memory: addresses and memory apart (CUDA Driver API, "Virtual Memory Management")."""

from __future__ import annotations

from typing import Final

from ..base.codes import CudaError, Status
from ..base.objects import Physical
from ..base.session import Session
from ..base.table import entry

GRANULARITY: Final = 2 << 20
READ_WRITE: Final = 3
COMPRESSION_OFFSET: Final = 24
"""Of `compressionType` in `CUmemAllocationProp`."""


@entry("cuMemGetAllocationGranularity")
def granularity(s: Session, out: int) -> None:
    """Give the bytes in whose multiples memory is made and mapped."""
    s.program.put(out, "Q", GRANULARITY)


@entry("cuMemAddressReserve")
def reserve(s: Session, out: int, size: int, alignment: int) -> None:
    """Take a range of addresses without memory."""
    if not size or size % GRANULARITY:
        raise CudaError(Status.INVALID_VALUE, f"{size} is no multiple of {GRANULARITY}")
    step = max(alignment, GRANULARITY)
    s.program.put(out, "Q", s.arena.allocate(size, "reserved", step))


@entry("cuMemAddressFree")
def unreserve(s: Session, address: int, _size: int) -> None:
    """Give a range of addresses back."""
    block = s.arena.at(address)
    if block is None or any(block.start <= at < block.end for at in s.arena.mapped):
        raise CudaError(Status.INVALID_VALUE, f"{address:#x} still has memory, or was not reserved")
    s.arena.free(address)


@entry("cuMemCreate")
def create(s: Session, out: int, size: int, wishes: int) -> None:
    """Make memory without an address."""
    if not size or size % GRANULARITY:
        raise CudaError(Status.INVALID_VALUE, f"{size} is no multiple of {GRANULARITY}")
    (compression,) = s.program.read_words(wishes + COMPRESSION_OFFSET, "B") if wishes else (0,)
    s.program.put(out, "Q", s.new(Physical(size, compression=compression)))


@entry("cuMemRelease")
def release(s: Session, handle: int) -> None:
    """Forget memory; where it is mapped it stays."""
    s.drop(handle, Physical)


@entry("cuMemMap")
def map_memory(s: Session, address: int, size: int, offset: int, handle: int) -> None:
    """Put memory at a reserved address."""
    memory, block = s.get(handle, Physical), s.arena.at(address)
    if block is None or block.kind != "reserved" or address + size > block.end:
        raise CudaError(Status.INVALID_VALUE, f"{size} bytes at {address:#x} are not reserved")
    if offset or size != memory.size or memory.mapped_at:
        what = "parts of memory, and memory at several addresses at once, are not modelled"
        raise CudaError(Status.NOT_SUPPORTED, what)
    memory.mapped_at = address
    s.arena.mapped[address] = size


@entry("cuMemUnmap")
def unmap_memory(s: Session, address: int, size: int) -> None:
    """Take memory from its address."""
    inside = [at for at in s.arena.mapped if address <= at < address + size]
    if not inside:
        raise CudaError(Status.INVALID_VALUE, f"nothing is mapped at {address:#x}")
    for at in inside:
        s.arena.discard(at, s.arena.mapped.pop(at))
        for memory in s.all_of(Physical).values():
            memory.mapped_at = 0 if memory.mapped_at == at else memory.mapped_at


@entry("cuMemSetAccess")
def set_access(s: Session, address: int, size: int) -> None:
    """Take who may touch a range; the device always may."""
    s.arena.check(address, size)


@entry("cuMemGetAccess")
def get_access(s: Session, out: int, _location: int, address: int) -> None:
    """Say that the device may read and write."""
    s.arena.check(address, 1)
    s.program.put(out, "Q", READ_WRITE)


@entry("cuMemRetainAllocationHandle")
def retain(s: Session, out: int, address: int) -> None:
    """Give the memory that is mapped at an address."""
    for handle, memory in s.all_of(Physical).items():
        if memory.mapped_at and memory.mapped_at <= address < memory.mapped_at + memory.size:
            s.program.put(out, "Q", handle)
            return
    raise CudaError(Status.INVALID_VALUE)


@entry("cuMemGetAllocationPropertiesFromHandle")
def properties(s: Session, out: int, handle: int) -> None:
    """Say that memory is pinned memory of device 0, compressible if that was asked for."""
    memory = s.get(handle, Physical)
    s.program.put(out, "4IQB", 1, 0, 1, 0, 0, memory.compression)

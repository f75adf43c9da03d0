"""Allocations: device, pinned, managed, pooled (CUDA Driver API, "Memory Management")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ..base.codes import CudaError, Status
from ..base.objects import Pool, Work
from ..base.session import ALLOCATE_NODE, FREE_NODE, Session
from ..base.table import I32, U32, entry
from .device import known_device

PITCH: Final = 512
HOST, DEVICE = 1, 2
"""`CUmemorytype`."""


def allocate(s: Session, out: int, size: int, kind: str = "device") -> None:
    """Allocate and write the address where `out` says.

    Raises:
        CudaError: no size or no room.
    """
    s.check()
    if not size:
        raise CudaError(Status.INVALID_VALUE)
    s.program.put(out, "Q", s.arena.allocate(size, kind, name=s.numbered()))


def allocate_in_stream(s: Session, out: int, size: int, stream: int) -> None:
    """Allocate device memory; for a captured stream, also for the launches of its graph."""
    allocate(s, out, size)
    if s.stream(stream).capture is not None:
        s.submit(stream, allocated_again(s, s.program.read_words(out, "Q")[0]), ALLOCATE_NODE)


def allocated_again(s: Session, address: int) -> Work:
    """Work that allocates as before what was freed since."""
    block = s.arena.at(address)

    def work() -> None:
        if block is not None:
            s.arena.restore(block)
            s.graph_memory.take(address, block.size)

    return work


@entry("cuMemAllocAsync")
def allocate_async(s: Session, out: int, size: int, stream: int) -> None:
    """Allocate device memory in a stream."""
    allocate_in_stream(s, out, size, stream)


@entry("cuMemAlloc_v2")
def allocate_device(s: Session, out: int, size: int) -> None:
    """Allocate device memory."""
    allocate(s, out, size)


@entry("cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync")
def allocate_pooled(s: Session, out: int, size: int, pool: int, stream: int) -> None:
    """Allocate device memory from a pool."""
    s.get(pool, Pool)
    allocate_in_stream(s, out, size, stream)


@entry("cuMemAllocManaged")
def allocate_managed(s: Session, out: int, size: int) -> None:
    """Allocate memory that host and device may touch."""
    allocate(s, out, size, "managed")


@entry("cuMemAllocHost_v2", "cuMemHostAlloc")
def allocate_pinned(s: Session, out: int, size: int) -> None:
    """Allocate host memory that the device may touch."""
    allocate(s, out, size, "pinned")


@entry("cuMemAllocPitch_v2", "cudaMallocPitch")
def allocate_pitch(s: Session, out: int, pitch: int, width: int, height: int) -> None:
    """Allocate rows that begin at multiples of 512 bytes."""
    step = -(-width // PITCH) * PITCH
    allocate(s, out, step * height)
    s.program.put(pitch, "Q", step)


@entry("cuMemFree_v2", "cuMemFreeHost", "cudaFree", "cudaFreeHost")
def free(s: Session, address: int) -> None:
    """Free an allocation; null is accepted."""
    s.check()
    if address:
        s.arena.free(address)
        s.graph_memory.give(address)


@entry("cuMemFreeAsync", "cudaFreeAsync")
def free_async(s: Session, address: int, stream: int) -> None:
    """Free an allocation; what a captured stream frees stays, for the launches of its graph."""
    if s.stream(stream).capture is None:
        free(s, address)
    else:
        s.submit(stream, partial(s.graph_memory.give, address), FREE_NODE)


@entry("cuMemHostRegister_v2", "cuMemHostRegister", "cudaHostRegister")
def register_host(s: Session, address: int, size: int) -> None:
    """Let the device touch host memory: in a copy, brought up to date around every launch."""
    if not size or any(at == address for at, _ in s.shadows.values()):
        raise CudaError(Status.MEMORY_REGISTERED if size else Status.INVALID_VALUE)
    s.shadows[s.arena.allocate(size, "pinned")] = (address, size)


@entry("cuMemHostUnregister", "cudaHostUnregister")
def unregister_host(s: Session, address: int) -> None:
    """Take that back."""
    copies = [copy for copy, (at, _) in s.shadows.items() if at == address]
    if not copies:
        raise CudaError(Status.MEMORY_NOT_REGISTERED)
    del s.shadows[copies[0]]
    s.arena.free(copies[0])


@entry("cuMemHostGetDevicePointer_v2", "cudaHostGetDevicePointer")
def device_pointer(s: Session, out: int, address: int) -> None:
    """Give the address by which the device reaches host memory."""
    for copy, (at, size) in s.shadows.items():
        if at <= address < at + size:
            s.program.put(out, "Q", copy + address - at)
            return
    if s.arena.at(address) is None:
        raise CudaError(Status.INVALID_VALUE, f"{address:#x} is neither pinned nor registered")
    s.program.put(out, "Q", address)


@entry("cuMemHostGetFlags", "cudaHostGetFlags")
def host_flags(s: Session, out: int, address: int) -> None:
    """Give "mapped"."""
    if s.arena.at(address) is None:
        raise CudaError(Status.INVALID_VALUE)
    s.program.put(out, "I", 2)


@entry("cuMemGetAddressRange_v2")
def address_range(s: Session, base: int, size: int, address: int) -> None:
    """Give the allocation that an address lies in."""
    block = s.arena.at(address)
    if block is None:
        raise CudaError(Status.INVALID_VALUE)
    s.program.put(base, "Q", block.start)
    s.program.put(size, "Q", block.size)


@entry("cuMemAdvise", "cuMemAdvise_v2", "cudaMemAdvise", "cudaMemAdvise_v2",
       "cuMemPrefetchAsync", "cuMemPrefetchAsync_v2", "cudaMemPrefetchAsync")  # fmt: skip
def advise(s: Session, address: int, size: int) -> None:
    """Take where managed memory should be, which has no effect."""
    s.arena.check(address, size)


@entry("sm100sim_register")
def register_part(s: Session, address: int, size: int, name: int) -> None:
    """Learn of a part of an allocation: of it, kernels may touch registered parts only."""
    s.arena.check(address, size)
    if not size or s.arena.at(address) is None:
        raise CudaError(Status.INVALID_VALUE, f"{size} bytes at {address:#x} are no device memory")
    s.arena.parts[address] = (size, s.program.string(name) if name else "")


@entry("sm100sim_unregister")
def unregister_part(s: Session, address: int) -> None:
    """Forget a part."""
    if s.arena.parts.pop(address, None) is None:
        raise CudaError(Status.INVALID_VALUE, f"no part at {address:#x} was registered")


# -- pointers -----------------------------------------------------------------------------------

_ATTRIBUTES: Final[dict[int, tuple[str, Callable[[Session, Any, int], int]]]] = {
    1: ("Q", lambda s, _block, _at: s.primary_handle),
    2: ("I", lambda _s, block, _at: DEVICE if block.kind == "device" else HOST),
    3: ("Q", lambda _s, _block, at: at),
    4: ("Q", lambda _s, block, at: 0 if block.kind in ("device", "reserved") else at),
    6: ("I", lambda _s, _block, _at: 0),
    7: ("Q", lambda _s, block, _at: block.start),
    8: ("I", lambda _s, block, _at: int(block.kind == "managed")),
    9: ("i", lambda _s, _block, _at: 0),
    10: ("I", lambda _s, _block, _at: 0),
    11: ("Q", lambda _s, block, _at: block.start),
    12: ("Q", lambda _s, block, _at: block.size),
    13: ("I", lambda _s, _block, _at: 1),
    14: ("I", lambda _s, _block, _at: 0),
    16: ("I", lambda _s, _block, _at: 3),
    17: ("Q", lambda _s, _block, _at: 0),
}
"""By number of `CUpointer_attribute`: form of the value, and the value."""


@entry("cuPointerGetAttribute")
def pointer_attribute(s: Session, out: int, number: U32, address: int) -> None:
    """Give what is known of an address."""
    block = s.arena.at(address)
    if block is None:
        raise CudaError(Status.INVALID_VALUE)
    if number not in _ATTRIBUTES:
        raise CudaError(Status.INVALID_VALUE, f"pointer attribute {number} is not known here")
    form, value = _ATTRIBUTES[number]
    s.program.put(out, form, value(s, block, address))


@entry("cuPointerGetAttributes")
def pointer_attributes(s: Session, count: U32, numbers: int, places: int, address: int) -> None:
    """Give several; of an address that is not device memory, zeros."""
    block = s.arena.at(address)
    wanted = s.program.read_words(numbers, f"{count}I")
    for number, place in zip(wanted, s.program.read_words(places, f"{count}Q"), strict=True):
        if number not in _ATTRIBUTES:
            raise CudaError(Status.INVALID_VALUE, f"pointer attribute {number} is not known here")
        form, value = _ATTRIBUTES[number]
        s.program.put(place, form, 0 if block is None else value(s, block, address))


@entry("cuPointerSetAttribute")
def set_pointer_attribute(s: Session, _value: int, _number: U32, address: int) -> None:
    """Take an attribute; copies are synchronous anyway."""
    if s.arena.at(address) is None:
        raise CudaError(Status.INVALID_VALUE)


# -- pools --------------------------------------------------------------------------------------


@entry(
    "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool", "cudaDeviceGetDefaultMemPool",
    "cudaDeviceGetMemPool",
)  # fmt: skip
def device_pool(s: Session, out: int, device: I32) -> None:
    """Give the pool of the device."""
    known_device(device)
    pools = s.all_of(Pool)
    chosen = s.runtime.get("pool") or next(iter(pools), 0) or s.new(Pool())
    s.program.put(out, "Q", chosen)


@entry("cuDeviceSetMemPool", "cudaDeviceSetMemPool")
def set_device_pool(s: Session, device: I32, pool: int) -> None:
    """Make a pool that of the device."""
    known_device(device)
    s.get(pool, Pool)
    s.runtime["pool"] = pool


@entry("cuMemPoolCreate", "cudaMemPoolCreate")
def create_pool(s: Session, out: int) -> None:
    """Make a pool."""
    s.program.put(out, "Q", s.new(Pool()))


@entry("cuMemPoolDestroy", "cudaMemPoolDestroy")
def destroy_pool(s: Session, pool: int) -> None:
    """Forget a pool."""
    s.drop(pool, Pool)


@entry("cuMemPoolTrimTo", "cuMemPoolSetAccess", "cudaMemPoolTrimTo", "cudaMemPoolSetAccess")
def pool_wish(s: Session, pool: int) -> None:
    """Take a wish without effect: memory that is freed is given back at once."""
    s.get(pool, Pool)


@entry("cuMemPoolGetAccess", "cudaMemPoolGetAccess")
def pool_access(s: Session, out: int, pool: int) -> None:
    """Say that the device may read and write."""
    s.get(pool, Pool)
    s.program.put(out, "I", 3)


_WIDE = frozenset({4, 5, 6, 7, 8})
"""Attributes of pools with 64 bits; the others have 32."""


@entry("cuMemPoolSetAttribute", "cudaMemPoolSetAttribute")
def set_pool_attribute(s: Session, pool: int, number: U32, value: int) -> None:
    """Remember an attribute."""
    form = "Q" if number in _WIDE else "i"
    s.get(pool, Pool).attributes[number] = s.program.read_words(value, form)[0]


@entry("cuMemPoolGetAttribute", "cudaMemPoolGetAttribute")
def pool_attribute(s: Session, pool: int, number: U32, out: int) -> None:
    """Give an attribute; of the bytes in use, those of all device memory."""
    found = s.get(pool, Pool).attributes
    beginning = s.arena.used() if number in (5, 6, 7, 8) else int(number in (1, 2, 3))
    value = found.get(number, beginning)
    s.program.put(out, "Q" if number in _WIDE else "i", value)


# -- memory of graphs ---------------------------------------------------------------------------

USED_HIGHEST, RESERVED_HIGHEST = 1, 3
"""`CUgraphMem_attribute`; 0 and 2 are what is used and reserved now, which are the same here."""


@entry("cuDeviceGetGraphMemAttribute", "cudaDeviceGetGraphMemAttribute")
def graph_memory(s: Session, device: I32, number: U32, out: int) -> None:
    """Give the bytes that graphs hold, or the most that they have held."""
    known_device(device)
    highest = number in (USED_HIGHEST, RESERVED_HIGHEST)
    s.program.put(out, "Q", s.graph_memory.highest if highest else s.graph_memory.held)


@entry("cuDeviceSetGraphMemAttribute", "cudaDeviceSetGraphMemAttribute")
def set_graph_memory(s: Session, device: I32, number: U32, value: int) -> None:
    """Begin to look for the most again, which is all that may be set."""
    known_device(device)
    if number not in (USED_HIGHEST, RESERVED_HIGHEST) or s.program.read_words(value, "Q")[0]:
        raise CudaError(Status.INVALID_VALUE, "of graph memory, only maxima can be set, to 0")
    s.graph_memory.highest = s.graph_memory.held


@entry("cuDeviceGraphMemTrim", "cudaDeviceGraphMemTrim")
def trim_graph_memory(s: Session, device: I32) -> None:
    """Give back what graphs hold and nothing uses."""
    known_device(device)
    s.graph_memory.trim()

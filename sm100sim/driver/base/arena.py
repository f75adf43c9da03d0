"""Device memory: a file that the simulator and the program map at the same addresses.

There are two regions. What lies in the first is device memory: the program's own access to it
faults, as it would on a machine with a GPU. What lies in the second may be touched by both sides:
pinned and managed memory.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...memory import Allocation
from .codes import CudaError, Status

FIRST_ADDRESS: Final = 0x2000_0000_0000
"""Of the first program's memory; Linux places nothing there by itself."""
PROGRAM_BYTES: Final = 1 << 40
REGION_BYTES: Final = 1 << 38
ALIGNMENT: Final = 512
"""Of every allocation, bytes; at least 256 (CUDA C++ Programming Guide, "Device Memory
Accesses")."""
GAP: Final = 512
"""Bytes between allocations, so that an access past the end of one does not hit the next."""
_FIXED: Final = 0x100000
"""MAP_FIXED_NOREPLACE of Linux."""
_NORESERVE: Final = 0x4000
_PUNCH_HOLE: Final = 0x01 | 0x02


@dataclass
class Block:
    """An allocation.

    Attributes:
        start, size: its bytes; `size` is what was asked for.
        kind: "device", "managed", "pinned", "texture": a record that kernels do not write,
            "heap": what kernels' malloc gives away, or "reserved": an address range without memory.
        name: what findings call it.
    """

    start: int
    size: int
    kind: str
    name: str = ""

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.start + self.size


class Region:
    """A range of addresses and its allocations, in order."""

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._next = start

    def __iter__(self) -> Iterator[Block]:
        return (self._blocks[start] for start in self._starts)

    def add(self, size: int, kind: str, alignment: int) -> Block:
        """Allocate after the last allocation, or else in the first gap.

        Raises:
            CudaError: there is no room.
        """
        start = self._fit(self._next, size, alignment, self.start + self.size)
        if start is None:
            ends = [self.start, *(self._blocks[at].end + GAP for at in self._starts)]
            limits = [*self._starts, self.start + self.size]
            gaps = zip(ends, limits, strict=True)
            found = (self._fit(end, size, alignment, limit) for end, limit in gaps)
            start = next((at for at in found if at is not None), None)
        if start is None:
            raise CudaError(Status.OUT_OF_MEMORY)
        return self.put(Block(start, size, kind))

    def put(self, block: Block) -> Block:
        """Have an allocation at its place."""
        bisect.insort(self._starts, block.start)
        self._blocks[block.start] = block
        self._next = max(self._next, block.end + GAP)
        return block

    @staticmethod
    def _fit(at: int, size: int, alignment: int, limit: int) -> int | None:
        start = -(-at // alignment) * alignment
        return start if start + size + GAP <= limit else None

    def remove(self, start: int) -> Block | None:
        """Free the allocation that begins there; None when none does."""
        block = self._blocks.pop(start, None)
        if block is not None:
            del self._starts[bisect.bisect_left(self._starts, start)]
            if not self._starts:
                self._next = self.start
        return block

    def at(self, address: int) -> Block | None:
        """The allocation that an address lies in."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        block = self._blocks[self._starts[index]]
        return block if address < block.start + max(block.size, 1) else None


class Arena:
    """The memory of one program.

    Attributes:
        file: descriptor of the file that holds it, device memory first.
        device, pinned: the regions.
        mapped: bytes of memory by address, inside of reserved ranges.
        parts: bytes and name by address: what kernels may touch of an allocation that has some.
    """

    def __init__(self, number: int = 0) -> None:
        base = FIRST_ADDRESS + number * PROGRAM_BYTES
        self.device = Region(base, REGION_BYTES)
        self.pinned = Region(base + PROGRAM_BYTES // 2, REGION_BYTES)
        self.mapped: dict[int, int] = {}
        self.parts: dict[int, tuple[int, str]] = {}
        self.file = os.memfd_create("sm100sim")
        os.ftruncate(self.file, 2 * REGION_BYTES)
        self._libc = _c_library()
        for index, region in enumerate((self.device, self.pinned)):
            flags = mmap.MAP_SHARED | _FIXED | _NORESERVE
            access = mmap.PROT_READ | mmap.PROT_WRITE
            at = self._libc.mmap(
                region.start, region.size, access, flags, self.file, index * REGION_BYTES
            )
            if at != region.start:
                raise OSError(ctypes.get_errno(), f"no device memory at {region.start:#x}")

    def close(self) -> None:
        """Unmap it."""
        for region in (self.device, self.pinned):
            self._libc.munmap(region.start, region.size)
        os.close(self.file)

    def region_of(self, address: int) -> Region | None:
        """The region that an address lies in."""
        for region in (self.device, self.pinned):
            if region.start <= address < region.start + region.size:
                return region
        return None

    def allocate(
        self, size: int, kind: str = "device", alignment: int = ALIGNMENT, name: str = ""
    ) -> int:
        """Address of `size` new bytes.

        Raises:
            CudaError: there is no room.
        """
        region = self.pinned if kind in ("pinned", "managed") else self.device
        block = region.add(size, kind, alignment)
        block.name = name
        return block.start

    def free(self, address: int) -> None:
        """Give an allocation back.

        Raises:
            CudaError: none begins there.
        """
        region = self.region_of(address)
        block = None if region is None else region.remove(address)
        if region is None or block is None:
            raise CudaError(Status.INVALID_VALUE, f"free of {address:#x}, which is not allocated")
        for at in [at for at in self.parts if block.start <= at < block.end]:
            del self.parts[at]
        self.discard(block.start, block.size)

    def restore(self, block: Block) -> None:
        """Have an allocation that was freed once more, at its place.

        Raises:
            CudaError: something else is there.
        """
        region = self.region_of(block.start)
        if region is None or region.at(block.start) is block:
            return
        if any(other.start < block.end and block.start < other.end for other in region):
            raise CudaError(Status.OUT_OF_MEMORY, f"{block.start:#x} is taken meanwhile")
        region.put(block)

    def discard(self, start: int, size: int) -> None:
        """Give the pages that lie wholly in a range back to the machine."""
        region = self.region_of(start)
        page = mmap.PAGESIZE
        first, last = -(-start // page) * page, (start + size) // page * page
        if region is not None and first < last:
            offset = first - region.start + (region is self.pinned) * REGION_BYTES
            self._libc.fallocate(self.file, _PUNCH_HOLE, offset, last - first)

    def at(self, address: int) -> Block | None:
        """The allocation that an address lies in."""
        region = self.region_of(address)
        return None if region is None else region.at(address)

    def check(self, address: int, size: int) -> None:
        """Refuse a range of device or pinned memory that is not all inside one allocation.

        Raises:
            CudaError: it is not.
        """
        if self.region_of(address) is None or not size:
            return
        block = self.at(address)
        if block is not None and block.kind == "reserved":
            block = next((b for b in self._mapped_blocks() if b.start <= address < b.end), None)
        if block is None or block.kind == "heap" or address + size > block.end:
            where = "no allocation" if block is None else f"{block.size} bytes at {block.start:#x}"
            raise CudaError(Status.INVALID_VALUE, f"{size} bytes at {address:#x}: {where}")

    def _mapped_blocks(self) -> list[Block]:
        """Memory in reserved ranges; neighbours are one."""
        blocks: list[Block] = []
        for start, size in sorted(self.mapped.items()):
            if blocks and blocks[-1].end == start:
                blocks[-1].size += size
            else:
                blocks.append(Block(start, size, "device"))
        return blocks

    def allocations(self) -> list[Allocation]:
        """What kernels may touch."""
        blocks = [block for region in (self.device, self.pinned) for block in region]
        blocks = [block for block in blocks if block.kind != "reserved" and block.size]
        return [part for block in blocks + self._mapped_blocks() for part in self._parts(block)]

    def _parts(self, block: Block) -> list[Allocation]:
        """The registered parts of an allocation, or all of it."""
        inside = [(at, *part) for at, part in self.parts.items() if block.start <= at < block.end]
        return [
            Allocation(at, size, block.kind != "texture", name, block.kind == "heap")
            for at, size, name in inside or [(block.start, block.size, block.name)]
        ]

    def used(self) -> int:
        """Bytes of device memory that are allocated."""
        blocks = [block for block in self.device if block.kind not in ("reserved", "heap")]
        return sum(block.size for block in blocks) + sum(self.mapped.values())


def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    size, offset, number = ctypes.c_size_t, ctypes.c_int64, ctypes.c_int
    library.mmap.argtypes = [ctypes.c_void_p, size, number, number, number, offset]
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = [ctypes.c_void_p, size]
    library.fallocate.argtypes = [number, number, offset, offset]
    return library

"""Device memory: where allocations lie, and what is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from sm100sim.driver.base.arena import ALIGNMENT, GAP, Arena, Region
from sm100sim.driver.base.codes import CudaError
from sm100sim.memory import Allocation


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena(number=7)
    yield made
    made.close()


def test_allocations_are_aligned_and_apart(arena: Arena) -> None:
    first, second = arena.allocate(3), arena.allocate(5)
    assert first % ALIGNMENT == second % ALIGNMENT == 0
    assert second >= first + 3 + GAP
    assert arena.allocations() == [Allocation(first, 3), Allocation(second, 5)]
    assert arena.used() == 8


def test_a_range_has_to_lie_in_one_allocation(arena: Arena) -> None:
    arena.allocate(1)
    start = arena.allocate(100)
    arena.check(start, 100)
    arena.check(start + 99, 1)
    arena.check(id(arena), 1 << 40)  # not device memory: nobody's affair here
    for address, size in ((start, 101), (start + 100, 1), (start - 1, 1)):
        with pytest.raises(CudaError):
            arena.check(address, size)


def test_freed_memory_is_gone_and_zero_when_it_comes_back(arena: Arena) -> None:
    start = arena.allocate(1 << 20)
    ctypes.memset(start, 1, 1 << 20)
    arena.free(start)
    with pytest.raises(CudaError, match="not allocated"):
        arena.free(start)
    assert arena.allocate(1 << 20) == start
    assert ctypes.string_at(start, 1 << 20) == bytes(1 << 20)


def test_a_full_region_has_gaps() -> None:
    region = Region(0x10000, 4 * (1024 + GAP))
    blocks = [region.add(1024, "device", 512) for _ in range(4)]
    with pytest.raises(CudaError):
        region.add(1, "device", 512)
    region.remove(blocks[1].start)
    assert region.at(blocks[1].start) is None
    assert region.add(600, "device", 512).start == blocks[1].start
    with pytest.raises(CudaError):
        region.add(600, "device", 512)


def test_reserved_addresses_need_memory(arena: Arena) -> None:
    start = arena.allocate(1 << 22, "reserved")
    assert arena.allocations() == []
    arena.mapped[start] = arena.mapped[start + (1 << 21)] = 1 << 21
    arena.check(start + 100, (1 << 22) - 100)
    assert arena.allocations() == [Allocation(start, 1 << 22)]
    del arena.mapped[start]
    with pytest.raises(CudaError):
        arena.check(start + 100, 1)
    arena.check(start + (1 << 21), 1)


def test_pinned_memory_is_elsewhere(arena: Arena) -> None:
    start = arena.allocate(8, "pinned")
    assert arena.region_of(start) is arena.pinned
    assert arena.used() == 0
    ctypes.memset(start, 5, 8)
    assert ctypes.string_at(start, 8) == b"\5" * 8


def test_memory_of_a_graph_comes_back_to_its_place(arena: Arena) -> None:
    start = arena.allocate(64)
    block = arena.at(start)
    assert block is not None
    arena.restore(block)  # nothing to do
    arena.free(start)
    arena.restore(block)
    arena.check(start, 64)
    arena.free(start)
    assert arena.allocate(64) == start
    with pytest.raises(CudaError, match="is taken meanwhile"):
        arena.restore(block)

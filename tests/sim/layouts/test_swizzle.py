"""Swizzles: bit formulas, spans and periods."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.layouts.swizzle import TmaSwizzle

ADDRESSES = np.arange(0, 8192, dtype=np.int64)


@pytest.mark.parametrize(("mode", "bits"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_bits_from_4_are_xored_with_bits_from_7(mode: int, bits: int) -> None:
    mask = (1 << bits) - 1
    expected = [a ^ ((a >> 7 & mask) << 4) for a in ADDRESSES.tolist()]
    assert TmaSwizzle(mode).apply(ADDRESSES).tolist() == expected


def test_atoms_of_32_bytes_change_places_within_128() -> None:
    """PTX ISA, "Swizzling Modes": bits 5 and 6 are XORed with bits 7 and 8."""
    expected = [a ^ ((a >> 7 & 3) << 5) for a in ADDRESSES.tolist()]
    assert TmaSwizzle.B128_ATOM32.apply(ADDRESSES).tolist() == expected


@pytest.mark.parametrize("mode", list(TmaSwizzle))
def test_swizzle_is_a_permutation_of_each_line(mode: TmaSwizzle) -> None:
    moved = mode.apply(ADDRESSES)
    assert sorted(moved.tolist()) == ADDRESSES.tolist()
    assert (moved // 128 == ADDRESSES // 128).all()


PERIODS = {"NONE": 16, "B32": 256, "B64": 512, "B128": 1024, "B128_ATOM32": 512}
"""Bytes after which the pattern repeats; a buffer aligned to it starts at phase 0."""


@pytest.mark.parametrize("mode", list(TmaSwizzle))
def test_pattern_repeats_after_its_period_and_not_before(mode: TmaSwizzle) -> None:
    shift = mode.apply(ADDRESSES) - ADDRESSES
    period = PERIODS[mode.name]
    assert (shift[period:] == shift[:-period]).all()
    if mode != TmaSwizzle.NONE:
        assert (shift[period // 2 :] != shift[: -(period // 2)]).any()


def test_worked_example() -> None:
    """Row 3, chunk 2 of a 1024-aligned 128B buffer moves from 0x1A0 to 0x190."""
    assert TmaSwizzle.B128.apply(np.array([0x1A0])).tolist() == [0x190]


def test_spans() -> None:
    assert [mode.span for mode in TmaSwizzle] == [0, 32, 64, 128, 128]

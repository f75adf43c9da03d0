"""Tensor Memory maps: bijections and the worked examples of the ISA notes."""

import numpy as np
import pytest

from testing.layouts.tmem_addr import (
    TmemAddress,
    a_lanes,
    d_cells,
    layout_letter,
    ld_map,
    scale_cells,
)

COLUMNS_PER_COUNT = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}


@pytest.mark.parametrize("shape", COLUMNS_PER_COUNT)
@pytest.mark.parametrize("count", [1, 2, 8, 32])
def test_a_load_covers_its_block_once(shape: str, count: int) -> None:
    cells = {tuple(cell) for cell in ld_map(shape, count).reshape(-1, 2).tolist()}
    lanes = 32 if shape == "32x32b" else 16
    assert cells == {(r, c) for r in range(lanes) for c in range(COLUMNS_PER_COUNT[shape] * count)}


@pytest.mark.parametrize(
    ("shape", "count", "thread", "expected"),
    [
        ("16x256b", 1, 5, [(1, 2), (1, 3), (9, 2), (9, 3)]),
        ("16x128b", 2, 5, [(1, 1), (9, 1), (1, 5), (9, 5)]),
        ("16x64b", 2, 5, [(9, 0), (9, 2)]),
        ("16x64b", 1, 2, [(0, 1)]),
        ("32x32b", 2, 7, [(7, 0), (7, 1)]),
    ],
)
def test_worked_registers(
    shape: str, count: int, thread: int, expected: list[tuple[int, int]]
) -> None:
    assert [tuple(cell) for cell in ld_map(shape, count)[:, thread].tolist()] == expected


def test_split_halves_of_16x32bx2() -> None:
    cells = ld_map("16x32bx2", 2, 6)
    assert cells[1, 3].tolist() == [3, 1]
    assert cells[1, 19].tolist() == [3, 7]


def test_unknown_shape_is_refused() -> None:
    with pytest.raises(KeyError):
        ld_map("8x32b", 1)


@pytest.mark.parametrize(
    ("m", "group", "columns"), [(256, 2, 64), (128, 2, 32), (128, 1, 64), (64, 1, 64)]
)
def test_accumulator_cells_are_distinct(m: int, group: int, columns: int) -> None:
    cells = d_cells(m, 64, group).reshape(-1, 3)
    assert len({tuple(c) for c in cells.tolist()}) == m * 64
    assert cells[:, 2].max() == columns - 1


def test_worked_accumulator_cells() -> None:
    assert d_cells(128, 64, 2)[70, 40].tolist() == [1, 70, 8]
    assert d_cells(64, 64, 1)[37, 0].tolist() == [0, 69, 0]
    assert d_cells(64, 64, 1, lane0=16)[37, 5].tolist() == [0, 85, 5]


def test_layout_letters() -> None:
    assert [layout_letter(*x) for x in ((256, 2), (128, 2), (128, 1), (64, 1))] == list("ABDF")
    with pytest.raises(ValueError, match="M = 64"):
        layout_letter(64, 2)


def test_a_is_duplicated_for_layout_b_only() -> None:
    assert a_lanes(128, 2)[:, 5].tolist() == [5, 69]
    assert a_lanes(64, 1, lane0=16)[0, 20].item() == 52
    assert a_lanes(256, 2).shape == (1, 128)


def test_addresses_round_trip_and_ignore_the_two_upper_bits() -> None:
    assert TmemAddress(96, 511).encode() == 0x6001FF
    assert TmemAddress.decode(0x6001FF | 3 << 30) == TmemAddress(96, 511)
    with pytest.raises(ValueError, match="outside"):
        TmemAddress.decode(512)


def test_scale_factor_cells() -> None:
    cells = scale_cells(128)
    assert cells[2, 37].tolist() == [69, 1]
    assert np.unique(cells.reshape(-1, 2), axis=0).shape[0] == 512

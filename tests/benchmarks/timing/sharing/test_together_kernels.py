"""Orders of tiles of kernels whose counters are kept, and what their products take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.timing.sharing.together_kernels import (
    KERNELS,
    PERSISTENT,
    Product,
    counted,
    quack_order,
)

KEPT = Path("benchmarks/timing/sharing/together_kernels.json")


def test_quacks_order() -> None:
    """Eight blocks of A by one of B, every other group backwards; or eight of B where A has more.

    By one CTA all 32 by 64 tiles are seen in their order.
    """
    (tiles,) = quack_order((128, 64), 1)
    assert tiles[:9] == (*((k, 0) for k in range(8)), (0, 1))
    assert tiles[8 * 64] == (8, 63)
    assert len(set(tiles)) == 32 * 64
    (tiles,) = quack_order((128, 256), 1)
    assert tiles[:9] == (*((0, k) for k in range(8)), (1, 0))


def test_persistent_ctas_take_turns() -> None:
    assert [tiles[0] for tiles in quack_order((128, 64), 4)] == [(k, 0) for k in range(4)]
    assert quack_order((128, 64), 4)[0][1] == (4, 0)


def test_orders_are_those_of_executed_ctas() -> None:
    """The first tiles of CTA 0, from the first bytes of its copies in a functional run."""
    of = {product.name: product.table[0] for product in KERNELS}
    assert of[PERSISTENT][:4] == ((0, 0), (4, 2), (8, 4), (12, 6))
    quack = "gemm-4096x4096x4096-tile{}-cluster1x1"
    assert of[quack.format("128x64")][:4] == ((0, 0), (4, 16), (0, 33), (4, 49))
    assert of[quack.format("128x128")][:4] == ((0, 0), (16, 4), (30, 8), (14, 12))
    assert of[quack.format("256x128")][:3] == ((0, 0), (4, 16), (8, 30))


def test_what_products_take_and_ask_for() -> None:
    """64 columns of 128 rows by 64: eight products of 32 cycles; CTAs of an SM share them."""
    assert Product("", (128, 64), 4).work == 256
    assert Product("", (128, 64), 4).asks == pytest.approx(96)
    assert Product("", (64, 128), 3, "columns", 3).work == 768
    assert Product("", (64, 128), 3, "columns", 3).asks == pytest.approx(96)
    assert len(Product("", (64, 128), 3, "columns", 3).table) == 3 * 132


def test_what_was_kept_is_of_these_kernels_and_counters() -> None:
    of = {product.name: product for product in KERNELS}
    rows = json.loads(KEPT.read_text())
    assert {row["name"] for row in rows} == set(of)
    for row in rows:
        assert row["asks"] == pytest.approx(of[row["name"]].asks, abs=0.05)
        assert row["chip"] == pytest.approx(counted(row["name"]), abs=0.05)

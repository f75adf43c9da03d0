"""When CTAs begin and end: records are read, and what an H200's say of launches."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from benchmarks.timing.waits.records import BEGIN, END, WORDS
from benchmarks.timing.waits.spans import (
    ENDS,
    evenly,
    first_of_sms,
    launch_part,
    main,
    placed_again,
    places,
    spans,
    tiles,
    usual,
)

GAP, LAUNCH = 312, 4083
"""Cycles of an H200 from one CTA to the next, and of a launch."""


def words() -> np.ndarray:
    """Two CTAs of two warps with room for four records; one warp waits twice for Q."""
    found = np.zeros((2, 2, 4, WORDS), np.uint32)
    found[0, 0] = [(BEGIN, 2**32 - 10, 7, 5000), (0, 20, 90, 0), (0, 520, 530, 0), (END, 990, 7, 9)]
    found[0, 1, :2] = [(BEGIN, 2**32 - 4, 7, 5000), (END, 1090, 7, 9)]
    found[1, 0, :2] = [(BEGIN, 50, 8, 4000), (END, 250, 8, 9)]
    found[1, 1, :2] = [(BEGIN, 40, 8, 4000), (END, 150, 8, 9)]
    return found.ravel()


def test_a_cta_is_there_from_its_first_warp_to_its_last() -> None:
    assert spans(words(), 2, 4) == [(7, 1000, 1100), (8, 0, 210)]


def test_a_tile_lasts_from_one_wait_for_q_to_the_next() -> None:
    assert tiles(words(), 2, 4) == [[500, 470], []]


def test_a_warp_that_wrote_no_begin_is_an_error() -> None:
    with pytest.raises(ValueError, match="no begin"):
        spans(np.zeros(2 * 4 * WORDS, np.uint32), 2, 4)


def kernel() -> dict[str, Any]:
    """Four CTAs of two query tiles, one behind the other on two SMs; 1 cycle a ns."""
    rows = [(0, 0, 1000), (1, 10, 400), (1, 420, 1010), (0, 1020, 400)]
    return {"across": 2, "spans": rows, "mhz" + ENDS: 1000, "cycles" + ENDS: [1500, 1600, 1800]}


def test_ctas_that_are_alike_take_places_as_they_become_free() -> None:
    assert placed_again([1000, 400, 1000, 400], 2, 10) == 1420
    assert usual(kernel()) == [1005, 400]
    assert places(kernel()) == 2
    assert first_of_sms(kernel()) == 700
    assert evenly(kernel(), 10, 100) == 100 + 1425
    assert launch_part(kernel(), 10, 100) == pytest.approx(1 - 1525 / 1600)


def asked(name: str) -> dict[str, Any]:
    """What an H200 wrote of a kernel."""
    kept = json.loads(Path("benchmarks/timing/waits/h200_spans.json").read_text())
    assert kept["card"]["name"] == "NVIDIA H200"
    found: dict[str, Any] = kept["kernels"][f"fa4_cute {name}"]
    return found


@pytest.mark.parametrize(
    ("name", "part"),
    [("two consumers", 0.0094), ("two consumers, 208 registers", 0.0067), ("64 keys", -0.0010),
     ("64 keys, 2 stages", -0.0004), ("48 keys", -0.0018)],
)  # fmt: skip
def test_with_two_consumers_the_launch_takes_longer_than_its_ctas(name: str, part: float) -> None:
    found = launch_part(asked(f"d128-2048 {name}"), GAP, LAUNCH)
    assert found == pytest.approx(part, abs=1e-4)


def test_held_back_boxes_make_the_kernel_as_fast_as_two_slots_do() -> None:
    names = ("one tile a CTA", "one tile a CTA, 2 boxes behind Q", "one tile a CTA, none behind Q",
             "2 stages")  # fmt: skip
    for kind in ("", ENDS):
        whole, *less = [median(asked(f"d64-1024 {name}")["cycles" + kind]) for name in names]
        assert all(0.005 < 1 - cycles / whole < 0.013 for cycles in less)


def test_held_back_boxes_shorten_the_first_wait_for_q() -> None:
    means = []
    for name in ("one tile a CTA", "one tile a CTA, 2 boxes behind Q", "2 stages"):
        waits = asked(f"d64-1024 {name}")["waits"]
        means.append(np.mean([waits[warp][2][2] for warp in (0, 4, 8)]))
    assert [round(means[0] - x) for x in means[1:]] == [185, 163]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "benchmarks/timing/waits/h200_spans.json"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 16
    assert "| fa4_cute d128-2048 two consumers | 700,080 | +0.2% | 42,726 | 42,974 | 1.6% | " in (
        "\n".join(rows)
    )
    assert main([]) == 64

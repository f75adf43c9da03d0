"""When CTAs of a launch begin: the kernels end, and clocks of SMs are brought together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.timing.sharing import starts
from benchmarks.timing.sharing.starts import WORDS, Seen, Starts
from sm100sim.timing.sass.tools import assembled
from testing.hardware.case import Case
from testing.hardware.device import TARGET
from testing.hardware.simulate import simulate

RATE, FAR = 1.98, 123_456_789


def words(rows: list[tuple[int, int, int, int]]) -> starts.Words:
    """SM, begin, end, nanoseconds of each CTA as a kernel writes them."""
    out = np.zeros((len(rows), WORDS), np.uint32)
    for row, (sm, *wide) in zip(out, rows, strict=True):
        row[0] = sm
        row[2:] = np.array(wide, np.int64).view(np.uint32)
    return out.ravel()


def ticks(at: int) -> starts.Words:
    """SM 0 and SM 1, whose clock is `FAR` before; SM 1 sees a tick 32 ns later."""
    return words([(0, at, at, 1000 + int(at / RATE)),
                  (1, at + FAR + round(32 * RATE), 0, 1032 + int(at / RATE))])  # fmt: skip


@pytest.mark.parametrize("asked", [Starts(4), Starts(8, 2, 2), Starts(4, spread=2047)],
                         ids=lambda a: a.name)  # fmt: skip
def test_every_cta_says_where_and_when(asked: Starts) -> None:
    (found,) = simulate(replace(asked, threads=64, lasts=50).case())
    seen = Seen.of(found)
    assert len(seen.sm) == asked.grid
    assert (seen.end >= seen.begin + 50).all()
    assert (seen.nanoseconds > 0).all()


def test_a_tick_is_seen_by_every_sm() -> None:
    (found,) = simulate(starts.ticks(sms=3))
    seen = Seen.of(found)
    assert len(seen.sm) == 3
    assert (seen.begin > 0).all()
    assert (seen.nanoseconds > 0).all()


def answer(asked: Starts, rows: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    return starts.answer(asked, ticks(0), ticks(1_980_000), words(rows))


def test_ctas_of_two_sms_by_one_clock_and_their_gaps() -> None:
    rows = [(0, 5000, 11000, 9), (1, 5040 + FAR, 11060 + FAR, 9), (0, 11312, 17000, 9)]
    found = answer(Starts(3), rows)
    assert found["sms"] == [0, 1, 0]
    assert found["begins"] == [0, pytest.approx(40, abs=1), 6312]
    assert found["gap"] == [312] * 5
    assert max(map(abs, found["offsets moved"])) <= 2


def test_two_places_of_an_sm() -> None:
    """The first end makes room for the third begin."""
    rows = [(0, 0, 6000, 9), (0, 10, 6500, 9), (0, 6305, 12000, 9), (0, 6810, 13000, 9)]
    assert starts.gaps(Seen.of(words(rows)), 2).tolist() == [305, 310]


def test_an_sm_without_a_tick_is_named() -> None:
    with pytest.raises(ValueError, match=r"SMs \[7\] saw none"):
        answer(Starts(1), [(7, 0, 1, 2)])


@pytest.mark.parametrize("case", [Starts(1056, 2, 4).case(), starts.ticks()], ids=lambda c: c.name)
def test_the_assembler_takes_it(case: Case) -> None:
    assert assembled(case.text(TARGET), TARGET)[:4] == b"\x7fELF"


def test_names_are_unique() -> None:
    names = [asked.name for asked in starts.questions()]
    assert len(set(names)) == len(names)


def test_places_say_how_many_sms_are_balanced() -> None:
    """Two CTAs of three warps on each of two SMs, one behind the other on the first of them."""
    asked = starts.Places(3, 2)
    found = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5),
             (1, 0), (1, 1), (1, 2), (1, 4), (1, 5), (1, 6)]  # fmt: skip
    said = asked.answer(np.array(found, np.uint32).ravel())
    assert (said["SMs"], said["balanced"]) == (2, 1)
    (written,) = simulate(replace(asked.case(), grid=2))
    assert written.reshape(-1, 3, 2)[:2, :, 1].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_an_h200_s_warps_lie_one_behind_the_other() -> None:
    record = json.loads(Path("benchmarks/timing/sharing/h200_places.json").read_text())
    assert [entry["name"] for entry in record["answers"]] == [p.name for p in starts.PLACES]
    assert all(entry["balanced"] == entry["SMs"] for entry in record["answers"])

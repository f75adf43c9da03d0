"""Loads that an H200's L1 answers: the machine, asked the same, says what the chip did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing.kept import LINE, QUESTIONS, RINGS, Ring
from benchmarks.timing.micro import table
from benchmarks.timing.questions import ROUNDS
from benchmarks.timing.replayed import WARM, cycles_of_one, draw_for, trace_of_case
from sm100sim.timing.chips import load_chip
from sm100sim.timing.model import run_cluster

RECORD = json.loads(Path("benchmarks/timing/h200_kept.json").read_text())
SAID = {entry["name"]: entry for entry in RECORD["answers"]}
NAMED = {question.name: question for question in QUESTIONS}
SURE = (
    "a chain of ld of one place", "a chain of ld.cg of one place", "a chain of ld.nc of one place",
    "a chain of ld.L1::no_allocate of one place", "4 loads of what the L1 has, a chain, behind "
    "fence.acq_rel.cta", "4 loads of what the L1 has, a chain, behind a store to the sector",
    "4 loads of what the L1 has, a chain, behind a store elsewhere",
    "cp.async.ca of 16 bytes, awaited, of what was copied before",
    "cp.async.cg of 16 bytes, awaited, of what was copied before",
    "16 loads by each of 4 warps that the L1 has, 4 bytes, 128 apart",
)  # fmt: skip


def test_the_record_has_all_answers_and_the_page_shows_them() -> None:
    assert {*NAMED, *(ring.name for ring in RINGS)} == {*SAID}
    asked = [entry for entry in RECORD["answers"] if "one" in entry]
    rows = table({"answers": asked}).splitlines()[2:]
    page = Path("docs/timing_probes.md").read_text()
    assert all(row.rpartition("|")[0].rpartition("|")[0] in page for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", SURE)
def test_the_machine_answers_as_the_chip(name: str) -> None:
    question = NAMED[name]
    assert cycles_of_one(question, draw_for(question)) == pytest.approx(
        SAID[name]["one"], rel=0.03
    )


@pytest.mark.slow
def test_a_ring_that_is_too_large_stays_in_part() -> None:
    """48, 64 and 96 KB beside 192 KB of shared memory, which leave 54."""
    draw = load_chip("h200").draw()
    draw = replace(draw, values={**draw.values, **WARM, "l2_pressure": 0.0})
    for kilobytes, near in ((48, 0.02), (64, 0.10), (96, 0.15)):
        ring = Ring(kilobytes * 1024 // LINE, 192 * 1024)
        found = run_cluster(trace_of_case(ring.case()), draw)
        assert found.l1_asked == ROUNDS * ring.lines
        chip = np.array(SAID[ring.name]["rounds"][1:])
        share = 1 - (chip.mean() - 42.2) / (287 - 42.2)
        ours = found.l1_answered / (found.l1_asked - ring.lines)
        assert ours == pytest.approx(share, abs=near)

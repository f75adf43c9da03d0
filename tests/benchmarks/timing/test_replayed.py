"""The clocked machine gives the answers of the H200 from which its values come."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks.timing import replayed
from benchmarks.timing.beside import BESIDE_QUESTIONS, LANE_QUESTIONS
from benchmarks.timing.more_questions import (
    ASKED_QUESTIONS,
    CONVERSION_QUESTIONS,
    MORE_QUESTIONS,
)
from benchmarks.timing.questions import QUESTIONS, Question
from sm100sim.timing.chips import load_chip

RECORD = json.loads(Path("benchmarks/timing/h200.json").read_text())
SAID = replayed.answers_of(RECORD)
BY_NAME = {question.name: question for question in QUESTIONS}
MORE, BESIDE = (json.loads(Path(f"benchmarks/timing/h200_{name}.json").read_text())
                for name in ("more", "beside"))  # fmt: skip
ALL_SAID = replayed.answers_of(MORE)
CYCLES = {entry["name"]: entry["cycles"] for entry in BESIDE["answers"]}

EXACT = {
    "mufu_latency": ("ex2, a chain",),
    "shared_latency": ("load of shared memory, a chain",),
    "named_warp": ("barrier of 12 warps",),
    "named_latency": ("barrier of 1 warps", "barrier of 4 warps"),
    "wait_latency": ("wait for a phase that ended",),
    "membar_cycles": ("memory barrier of a CTA",),
    "fence_cycles": ("proxy fence of shared memory",),
    "wgmma_gap": (
        "wgmma m64n128k16, A in shared memory, 1 warp group",
        "wgmma m64n256k16, A in shared memory, 1 warp group",
        "wgmma m64n128k16, A in registers, 1 warp group",
        "wgmma m64n128k16, A in shared memory, 2 warp groups",
    ),
    "store_read_latency": ("store of 128 rows, read",),
    "store_latency": ("store of 128 rows, done",),
}
"""Which answers a measured value comes from."""
SLOPES = {"l2_bytes", "l2_shared_bytes"}
OF_COPIES = {"copy_latency", "copy_row_cycles", "copy_bytes", "copy_issue_cycles"}
COPIES = {question.name: question for question in MORE_QUESTIONS
          if re.match(r"copy .* a whole warp waits", question.name)}  # fmt: skip


@cache
def machine(name: str) -> float:
    question = BY_NAME[name]
    return replayed.cycles_of_one(question, replayed.draw_for(question))


def test_every_measured_value_names_its_answers() -> None:
    values = load_chip(replayed.CHIP).parameters.values()
    probed = {p.name for p in values if p.status == "measured" and "micro" in p.source}
    assert probed == {*EXACT, *OF_COPIES, *SLOPES}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for names in EXACT.values() for name in names}))
def test_the_machine_answers_as_the_chip_did(name: str) -> None:
    assert machine(name) == pytest.approx(SAID[name], abs=1.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COPIES if " 8 rows" not in name])
def test_a_whole_warp_sees_a_copy_when_the_chip_did(name: str) -> None:
    question = COPIES[name]
    one = replayed.cycles_of_one(question, replayed.draw_for(question))
    assert one == pytest.approx(ALL_SAID[name], rel=0.012)


BESIDES = ("no products", "n64, A in registers", "n128", "n256")
RATES = {
    **{f"{work} of {n} warps a sub-partition beside {beside}":
       alone if beside == BESIDES[0] else off
       for work, alone, off in (("additions", 0.01, 0.065), ("maxima", 0.01, 0.025),
                                ("exponentials", 0.01, 0.01),
                                ("multiplications and additions", 0.025, 0.06))
       for n in (1, 2) for beside in BESIDES},
    **{f"scores of {n} warps a sub-partition beside {beside}": off
       for n in (1, 2) for beside, off in (("no products", 0.07), ("n256", 0.05))},
}  # fmt: skip
"""How far the cycles of one step are off at most."""
FEW = ("exponentials of 2 warps a sub-partition beside no products",
       "scores of 2 warps a sub-partition beside no products",
       "exponentials of 2 warps a sub-partition beside n64, A in registers",
       "additions of 2 warps a sub-partition beside n128",
       "scores of 2 warps a sub-partition beside n256")  # fmt: skip
"""The questions of every run, besides those of 1 warp alone: ptxas takes seconds for each."""
ALONE = f"1 warps a sub-partition beside {BESIDES[0]}"
START, BARE_START = 140, 130
"""Cycles that the machine's start is off at most, but for scores: as the shorter run has it, and
without what its steps take."""
BEYOND = {"maxima of 2 warps a sub-partition beside n64, A in registers": 150}
"""What is known to start further off (docs/timing_probes.md)."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in FEW or ALONE in name else pytest.mark.exhaustive)
    for name in RATES
])  # fmt: skip
def test_instructions_take_beside_products_what_they_took_on_the_chip(name: str) -> None:
    question = next(q for q in BESIDE_QUESTIONS if q.name == name)
    (short, long), said = replayed.clocked(question, replayed.draw_for(question)), CYCLES[name]
    assert long - short == pytest.approx(said[1] - said[0], rel=RATES[name])
    first, last = question.counts
    start, its = (a - (b - a) * first / (last - first) for a, b in ((short, long), said))
    if "scores" not in name:
        assert short == pytest.approx(said[0], abs=BEYOND.get(name, START))
        assert start == pytest.approx(its, abs=BARE_START)


@pytest.mark.slow
def test_the_l2_gives_all_sms_together_what_more_boxes_cost() -> None:
    few, many = (f"copy of {n} x 128 rows in each of 132 CTAs" for n in (4, 8))
    more = 4 * 128 * 128 * 132
    assert more / (SAID[many] - SAID[few]) == pytest.approx(
        load_chip(replayed.CHIP).parameters["l2_bytes"].value, rel=0.002
    )
    assert machine(many) - machine(few) == pytest.approx(SAID[many] - SAID[few], rel=0.01)


def streams(kind: str) -> tuple[float, float]:
    """Bytes a cycle of what torch reads or writes, and the cycles that it takes besides."""
    rows = json.loads(Path("benchmarks/timing/h200_cycles.json").read_text())["rows"]
    found = [(int(row["name"].split()[2]) << 20, row["cycles"]) for row in rows
             if row["name"].startswith(f"{kind} of ")]  # fmt: skip
    sizes, cycles = np.array(found, float).T
    each, rest = np.polyfit(sizes, cycles, 1)
    return float(1 / each), float(rest)


def test_streams_say_what_a_launch_costs_and_how_memory_is_written() -> None:
    """Of 16 to 1,024 MiB. Reading begins by putting away what the flush wrote."""
    values = {name: p.value for name, p in load_chip(replayed.CHIP).parameters.items()}
    clock = values["clock_mhz"] / 1e3
    (written, launch), (read, before) = streams("write"), streams("read")
    assert values["launch_cycles"] == pytest.approx(launch, abs=1)
    assert values["hbm_write_gbytes"] == pytest.approx(written * clock, rel=0.001)
    assert values["l2_dirty_bytes"] == pytest.approx((before - launch) * written, rel=0.001)
    assert values["hbm_gbytes"] == pytest.approx(read * clock, rel=0.04)  # a decoding step's


@pytest.mark.slow
def test_probes_that_answered_nothing_are_repaired() -> None:
    """The compiler took both chains apart: the record has 0, the machine executes every step."""
    for name in ("shuffle, a chain", "load that hits the L2, a chain"):
        assert SAID[name] == 0
        assert machine(name) > 20


def test_more_questions_have_names_of_their_own_and_are_replayed() -> None:
    names = [question.name for question in MORE_QUESTIONS]
    assert len({*names, *BY_NAME}) == len(names) + len(BY_NAME)
    question = next(q for q in MORE_QUESTIONS if q.name.startswith("copy of 1 x 128"))
    one = replayed.cycles_of_one(question, replayed.draw_for(question))
    assert one == pytest.approx(ALL_SAID[question.name], rel=0.012)


def test_the_table_shows_both(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        replayed.main([])
    assert ended.value.code == 2
    assert "record" in capsys.readouterr().err


@pytest.mark.slow
def test_waits_that_the_assembler_adds_are_followed() -> None:
    """The registers of A do not suffice for 40 products: each waits for the one before."""
    question = BY_NAME["wgmma m64n256k16, A in registers, 1 warp group"]
    trace = replayed.trace_of(question, 40)
    code = trace.kernel.instructions
    waits = [k for k in trace.streams[0].order if "DEPBAR" in code[k].modifiers]
    assert len(waits) == 4 * 40


LANES = json.loads(Path("benchmarks/timing/h100_lanes.json").read_text())


def test_the_gap_between_ctas_is_an_h100s() -> None:
    """Where the SM has warps left to place: at 64 of them it takes longer."""
    gaps = [row["gap"] for row in LANES["gaps"] if row["block"] * row["resident"] <= 1024]
    value = load_chip("h100").parameters["cta_cycles"]
    assert value.value == pytest.approx(median(gap[1] for gap in gaps), abs=5)
    assert (value.low, value.high) == pytest.approx((257, 362), abs=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slots", "beside", "rel"),
    [
        (2, "", 0.015), (3, "", 0.015), (3, " beside n64", 0.04),
        pytest.param(2, " beside n64", 0.04, marks=pytest.mark.exhaustive),
    ],
)
def test_copies_by_lanes_of_one_sm_take_what_an_h100_says(
    slots: int, beside: str, rel: float
) -> None:
    """Two slots: each step waits for all of it. Three: one is on its way meanwhile."""
    name = f"128 and 128 rows by 128 lanes, {slots} slots, in each of 1 CTAs, 1 with the same A"
    name += beside
    question = next(q for q in LANE_QUESTIONS if q.name == name)
    said = next(row["cycles"] for row in LANES["answers"] if row["name"] == name)
    short, long = replayed.clocked(question, replayed.draw_for(question))
    assert long - short == pytest.approx(said[1] - said[0], rel=rel)


CONVERSIONS = replayed.answers_of(
    json.loads(Path("benchmarks/timing/h200_conversions.json").read_text())
)


def test_a_conversion_to_eight_bits_takes_an_h200_what_one_to_bf16_takes() -> None:
    for warps in (1, 2, 4):
        eight, sixteen = (CONVERSIONS[f"32 conversions to {kind} of {warps} warps a sub-partition"]
                          for kind in ("e4m3", "bf16"))  # fmt: skip
        assert eight == pytest.approx(sixteen, rel=0.01)
        assert eight == pytest.approx(32 * 2 * warps, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["e4m3", "bf16"])
@pytest.mark.parametrize("among", ["", " among 32 maxima"])
def test_conversions_take_the_alu_as_long_as_on_the_chip(kind: str, among: str) -> None:
    name = f"32 conversions to {kind} of 1 warps a sub-partition{among}"
    question = next(q for q in CONVERSION_QUESTIONS if q.name == name)
    short, long = replayed.clocked(question, replayed.draw_for(question))
    steps = question.counts[1] - question.counts[0]
    assert (long - short) / steps == pytest.approx(CONVERSIONS[name], rel=0.005)


ASKED_FOR = {
    entry["name"]: entry["cycles"]
    for entry in json.loads(Path("benchmarks/timing/h200_asked.json").read_text())["answers"]
}


def test_registers_of_boxes_are_read_as_late_as_a_loop_over_lanes_says() -> None:
    """From one box to the next; the machine takes 54 cycles if it need not wait for them."""
    known = load_chip(replayed.CHIP).parameters["tma_read_latency"]
    short, long = ASKED_FOR["box of 16 rows asked for by lane 0"]
    question = next(q for q in ASKED_QUESTIONS if q.name == "box of 16 rows asked for by lane 0")
    draw = replayed.draw_for(question)
    early = replace(draw, values={**draw.values, "tma_read_latency": 0.0})
    few, many = replayed.clocked(question, early)
    # The loop asks its next lane 25 cycles after a box.
    assert 25 + (long - short - many + few) / 12 == pytest.approx(known.value, abs=1)


@pytest.mark.parametrize("question", ASKED_QUESTIONS, ids=lambda q: q.name)
def test_a_warp_asks_for_boxes_as_fast_as_on_the_chip(question: Question) -> None:
    found = replayed.clocked(question, replayed.draw_for(question))
    assert found == pytest.approx(ASKED_FOR[question.name], rel=0.07)

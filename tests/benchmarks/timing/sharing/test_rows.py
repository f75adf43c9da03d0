"""Rows that lanes load and wait for: the questions end, the page has the answers, and the machine,
asked the same, gives them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np
import pytest

from benchmarks.timing.questions import SMS
from benchmarks.timing.replayed import WARM
from benchmarks.timing.sharing.cold import ROUNDS, Cold
from benchmarks.timing.sharing.cold import WARM as RING
from benchmarks.timing.sharing.rows import (
    BOXES,
    NEIGHBOURS,
    OWN,
    SIZES,
    Rows,
    box_machine,
    box_questions,
    box_table,
    machine,
    own,
    questions,
    table,
)
from sm100sim.timing.chips import load_chip
from sm100sim.timing.predict.memory import CHUNK_BYTES, lost
from testing.hardware.simulate import simulate

SAID = {
    entry["name"]: entry
    for entry in json.loads(Path("benchmarks/timing/sharing/h200_rows.json").read_text())["answers"]
}


def said(asked: Rows) -> float:
    """The chip's cycles of a row, the mean of all CTAs."""
    return float(SAID[asked.name]["row"][0])


@pytest.mark.parametrize(
    "asked",
    [Rows(64, 2, 2, 1 << 14, steps=3), Rows(32, 1, 2, NEIGHBOURS, width=4, steps=3),
     Rows(32, 1, 2, 1 << 14, ring=4, pace=300, steps=6),
     Rows(1, 1, 2, 1 << 14, width=4, onward=64, steps=4),
     Rows(64, 1, 3, 1 << 14, added=True, steps=3)],
    ids=lambda q: q.name,
)  # fmt: skip
def test_rows_end(asked: Rows) -> None:
    cycles, counts, _ = simulate(asked.case())
    assert cycles.size == asked.ctas * ROUNDS * asked.steps
    assert ((cycles > 0) & (cycles < 1 << 20)).all()
    assert (counts.reshape(-1, 32)[:, 0] == ROUNDS * asked.steps * asked.added).all()
    assert (counts.reshape(-1, 32)[:, 1:] == 0).all()


def test_answers_leave_the_first_round_out() -> None:
    asked = replace(Rows(128, 1, 2), steps=2)
    found = np.array([[999, 99, 10, 20, 30, 40], [999, 99, 50, 60, 70, 80]], np.uint32)
    answer = asked.answer(found.ravel())
    assert answer["row"] == [45, 25, 65]
    assert answer["deviation"] == round(float(found[:, 2:].std()), 1)


def test_questions_have_answers() -> None:
    assert [asked.name for asked in questions()] == list(SAID)
    assert table(SAID.values()) in Path("docs/timing_probes.md").read_text()


def test_memory_brings_64_bytes_at_once() -> None:
    """From there on a lane waits for each of a chain, whatever lies between two."""
    for ctas in (12, SMS):
        chain = Rows(1, 1, ctas, width=4, steps=64)
        far = [said(replace(chain, onward=64 << n)) for n in range(7)]
        assert max(far) < 1.03 * min(far)
        near = said(Rows(32, 1, SMS, ring=RING))
        assert said(replace(chain, onward=32)) == pytest.approx((mean(far) + near) / 2, rel=0.03)


def test_a_wait_is_longer_by_what_is_under_way() -> None:
    """`hbm_ahead`: of 132 SMs, with other work in between, over those of four that lie idle."""
    chip = load_chip("h200").parameters
    rate = chip["hbm_gbytes"].value * 1e3 / chip["clock_mhz"].value
    for threads, loads in SIZES[2:5]:
        row = Rows(threads, loads)
        for pace in (0, 500, 1000, 3000):
            wait = said(replace(row, pace=pace))
            alone = said(replace(row, ctas=4))
            under_way = SMS * row.size / rate * wait / (wait + pace)
            share = (wait - alone) / under_way
            assert 0.45 < share < chip["hbm_ahead"].high + 0.1


def test_the_chips_deviation_is_that_of_single_lanes() -> None:
    chip = load_chip("h200").parameters["hbm_deviation"]
    found = [
        SAID[Rows(1, 1, ctas, width=4, onward=64 << n, steps=64).name]["deviation"]
        for ctas in (12, SMS)
        for n in range(7)
    ]
    assert mean(found) == pytest.approx(chip.value, rel=0.05)
    assert (chip.low, chip.high) == pytest.approx((min(found), max(found)), abs=2)


def test_atomics_take_an_sm_always_as_long_and_another_longer() -> None:
    chip = load_chip("h200").parameters
    counted, plain = (Rows(128, 1, ring=RING, added=added) for added in (True, False))
    one, least, most = (a - said(plain) for a in SAID[counted.name]["row"])
    latency = chip["global_latency"].value + chip["atomic_latency"].value
    assert one == pytest.approx(latency, rel=0.15)
    assert (most - least) / 12**0.5 == pytest.approx(chip["atomic_deviation"].value, rel=0.1)


LANE = Rows(1, 1, SMS, width=4, steps=64)
BOXED = json.loads(Path("benchmarks/timing/sharing/h200_boxes.json").read_text())["answers"]


def test_boxes_have_answers() -> None:
    assert [asked.name for asked in box_questions()] == [entry["name"] for entry in BOXED]
    assert box_table(BOXED) in Path("docs/timing_probes.md").read_text()


@pytest.mark.parametrize("columns", [128, 4096])
def test_boxes_wait_for_the_last_of_their_rows_as_lanes_do(columns: int) -> None:
    """Of four SMs: where rows lie apart each is a chunk of its own, and together eight are one.

    Steps of fewer than 8 KB that lie together are found before, as those of an SM that is alone.
    """
    chip, waits = load_chip("h200").parameters, {e["name"]: e["wait"][0] for e in BOXED}
    drawn = np.random.default_rng(0).standard_normal((4000, 2 * BOXES[-1]))
    for rows in BOXES if columns > 128 else BOXES[2:]:
        chunks = 2 * rows if columns > 128 else 2 * rows * 128 // CHUNK_BYTES
        last = drawn[:, :chunks].max(axis=1).mean()
        cold, warm = (waits[own(OWN[0], rows, columns, cold=c).name] for c in (True, False))
        mean_of_one = 385  # a lane's, from memory and from the L2 (above)
        law = mean_of_one + chip["hbm_deviation"].value * last
        assert cold - warm == pytest.approx(law, rel=0.1)


ASKED = (
    *((Rows(threads, loads, ctas), 0.065) for threads, loads in SIZES[1:] for ctas in (33, 66)),
    *((Rows(threads, loads, SMS), 0.055) for threads, loads in SIZES[1:-1]),
    (Rows(*SIZES[-1], SMS), 0.21),  # memory has no time left
    (Rows(32, 1, SMS, width=4), 0.05),
    *((replace(LANE, onward=onward), 0.07) for onward in (64, 512, 4096)),
    (replace(LANE, onward=32), 0.16),
    # from the L2: a barrier that reduces takes longer than in the machine
    *((Rows(*size, ctas, ring=RING), 0.155) for size in SIZES for ctas in (1, 33, SMS)),
)


def test_the_l2_keeps_what_the_chips_file_says() -> None:
    """Rings of all SMs: where the first wait for memory, and where all do."""
    chip = load_chip("h200").draw()
    rings = [asked for asked in questions() if asked.ring > RING]
    assert len(rings) == 12
    near, far = (said(rings[0]), said(rings[-1]))
    for ring in rings:
        waits = (said(ring) - near) / (far - near)
        assert waits == pytest.approx(lost(SMS * ring.ring * ring.size, chip), abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "off"), ASKED, ids=lambda q: getattr(q, "name", None))
def test_the_machine_gives_the_chips_answer(asked: Rows, off: float) -> None:
    """From row to row, which on the chip takes some 40 cycles more than what is said of a row."""
    draw = load_chip("h200").draw()
    draw = replace(draw, values={**draw.values, **WARM})
    counts = (2, 10) if asked.size > 8192 else (4, 20)
    assert machine(asked, draw, counts) == pytest.approx(said(asked) + 40, rel=off)


TURN: Final = 63
"""Cycles of a step that the chip takes beside its wait and the machine does not: one lane of a warp
asks for two copies."""
BOX_STEPS = (
    *((own(count, rows, 128, cold=True), 0.14) for count in OWN for rows in BOXES[2:]),
    *((own(count, rows, 4096, cold=True), 0.12) for count in OWN[:2] for rows in BOXES),
    *((own(SMS, rows, 4096, cold=True), 0.15) for rows in BOXES[:-1]),
)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "off"), BOX_STEPS, ids=lambda q: getattr(q, "name", None))
def test_the_machine_gives_the_chips_answer_of_boxes(asked: Cold, off: float) -> None:
    draw = load_chip("h200").draw()
    draw = replace(draw, values={**draw.values, **WARM})
    (said_of,) = (entry["step"][0] for entry in BOXED if entry["name"] == asked.name)
    assert box_machine(asked, draw) + TURN == pytest.approx(said_of, rel=off)

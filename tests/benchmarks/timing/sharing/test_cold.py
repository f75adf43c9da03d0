"""Copies and stores whose rows are in no cache: the kernels end, and their answers are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.timing.questions import ROW_BYTES
from benchmarks.timing.sharing import cold
from benchmarks.timing.sharing.cold import ROUNDS, WORDS, Cold, Stores
from sm100sim.timing.chips import load_chip
from testing.hardware.simulate import simulate

BOTH = (((0, 0),),) * 2
APART = (((0, 0),), ((0, 1),))
POOL = (1 << 28) - (1 << 20)
"""Bytes of the device's pool that a tensor may take."""


@pytest.mark.parametrize(
    "asked",
    [
        Cold("both the same", BOTH, 1, steps=4),
        Cold("both the same", BOTH, 2, 100, apart=50, steps=4),
        Cold("both the same", BOTH, 3, cold=False, steps=6),
        Cold("the same A", APART, 2, 10, columns=512, rows=16, steps=4),
        Cold("the same A", APART, 2, 10, cold=False, columns=512, rows=16, steps=4),
    ],
    ids=lambda q: q.name,
)
def test_copies_end_and_every_cta_writes(asked: Cold) -> None:
    found, _ = simulate(asked.case())
    rows = found[:-1].reshape(len(asked.table), WORDS)[:, 1:].reshape(-1, ROUNDS, 2)
    assert (rows[..., 0] > rows[..., 1]).all()
    assert (rows[..., 1] > 0).all()
    assert found[-1] == len(asked.table) * ROUNDS


@pytest.mark.parametrize(
    ("boxes", "columns", "fresh"), [(1, 256, True), (2, 256, True), (3, 64, True), (1, 64, False)]
)
def test_stores_write_a_tile_a_step(boxes: int, columns: int, fresh: bool) -> None:
    asked = Stores(boxes, False, 2, 50, fresh, columns, steps=2, rows=16)
    found, data = simulate(asked.case())
    assert (found[:-1].reshape(2, WORDS)[:, 1:] > 0).all()
    tiles = 2 * (ROUNDS * asked.steps if fresh else 1)
    assert np.count_nonzero(data) == tiles * boxes * asked.rows * ROW_BYTES


def test_an_answer_leaves_the_first_round_out() -> None:
    asked = Cold("both the same", BOTH, 1, steps=10)
    words = [[9, 9999, 9999, 500, 100, 700, 300], [8, 9999, 9999, 900, 500, 1100, 700]]
    found = cold.answer(asked, np.array([*np.ravel(words), 6], np.uint32))
    assert found["step"] == [80.0, 50.0, 110.0]
    assert found["wait"] == [40.0, 10.0, 70.0]
    assert found["rounds"] == [70.0, 90.0]


def test_questions_have_names_of_their_own_and_fit_the_pool() -> None:
    asked: tuple[Cold | Stores, ...] = (*cold.cold_questions(), *cold.store_questions())
    assert len({q.name for q in asked}) == len(asked)
    for question in asked:
        for box in question.case().maps:
            assert box.sizes[0] * box.sizes[1] * 2 < POOL


def waits(name: str = "cold") -> dict[str, dict[str, Any]]:
    """An H200's answers by question."""
    kept = json.loads(Path(f"benchmarks/timing/sharing/h200_{name}.json").read_text())
    assert kept["device"] == "NVIDIA H200"
    return {entry["name"]: entry for entry in kept["answers"]}


def longer(who: str, work: str = "") -> float:
    """Cycles of a wait for rows from memory, less those of rows of the L2."""
    said = waits()
    memory, near = (
        said[f"2 boxes of 64 rows, 1 ahead, {who}{work}, from {where}"]["wait"][0]
        for where in ("memory", "the L2")
    )
    return float(memory - near)


def test_the_chips_latency_of_copies_from_memory_is_what_an_sm_alone_waits() -> None:
    known = load_chip("h200").parameters["copy_memory_latency"]
    assert known.value == pytest.approx(longer("alone"), abs=1)
    for who in ("16 in a row the same", "132 in a row the same"):
        for work in ("", ", 1000 cycles of work"):
            assert known.value <= longer(who, work) <= known.high
    lanes = [e["step"][0] for name, e in waits("lanes").items() if " copies of " in name]
    assert len(lanes) == 50


def test_the_end_of_a_store_is_no_later_than_its_reading() -> None:
    said = waits()
    ended = {name: e for name, e in said.items() if name.endswith(", ended")}
    assert len(ended) == 18
    for name, entry in ended.items():
        read = said[name.replace(", ended", ", read")]
        assert entry["wait"][0] <= 1.06 * read["wait"][0]


def test_the_chips_latency_of_loads_is_that_of_a_chain() -> None:
    known = load_chip("h200").parameters["hbm_latency"]
    rounds = {
        where: waits("lanes")[f"loads of lines 65664 bytes apart from {where}, a chain"]["rounds"]
        for where in ("memory", "the L2")
    }
    each = [a - b for a, b in zip(rounds["memory"], rounds["the L2"], strict=True)]
    assert known.low == pytest.approx(min(each), abs=2)
    assert known.low < sum(each) / 2 < known.value  # of all SMs it is longer: test_rows.py


def test_ctas_of_a_launch_begin_in_step() -> None:
    """Of the first 132; those of a GPC of 16 or 18 SMs within 80 cycles."""
    kept = json.loads(Path("benchmarks/timing/sharing/h200_starts.json").read_text())
    first = next(s for s in kept["starts"] if s["name"].startswith("132 CTAs of 384 threads, 1 an"))
    begins = dict(zip(first["sms"], first["begins"], strict=True))
    assert max(begins.values()) < 200
    for gpc in kept["gpcs"]:
        mine = [begins[sm] for sm in gpc]
        assert max(mine) - min(mine) <= 90


def test_counters_say_how_much_was_joined() -> None:
    kept = json.loads(Path("benchmarks/timing/waits/h200_counters.json").read_text())
    got = "l1tex__m_xbar2l1tex_read_sectors.sum"
    joined = "lrc__request_sectors_op_read_coalescing_achieved_type_hardware.sum"
    shares = {kernel["name"]: kernel[joined] / kernel[got] for kernel in kept["kernels"]}
    assert shares["gemm-4096x4096x4096-tile128x64-cluster1x1"] == pytest.approx(0.21, abs=0.01)
    assert shares["gemm-4096x4096x4096-tile128x128-cluster1x1"] == pytest.approx(0.45, abs=0.01)

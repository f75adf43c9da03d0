"""The L1 of an SM: what it answers, what it drops, and how much of it shared memory leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sm100sim.timing.model import ClusterTime, Residents, run_cluster
from sm100sim.timing.model.operands import l1_use
from sm100sim.timing.model.residency import l1_lines
from sm100sim.timing.records import Action, DynamicEvent
from testing.clocked import Entry, Program, chip, op

ALL = 2**32 - 1
KB = 1024
H200 = chip("h200", l2_pressure=0.0)
FAR, NEAR = H200["global_latency"], H200["l1_latency"]
COPIED = H200["l1_copy_latency"]
SHARED = 100 * KB
"""Of the CTA: two fit an SM, which leaves 60 KB."""
NEXT = op("NOP", wait=(0,))


def access(*pieces: int, name: str = "ld", kind: Action = Action.GLOBAL) -> DynamicEvent:
    return DynamicEvent(kind, ALL, size=32 * len(pieces), sectors=len(pieces), pieces=pieces,
                        detail=(name,))  # fmt: skip


def load(*pieces: int, text: str = "LDG.E R0, [R2.64]") -> list[Entry]:
    """A load whose result the next instruction waits for."""
    return [(op(text, write=0), access(*pieces)), NEXT]


def store(*pieces: int) -> list[Entry]:
    return [(op("STG.E [R2.64], R0"), access(*pieces, name="st"))]


def ran(program: Program, shared: int = SHARED, **residents: int) -> ClusterTime:
    trace = replace(program.trace(), shared_bytes=shared)
    return run_cluster(trace, H200, Residents(**residents))


def cycles(*work: Sequence[Entry], shared: int = SHARED) -> float:
    """Cycles of one warp's work."""
    return ran(Program().warp(0, *(x for part in work for x in part)), shared).cycles


def test_what_was_loaded_is_near() -> None:
    """h200_kept.json: 44.0 cycles of a chain, and 270.4 past the L1."""
    first, both = cycles(load(8)), cycles(load(8), load(8))
    assert both - first == pytest.approx(NEAR, abs=12)
    assert first == pytest.approx(FAR, abs=12)
    assert cycles(load(8), load(8), shared=0) - first == pytest.approx(FAR, abs=12)


def test_pieces_of_a_line_come_one_by_one() -> None:
    """h200_kept.json: of a walk by 16 bytes every other load waits for the L2."""
    assert cycles(load(8), load(9)) == cycles(load(8), load(80))


@pytest.mark.parametrize(
    "text",
    ["LDG.E.64.STRONG.GPU R0, [R2.64]", "LDG.E.STRONG.SYS R0, [R2.64]", "LDG.E.NA R0, [R2.64]",
     "LDG.E.LU.64 R0, [R2.64]"],
)  # fmt: skip
def test_some_loads_pass_it_by(text: str) -> None:
    """h200_kept.json: 270.3 to 270.5 cycles each, and the place stays where it was loaded."""
    assert cycles(load(8, text=text), load(8)) == pytest.approx(2 * FAR, abs=20)
    assert cycles(load(8), load(8, text=text), load(8)) == pytest.approx(2 * FAR + NEAR, abs=30)


@pytest.mark.parametrize("text", ["LDG.E.CONSTANT R0, [R2.64]", "LDG.E.64.STRONG.SM R0, [R2.64]",
                                  "LDG.E.EL R0, [R2.64]", "LD.E R0, [R2.64]"])  # fmt: skip
def test_others_go_through_it(text: str) -> None:
    assert cycles(load(8, text=text), load(8, text=text)) == pytest.approx(FAR + NEAR, abs=20)


def test_a_store_drops_the_line() -> None:
    """h200_kept.json: 270.5 to 271.0 cycles behind a store to the sector or another of the line."""
    near = cycles(load(8), load(8))
    assert cycles(load(8), store(11), load(8)) - near == pytest.approx(FAR - NEAR, abs=12)
    assert cycles(load(8), store(12), load(8)) - near == pytest.approx(0, abs=12)


def test_an_acquire_drops_all() -> None:
    """h200_kept.json: each of four loads behind fence.acq_rel.gpu waits for the L2."""
    forget = [op("CCTL.IVALL")]
    twice = (*load(8), *load(80))
    assert cycles(twice, forget, twice) - cycles(twice) == pytest.approx(2 * FAR, abs=24)
    assert cycles(twice, [op("CCTL.IVALLP")], twice) - cycles(twice) < FAR


def test_who_asks_for_what_is_under_way_waits_as_long() -> None:
    """h200_kept.json: two warps, 0 to 200 cycles apart, have it as soon as one alone."""
    late = [op("NOP", stall=10)] * 10
    program = Program().warp(0, *load(8)).warp(1, *late, *load(8))
    found = ran(program)
    ends = [warp.end for warp in found.warps]
    assert ends[1] - ends[0] == pytest.approx(0, abs=4)
    assert (found.l1_asked, found.l1_answered) == (2, 1)


def test_copies_by_lanes_are_answered_where_they_do_not_pass_it_by() -> None:
    """h200_kept.json: 116 cycles by cp.async.ca, 273.5 by cp.async.cg."""

    def copy(text: str) -> list[Entry]:
        rest = DynamicEvent(Action.CP_WAIT, ALL)
        return [(op(text), access(8, kind=Action.CP_ASYNC)), op("LDGDEPBAR"),
                (op("DEPBAR.LE SB0, 0x0"), rest), op("NOP")]  # fmt: skip

    through, past = copy("LDGSTS.E.128 [R2], [R4.64]"), copy("LDGSTS.E.BYPASS.128 [R2], [R4.64]")
    assert cycles(through, through) - cycles(through) == pytest.approx(COPIED, abs=20)
    assert cycles(past, past) - cycles(past) == pytest.approx(FAR, abs=20)


def test_a_line_is_a_pass_of_the_port() -> None:
    """h200_kept.json: 4 warps, 16 loads of 32 lines each: 2,048 cycles."""
    lines = tuple(4 * k for k in range(32))
    first = load(*lines)
    again: list[Entry] = [(op("LDG.E R0, [R2.64]", write=0), access(*lines))] * 4
    warm, all_ = Program(), Program()
    for warp in range(8):
        warm.warp(warp, *first, NEXT)
        all_.warp(warp, *first, *again, NEXT)
    assert ran(all_).cycles - ran(warm).cycles == pytest.approx(1024, rel=0.05)


def test_lines_that_are_drawn_make_room() -> None:
    """h200_kept.json: of a ring of 64 KB where 54 are left 64 % stay, of one of 96 KB 5 %."""
    lines = l1_lines(replace(Program().warp(0, op("NOP")).trace(), shared_bytes=SHARED), H200)
    ring = [x for k in range(lines) for x in load(4 * k)]
    held = cycles(ring, ring)
    assert held - cycles(ring) < lines * FAR / 2
    shares = []
    for times in (1.185, 1.78):
        ring = [x for k in range(int(times * lines)) for x in load(4 * k)]
        asked = ran(Program().warp(0, *ring * 5))
        shares.append(asked.l1_answered / asked.l1_asked * 5 / 4)
    assert shares == pytest.approx([0.60, 0.12], abs=0.06)


def test_ctas_have_lines_of_their_own() -> None:
    """What a CTA of the trace asked for is not what the one that it stands for asks for."""
    program = Program().warp(0, *load(8), *load(80))
    assert ran(program, copies=2).l1_answered == 0
    assert ran(program, copies=1, clusters=3).l1_answered == 0


def test_ctas_share_the_lines_that_several_touch() -> None:
    """Line 2 holds piece 8: who comes second on an SM finds it, side by side or later."""
    trace = Program().warp(0, *load(8), *load(80)).trace()
    trace = replace(trace, shared_bytes=SHARED, common=frozenset({2}))
    for residents in (Residents(2), Residents(1, 2)):
        found = run_cluster(trace, H200, residents)
        assert (found.l1_asked, found.l1_answered) == (4, 1)


@pytest.mark.parametrize(
    ("shared", "kilobytes"),
    [(2 * KB, 192), (61 * KB, 60), (97 * KB, 60), (129 * KB, 124), (161 * KB, 92), (193 * KB, 60),
     (209 * KB, 28), (228 * KB, 28)],
)  # fmt: skip
def test_what_shared_memory_leaves(shared: int, kilobytes: int) -> None:
    """h200_kept.json, rings beside shared memory: the largest that stays, of CTAs of one warp."""
    trace = replace(Program().warp(0, op("NOP")).trace(), shared_bytes=shared)
    trace = replace(trace, kernel=replace(trace.kernel, registers=32))
    assert l1_lines(trace, H200) * 128 == kilobytes * KB - 6 * KB


def test_a_trace_that_does_not_say_has_none() -> None:
    assert l1_lines(Program().warp(0, op("NOP")).trace(), H200) == 0


def test_what_instructions_do_with_it() -> None:
    said = {text: l1_use(op(text)) for text in ("LDG.E R0, [R2.64]", "ATOMG.E.ADD R0, [R2.64], R1",
            "RED.E.ADD [R2.64], R1", "LDS R0, [R2]", "CCTL.IVALL", "CCTL.PF2 [R2]")}  # fmt: skip
    assert [*said.values()] == ["load", "drop", "drop", "past", "forget", "past"]


def test_lines_that_the_l1_lacks_are_asked_for_one_a_cycle_too() -> None:
    """h200_kept.json: 4 warps, 16 loads of 32 lines each: 2,048 cycles in it, 2,069 past it."""
    program, far = Program(), replace(H200, values={**H200.values, "copy_bytes": 1e6})
    for warp in range(4):
        loads = [(op("LDG.E R0, [R2.64]", write=0), access(*range(4096 * warp + k, 4096 * warp
                 + k + 128, 4))) for k in range(0, 2048, 128)]  # fmt: skip
        program.warp(warp, *loads, NEXT)
    trace = replace(program.trace(), shared_bytes=1024)
    assert run_cluster(trace, far).cycles == pytest.approx(2048 + FAR, rel=0.03)

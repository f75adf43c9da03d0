"""Machine code follows the run of its PTX: every warp, every anchor, as often as in the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sm100sim.crew.recording import Recording, recording
from sm100sim.report import Report
from sm100sim.timing.chips import load_chip
from sm100sim.timing.model import run_cluster
from sm100sim.timing.records import Action, LaunchTrace, SassKernel, WarpStream
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.trace import Matcher, traced
from sm100sim.timing.sass.walk import Unmatched
from testing.harness import SMEM, aligned, run_ptx

HERE = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 128, %r2;
mul.wide.u32 %rd1, %r3, 4; add.u64 %rd2, %p0, %rd1;
"""
LOOP = (
    HERE
    + """
ld.global.f32 %f1, [%rd2];
mov.u32 %r4, 0;
L: .pragma "nounroll";
add.u32 %r4, %r4, 1;
ex2.approx.f32 %f1, %f1;
setp.lt.u32 %q1, %r4, %r1;
@%q1 bra L;
st.global.f32 [%rd2], %f1;
"""
)
"""CTA k computes max(k, 1) exponentials."""
SIDES = (
    HERE
    + """
ld.global.f32 %f1, [%rd2];
mov.u32 %r6, dyn;
setp.ne.u32 %q2, %r2, 0;
@%q2 bra READY;
mbarrier.init.shared.b64 [%r6], 99;
mbarrier.init.shared.b64 [%r6+8], 99;
READY: bar.sync 0;
and.b32 %r5, %r2, {bit};
setp.eq.u32 %q1, %r5, 0;
@%q1 bra A;
{sines}
mbarrier.arrive.shared.b64 _, [%r6];
bra B;
A: {cosines}
mbarrier.arrive.shared.b64 _, [%r6+8];
B:
st.global.f32 [%rd2], %f1;
"""
)
ROLES = (
    HERE
    + """
ld.global.f32 %f1, [%rd2];
shr.u32 %r4, %r2, 5;
shfl.sync.idx.b32 %r5, %r4, 0, 31, -1;
setp.eq.b32 %q1, %r5, {first};
@%q1 bra SINES;
setp.eq.b32 %q2, %r5, 1;
@%q2 bra COSINES;
setp.ne.b32 %q3, %r5, 0;
@%q3 bra DONE;
{roots}
bra DONE;
COSINES: {cosines}
bra DONE;
SINES: {sines}
DONE: bar.sync 0;
st.global.f32 [%rd2], %f1;
"""
)
"""Each warp has a role of its own."""
RING = """
mov.u32 %r1, dyn;
mov.u32 %r2, %tid.x;
setp.ne.u32 %q1, %r2, 0;
@%q1 bra READY;
mbarrier.init.shared.b64 [%r1], 32;
mbarrier.init.shared.b64 [%r1+8], 1;
READY: bar.sync 0;
mov.u32 %r4, 0;
setp.lt.u32 %q2, %r2, 32;
@%q2 bra CONSUMER;
P: and.b32 %r5, %r4, 1;
xor.b32 %r6, %r5, 1;
PW: mbarrier.try_wait.parity.shared.b64 %q3, [%r1], %r6;
@%q3 bra PD;
bra PW;
PD: setp.ne.u32 %q5, %r2, 32;
@%q5 bra NEXT;
mbarrier.arrive.shared.b64 _, [%r1+8];
NEXT: add.u32 %r4, %r4, 1;
setp.lt.u32 %q4, %r4, 5;
@%q4 bra P;
bra DONE;
CONSUMER: and.b32 %r5, %r4, 1;
CW: mbarrier.try_wait.parity.shared.b64 %q3, [%r1+8], %r5;
@%q3 bra CD;
bra CW;
CD: mbarrier.arrive.shared.b64 _, [%r1];
add.u32 %r4, %r4, 1;
setp.lt.u32 %q4, %r4, 5;
@%q4 bra CONSUMER;
DONE:
"""
"""Warp 1 hands five turns to warp 0 through two barriers."""


def followed(body: str, *arguments: Any, **launch: Any) -> tuple[Recording, SassKernel, Report]:
    with recording() as launches:
        report = run_ptx(body, *arguments, mode="fast", **launch)
    kernel = compiled(launches[0].request.ptx, "sm_100a")
    return launches[0], kernel, report


def executed(kernel: SassKernel, stream: WarpStream) -> Counter[str]:
    return Counter(kernel.instructions[k].mnemonic for k in stream.order.tolist())


def streams(launch: LaunchTrace) -> dict[tuple[int, int], tuple[WarpStream, ...]]:
    return {(c, 0): trace.streams for trace in launch.traces for c in trace.clusters}


def actions(launch: LaunchTrace, stream: WarpStream) -> list[Action]:
    table = launch.traces[0].events
    return [table[k].kind for k in stream.event.tolist() if k >= 0]


def test_loops_turn_as_often_as_they_did() -> None:
    x = np.zeros(4 * 128, np.float32)
    launched, kernel, report = followed(LOOP, x, grid=(4, 1, 1), block=64)
    launch = traced(kernel, launched)
    for (cluster, _), warps in streams(launch).items():
        for stream in warps:
            counts = executed(kernel, stream)
            assert counts["MUFU.EX2"] == max(cluster, 1)
            assert (counts["LDG.E"], counts["STG.E"], counts["EXIT"]) == (1, 1, 1)
    line = launched.request.ptx.split("\n").index("ex2.approx.f32 %f1, %f1;") + 1
    assert report.line_counts[line] == 2 * (1 + 1 + 2 + 3)


def test_clusters_that_went_the_same_way_are_one() -> None:
    launched, kernel, _ = followed(LOOP, np.zeros(512, np.float32), grid=(4, 1, 1), block=32)
    launch = traced(kernel, launched)
    assert sorted(trace.clusters for trace in launch.traces) == [(0, 1), (2,), (3,)]
    assert (launch.grid, launch.block) == ((4, 1, 1), (32, 1, 1))


@pytest.mark.parametrize(("bit", "sin", "cos"), [(32, (0, 30), (20, 0)), (1, (30, 30), (20, 20))])
def test_sides_of_a_branch(bit: int, sin: tuple[int, int], cos: tuple[int, int]) -> None:
    """By warp the one or the other; by lane both, one after the other."""
    body = SIDES.format(
        bit=bit, sines="\nsin.approx.f32 %f1, %f1;" * 30, cosines="\ncos.approx.f32 %f1, %f1;" * 20
    )
    launched, kernel, _ = followed(body, np.zeros(128, np.float32), block=64, smem=16, shared=SMEM)
    matcher = Matcher(kernel, launched)
    launch = matcher.launch()
    assert not matcher.guesses
    for stream, sines, cosines in zip(launch.traces[0].streams, sin, cos, strict=True):
        counts = executed(kernel, stream)
        assert (counts["MUFU.SIN"], counts["MUFU.COS"]) == (sines, cosines)
        arrivals = actions(launch, stream).count(Action.MBARRIER_ARRIVE)
        assert arrivals == bool(sines) + bool(cosines)


@pytest.mark.parametrize("first", [2, 3])
def test_a_table_that_the_assembler_makes_of_branches(first: int) -> None:
    """No anchor tells the sides apart, and no branch of the machine code has those lines."""
    counts = {"MUFU.SIN": 30, "MUFU.COS": 20, "MUFU.LG2": 10}
    ops = {"sines": "sin", "cosines": "cos", "roots": "lg2"}
    sides = {
        name: f"\n{op}.approx.f32 %f1, %f1;" * counts[f"MUFU.{op.upper()}"]
        for name, op in ops.items()
    }
    body = ROLES.format(first=first, **sides)
    launched, kernel, _ = followed(body, np.ones(128, np.float32), block=128)
    assert "BRX" in {i.opcode for i in kernel.instructions}
    matcher = Matcher(kernel, launched)
    launch = matcher.launch()
    assert not matcher.guesses
    roles = {0: "MUFU.LG2", 1: "MUFU.COS", first: "MUFU.SIN"}
    for stream in launch.traces[0].streams:
        ran = executed(kernel, stream)
        role = roles.get(stream.warp)
        assert {k: ran[k] for k in counts} == {k: n * (k == role) for k, n in counts.items()}


def test_barriers_come_in_the_order_of_the_run_with_their_phases() -> None:
    launched, kernel, _ = followed(RING, block=64, smem=16, shared=SMEM)
    matcher = Matcher(kernel, launched)
    launch = matcher.launch()
    assert not matcher.guesses
    assert not matcher.lost
    (trace,) = launch.traces
    for stream, barrier in zip(trace.streams, (8, 0), strict=True):
        found = [trace.events[k] for k in stream.event.tolist() if k >= 0]
        waits = [e for e in found if e.kind is Action.MBARRIER_WAIT]
        first = 0 if barrier == 0 else 1
        assert [e.phase for e in waits] == list(range(first, first + 5))
        assert {e.objects[0].offset - 0x400 for e in waits} == {barrier}
        arrivals = [e for e in found if e.kind is Action.MBARRIER_ARRIVE]
        assert [e.count for e in arrivals] == [32 if barrier else 1] * 5
    inits = [e for e in trace.events if e.kind is Action.MBARRIER_INIT]
    assert sorted(count for e in inits for count in e.shape) == [1, 32]


def changed(kernel: SassKernel, of: str, **changes: Any) -> SassKernel:
    """The machine code with other fields in the instructions of an opcode."""
    code = tuple(replace(i, **changes) if i.opcode == of else i for i in kernel.instructions)
    return replace(kernel, instructions=code)


def test_a_store_whose_line_is_gone_keeps_its_event() -> None:
    """As where ptxas joins stores of two sides, or neighbours into one."""
    launched, kernel, _ = followed(LOOP, aligned(128, np.float32), block=64)
    matcher = Matcher(changed(kernel, "STG", ptx_line=None), launched)
    (trace,) = matcher.launch().traces
    assert not matcher.lost
    for stream in trace.streams:
        made = [trace.events[k] for k in stream.event.tolist() if k >= 0]
        assert [(e.size, e.sectors) for e in made if "st" in e.detail] == [(128, 4)]


def test_an_instruction_that_sets_barriers_of_others_sets_all_of_them() -> None:
    """Both lines are gone, and one instruction is left of two."""
    launched, kernel, _ = followed(RING, block=64, smem=16, shared=SMEM)
    lines = launched.request.ptx.split("\n")
    sets = [
        i.index for i in kernel.instructions
        if i.opcode in ("STS", "SYNCS") and "mbarrier.init" in lines[(i.ptx_line or 1) - 1]
    ]  # fmt: skip
    code = list(kernel.instructions)
    for k in sets:
        code[k] = replace(code[k], ptx_line=None, opcode="STS" if k == sets[0] else "MOV")
    (trace,) = traced(replace(kernel, instructions=tuple(code)), launched).traces
    (event,) = (e for e in trace.events if e.kind is Action.MBARRIER_INIT)
    assert [p.offset - event.objects[0].offset for p in event.objects] == [0, 8]
    assert event.shape == (32, 1)


def test_an_access_without_an_instruction_is_counted() -> None:
    launched, kernel, _ = followed(LOOP, np.zeros(128, np.float32), block=64)
    matcher = Matcher(changed(kernel, "STG", opcode="MOV"), launched)
    matcher.launch()
    rows = launched.request.ptx.split("\n")
    assert {rows[line - 1]: n for line, n in matcher.lost.items()} == {
        "st.global.f32 [%rd2], %f1;": 2
    }


def test_code_of_another_program_matches_nothing() -> None:
    launched, _, _ = followed(RING, block=64, smem=16, shared=SMEM)
    other = launched.request.ptx.replace("READY: bar.sync 0;", "READY: bar.sync 0; bar.sync 0;")
    with pytest.raises(Unmatched, match=r"after 1 of .* the next is"):
        traced(compiled(other, "sm_100a"), launched)


def test_a_cluster_that_was_not_recorded_is_refused() -> None:
    launched, kernel, _ = followed(LOOP, np.zeros(128, np.float32), block=32)
    with pytest.raises(ValueError, match="cluster 7"):
        Matcher(kernel, launched).cluster(7)


def test_copies_and_their_groups_on_one_line_are_told_apart() -> None:
    """A copy by lanes, the end of its group and the wait for it are three instructions."""
    body = HERE + (
        "mov.u32 %r6, dyn; cp.async.ca.shared.global [%r6], [%rd2], 4; cp.async.commit_group; "
        "cp.async.wait_group 0; ld.shared.f32 %f1, [%r6]; st.global.f32 [%rd2], %f1;\n"
    )
    launched, kernel, _ = followed(body, np.zeros(32, np.float32), block=32, smem=128, shared=SMEM)
    (trace,) = traced(kernel, launched).traces
    (stream,) = trace.streams
    kinds = {
        kernel.instructions[k].opcode: trace.events[e].kind
        for k, e in zip(stream.order.tolist(), stream.event.tolist(), strict=True)
        if e >= 0
    }
    assert kinds["LDGSTS"] is Action.CP_ASYNC
    assert kinds["LDGDEPBAR"] is Action.CP_COMMIT
    assert kinds["DEPBAR"] is Action.CP_WAIT


def test_the_end_of_a_group_of_copies_may_come_before_a_commit_of_products() -> None:
    """ptxas exchanges what PTX has in this order; each keeps its event."""
    body = HERE + """elect.sync _|%q1, -1;
@!%q1 bra END;
mov.u32 %r6, dyn;
mbarrier.init.shared.b64 [%r6], 1;
st.shared.u32 [%r6+128], %r2;
fence.proxy.async.shared::cta;
add.u32 %r7, %r6, 128;
cp.async.bulk.global.shared::cta.bulk_group [%p0], [%r7], 16;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r6];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
END:
"""
    out = np.zeros(32, np.float32)
    launched, kernel, _ = followed(body, out, block=32, smem=256, shared=SMEM)
    (trace,) = traced(kernel, launched).traces
    (stream,) = trace.streams
    ran = [
        (kernel.instructions[k].opcode, trace.events[e].kind)
        for k, e in zip(stream.order.tolist(), stream.event.tolist(), strict=True)
        if e >= 0 and kernel.instructions[k].opcode in ("UTMACMDFLUSH", "UTCBAR")
    ]
    assert ran == [("UTMACMDFLUSH", Action.BULK_COMMIT), ("UTCBAR", Action.MMA_COMMIT)]


def test_every_cta_of_a_cluster_goes_on_when_the_answer_for_all_is_there() -> None:
    """CTA 0 asks for both, and each waits for the bytes on its own barrier."""
    body = """
mov.u32 %r6, dyn;
mov.u32 %r2, %tid.x;
setp.ne.u32 %q1, %r2, 0;
@%q1 bra READY;
mbarrier.init.shared.b64 [%r6], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 16;
READY: barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
mov.u32 %r5, %cluster_ctarank;
or.b32 %r4, %r5, %r2;
setp.ne.u32 %q2, %r4, 0;
@%q2 bra W;
add.u32 %r7, %r6, 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%r7], [%r6];
W: mbarrier.try_wait.parity.shared.b64 %q3, [%r6], 0;
@%q3 bra D;
bra W;
D: st.global.b32 [%p0], %r2;
"""  # noqa: E501
    out = np.zeros(32, np.uint32)
    pair: dict[str, Any] = {"grid": (2, 1, 1), "cluster": (2, 1, 1), "block": 32}
    launched, kernel, _ = followed(body, out, smem=256, shared=SMEM, **pair)
    (trace,) = traced(kernel, launched).traces
    assert sum(event.detail == ("cancel",) for event in trace.events) == 1
    draw = load_chip("b200").draw(0)
    assert run_cluster(trace, draw).cycles > draw["copy_latency"]

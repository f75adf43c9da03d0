"""What a profile doubts, and what it says of the L1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import sm100sim
from sm100sim.timing.profile import KernelProfile, profile_text
from sm100sim.timing.profile.document import profile_document
from sm100sim.timing.profile.doubts import too_often
from sm100sim.timing.sass.trace import traced
from testing.harness import aligned, run_ptx
from tests.sim.timing.sass.test_accesses import COUNTED
from tests.sim.timing.sass.test_trace import followed


def profiled(call: Callable[[], object]) -> KernelProfile:
    (found,) = sm100sim.profile(call, draws=2)
    return found


SUMS = """mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4;
add.u64 %rd2, %p0, %rd1; add.u64 %rd3, %p1, %rd1;
mov.u32 %r2, 0; mov.f32 %f1, 0f00000000;
OUT: mov.u32 %r3, 0;
IN:
mul.wide.u32 %rd4, %r3, 128;
add.u64 %rd5, %rd2, %rd4;
ld.relaxed.cta.global.f32 %f2, [%rd5];
add.f32 %f1, %f1, %f2;
add.u32 %r3, %r3, 1;
setp.lt.u32 %q1, %r3, 16;
@%q1 bra IN;
add.u32 %r2, %r2, 1;
setp.lt.u32 %q2, %r2, 4;
@%q2 bra OUT;
st.global.f32 [%rd3], %f1;
"""


def sums() -> None:
    x, out = aligned(512, np.float32), np.zeros(32, np.float32)
    run_ptx(SUMS, x, out, block=32)


def test_a_profile_says_what_the_l1_has() -> None:
    """Of four times sixteen lines the first sixteen come from the L2."""
    found = profiled(sums)
    asked, answered = found.detail.l1
    assert answered / asked == 0.75
    assert f"that loads of lanes ask for the L1 has {answered / asked:.1%}" in profile_text(found)
    assert profile_document(found)["l1"] == {"asked": asked, "answered": answered}
    assert found.doubts == ()


def test_a_way_that_moves_too_much_is_doubted() -> None:
    """That of a run, and one that goes through all of its code twice."""
    x, out = np.ones(64 * 32, np.float32), np.zeros(32, np.float32)
    recorded, kernel, _ = followed(COUNTED.replace("{turns}", "64"), x, out, block=32)
    launch = traced(kernel, recorded)
    assert too_often(recorded, launch) == []
    (trace,) = launch.traces
    streams = tuple(
        replace(s, order=np.tile(s.order, 2), event=np.tile(s.event, 2)) for s in trace.streams
    )
    doubts = too_often(recorded, replace(launch, traces=(replace(trace, streams=streams),)))
    assert len(doubts) == 2, "the load and the store"
    assert all("moves 2.0 times the bytes that the run moved" in doubt for doubt in doubts)

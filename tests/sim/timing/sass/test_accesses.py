"""What instructions of an unrolled loop made, how often it turned, and lines that CTAs share."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.timing.records import ClusterTrace
from sm100sim.timing.sass.trace import traced
from tests.sim.timing.sass.test_trace import followed

UNROLLED = """mov.u32 %r4, 0; mov.u32 %r2, %tid.x; mul.wide.u32 %rd1, %r2, 4;
add.u64 %rd2, %p0, %rd1; add.u64 %rd4, %p1, %rd1; mov.f32 %f2, 0f00000000;
mov.u32 %r5, %ctaid.x; mul.wide.u32 %rd5, %r5, 4096; add.u64 %rd2, %rd2, %rd5;
L:
ld.global.f32 %f1, [%rd2];
add.f32 %f2, %f2, %f1;
add.u64 %rd2, %rd2, 128;
add.u32 %r4, %r4, 1;
setp.lt.u32 %q1, %r4, 16;
@%q1 bra L;
st.global.f32 [%rd4], %f2;
"""
"""A loop of loads, each of another line, that ptxas unrolls; two CTAs have lines of their own."""


def unrolled() -> ClusterTrace:
    x, out = np.ones(2 * 1024, np.float32), np.zeros(32, np.float32)
    launched, kernel, _ = followed(UNROLLED, x, out, grid=(2, 1, 1), block=32)
    (trace,) = traced(kernel, launched).traces
    return trace


def test_instructions_of_an_unrolled_loop_have_each_its_own_access() -> None:
    trace = unrolled()
    (stream,) = trace.streams
    loads = [
        (int(k), trace.events[e])
        for k, e in zip(stream.order, stream.event, strict=True)
        if e >= 0 and trace.events[e].detail == ("ld",)
    ]
    assert len({k for k, _ in loads}) > 1, "ptxas leaves the loop as it is: the test says nothing"
    first = loads[0][1].address
    assert [event.address - first for _, event in loads] == [128 * n for n in range(16)]
    assert all(event.pieces[0] == event.address // 32 for _, event in loads)


def test_lines_that_several_clusters_touch_are_common() -> None:
    """Both CTAs store to the same line, and load from lines of their own."""
    trace = unrolled()
    (store,) = (event for event in trace.events if event.detail == ("st",))
    assert trace.common == {piece // 4 for piece in store.pieces}
    assert trace.common < trace.touched


COUNTED = """mov.u32 %r2, %tid.x; mul.wide.u32 %rd1, %r2, 4; mov.u32 %r4, 0;
add.u64 %rd2, %p0, %rd1; add.u64 %rd4, %p1, %rd1; mov.f32 %f2, 0f00000000;
L:
ld.volatile.global.f32 %f1, [%rd2];
fma.rn.f32 %f2, %f2, %f1, %f1;
add.u64 %rd2, %rd2, 128;
add.u32 %r4, %r4, 1;
setp.lt.u32 %q1, %r4, {turns};
@%q1 bra L;
st.global.f32 [%rd4], %f2;
"""


@pytest.mark.parametrize("turns", ["64", "%n0"])
def test_a_loop_without_an_anchor_turns_as_often_as_it_did(turns: str) -> None:
    """ptxas makes several turns one, of a number that it knows or not; 61 leaves one for guards."""
    number = 64 if turns == "64" else 61
    x, out = np.ones(64 * 32, np.float32), np.zeros(32, np.float32)
    body = COUNTED.replace("{turns}", turns)
    launched, kernel, _ = followed(body, x, out, number, block=32)
    (trace,) = traced(kernel, launched).traces
    (stream,) = trace.streams
    ran = [kernel.instructions[k] for k in stream.order.tolist()]
    loads = [i.index for i in ran if i.opcode == "LDG" and i.guard in ("", "PT")]
    assert number - 4 < len(loads) <= number
    assert len({*loads}) > 1, "ptxas leaves the loop as it is: the test says nothing"
    where = [trace.events[e].address for e in stream.event.tolist()
             if e >= 0 and trace.events[e].detail == ("ld",)]  # fmt: skip
    assert [at - where[0] for at in where] == [128 * n for n in range(number)]


@pytest.mark.parametrize("number", [2, 3, 4, 5, 7, 8, 30])
def test_every_number_of_turns_is_followed(number: int) -> None:
    """What ptxas makes of four turns, of two and of one: in a loop around the loop, too."""
    outer = COUNTED.replace("{turns}", "%n0")
    outer = outer.replace("L:", "mov.u32 %r7, 0; OUT: mov.u32 %r4, 0;\nL:")
    outer = outer.replace(
        "@%q1 bra L;", "@%q1 bra L;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %q2, %r7, 3;\n@%q2 bra OUT;"
    )
    x, out = np.ones(96 * 32, np.float32), np.zeros(32, np.float32)
    launched, kernel, _ = followed(outer, x, out, number, block=32)
    (trace,) = traced(kernel, launched).traces
    (stream,) = trace.streams
    ran = [kernel.instructions[k] for k in stream.order.tolist()]
    sure = sum(i.opcode == "LDG" and i.guard in ("", "PT") for i in ran)
    with_event = [e for e in stream.event.tolist() if e >= 0 and trace.events[e].detail == ("ld",)]
    assert sure <= 3 * number
    assert len(with_event) == 3 * number

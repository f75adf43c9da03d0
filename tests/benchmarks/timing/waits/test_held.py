"""Boxes that are held back until Q has come: where the wait stands; the kernel is right."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.timing.waits.held import held

LOAD = """{{
	setmaxnreg.dec.sync.aligned.u32 	32;
	mbarrier.arrive.expect_tx.shared.b64 %rd9, [dyn+72], %r36;
	mbarrier.arrive.expect_tx.shared.b64 %rd10, [dyn+48], %r42;
	mbarrier.arrive.expect_tx.shared.b64 %rd11, [dyn+56], %r48;
	mov.b32 	%r1148, 0;
	mov.b32 	%r1144, {keys};
$L__BB0_41:
	.pragma "nounroll";
	add.s32 	%r61, %r1147, 1;
}}"""


@pytest.mark.parametrize(("turns", "row"), [(0, 128), (1, 256)])
def test_the_loop_waits_for_every_box_of_q(turns: int, row: int) -> None:
    text = held(LOAD.format(keys=128), turns)
    inside = text[text.index('.pragma "nounroll";') : text.index("add.s32")]
    assert f"setp.lt.u32 %h_before, %r1144, {row};" in inside
    assert inside.count("try_wait") == 2
    assert "[dyn+48], 0;" in inside
    assert "[dyn+56], 0;" in inside
    assert "dyn+72" not in inside


def test_a_kernel_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no loop of a load warp"):
        held("ret;", 1)
    with pytest.raises(ValueError, match="nothing that counts it"):
        held(LOAD.format(keys=1), 1)


CODE = """
from dataclasses import replace
from benchmarks.timing.judges.launches import begin, executed
from benchmarks.timing.waits.spans_asked import ENDS, HELD, asked, offered
from benchmarks.timing.waits.held import held
from benchmarks.timing.waits.records import WAITS, WORDS
from benchmarks.timing.waits.schedules import LATE, request_of
from benchmarks.timing.waits.spans import spans
import numpy as np

begin()
case = next(c for c in offered() if c.name == HELD)
for which in (0, 1, LATE):
    if which == LATE:
        request, t = request_of(case, LATE, 0)
    else:
        request, t, said = asked(case, lambda ptx: held(ptx, which), ENDS, 0)
    for name in "qkv":
        t[name].normal_()
    executed(request, (0,))
    if WAITS in t:
        words = t[WAITS].numpy().view(np.uint32)[: 16 * said["records"] * WORDS]
        (span,) = spans(words, 16, said["records"])
        assert span[2] > 0, span
    q, k, v = (t[name][0, :, 0].float() for name in "qkv")
    expected = (q[:192] @ k.T * q.shape[-1] ** -0.5).softmax(-1) @ v
    out = t["out"][0, :192, 0].float()
    error = float((out - expected).norm() / expected.norm())
    assert error < 1e-2, (which, error)
print("right")
"""


@pytest.mark.slow
def test_kernels_that_hold_boxes_back_or_begin_later_are_right() -> None:
    for module in ("torch", "cutlass", "triton"):
        pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True,
        env={**os.environ, "CUTE_DSL_ARCH": "sm_90a"}, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "right", done.stderr[-2000:]

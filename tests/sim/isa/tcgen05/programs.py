"""A frame for tests of tcgen05: fill shared and Tensor Memory, run a few instructions, read back.

`run_frame` copies one image per CTA into dynamic shared memory, allocates all 512 columns, stores
the given Tensor Memory content, executes `body`, waits for the mbarrier when asked, and returns the
Tensor Memory that `tcgen05.ld` reads afterwards.

Registers for `body`: %r0 tid, %r1 CTA rank, %r2 window address of the image, %r9 warp, %r10 the
warp's lane bits of a TMEM address, %r30 TMEM base, %r31 window address of the mbarrier, %q1
thread 0 of the CTA, %q5 thread 0 of rank 0, %p3 the caller's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sm100sim.report import Report
from testing.harness import run_ptx

Words = npt.NDArray[np.uint32]
THREADS = 128
IMAGE_START = 1024
"""Window offset of the image: the system's reserved bytes come first."""

SHARED = ".extern .shared .align 1024 .b8 dyn[];"


def barrier(group: int) -> str:
    """All threads of the CTA, or of the pair."""
    cluster = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else ""
    return f"bar.sync 0; {cluster}"


def _prologue(group: int, size: int) -> str:
    return f"""
mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, dyn; add.u32 %r31, %r2, {size};
mul.wide.u32 %rd0, %r1, {size}; add.s64 %rd0, %rd0, %p0; shl.b32 %r3, %r0, 4;
COPY:
setp.ge.u32 %q0, %r3, {size}; @%q0 bra COPIED;
cvt.u64.u32 %rd1, %r3; add.s64 %rd1, %rd0, %rd1; ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd1];
add.u32 %r8, %r2, %r3; st.shared.v4.b32 [%r8], {{%r4, %r5, %r6, %r7}};
add.u32 %r3, %r3, {THREADS * 16}; bra COPY;
COPIED:
setp.eq.u32 %q1, %r0, 0; setp.eq.and.u32 %q5, %r1, 0, %q1;
@%q1 mbarrier.init.shared.b64 [%r31], 1;
fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
{barrier(group)}
shr.u32 %r9, %r0, 5; shl.b32 %r10, %r9, 21; setp.ne.u32 %q2, %r9, 0; @%q2 bra ALLOCATED;
tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r31 + 16], 512;
ALLOCATED:
{barrier(group)}
ld.shared.b32 %r30, [%r31 + 16];
"""


def _transfer(label: str, pointer: str, *, store: bool) -> str:
    """Loop over the 512 columns, 8 at a time, between global memory and Tensor Memory."""
    values = "{%r13, %r14, %r15, %r16, %r17, %r18, %r19, %r20}"
    low, high = "{%r13, %r14, %r15, %r16}", "{%r17, %r18, %r19, %r20}"
    if store:
        step = f"""ld.global.v4.b32 {low}, [%rd2]; ld.global.v4.b32 {high}, [%rd2 + 16];
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12], {values};"""
        end = "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;"
    else:
        step = f"""tcgen05.ld.sync.aligned.32x32b.x8.b32 {values}, [%r12];
tcgen05.wait::ld.sync.aligned;
st.global.v4.b32 [%rd2], {low}; st.global.v4.b32 [%rd2 + 16], {high};"""
        end = ""
    return f"""
mul.wide.u32 %rd2, %r1, {128 * 512 * 4}; add.s64 %rd2, %rd2, {pointer};
mul.wide.u32 %rd3, %r0, {512 * 4}; add.s64 %rd2, %rd2, %rd3; mov.u32 %r11, 0;
{label}:
add.u32 %r12, %r30, %r11; or.b32 %r12, %r12, %r10;
{step}
add.s64 %rd2, %rd2, 32; add.u32 %r11, %r11, 8; setp.lt.u32 %q3, %r11, 512; @%q3 bra {label};
{end}
"""


WAIT = """
WAIT: mbarrier.try_wait.parity.shared.b64 %q4, [%r31], 0; @!%q4 bra WAIT;
tcgen05.fence::after_thread_sync;
"""


def run_frame(
    body: str,
    images: Sequence[npt.NDArray[np.uint8]],
    tmem: Words,
    words: Sequence[int] | Words = (),
    *,
    group: int = 1,
    wait: bool = True,
    **options: Any,
) -> tuple[Report, Words]:
    """Run `body` in the frame.

    Args:
        body: PTX, executed by all 128 threads of every CTA.
        images: one shared-memory image per CTA, a multiple of 16 bytes, all of one size.
        tmem: initial Tensor Memory, uint32 [CTAs, 128, 512].
        words: 32-bit values for the body, at %p3; an array can also take results.
        wait: the body makes phase 0 of every CTA's mbarrier complete.

    Returns:
        The report, and Tensor Memory afterwards.
    """
    size = len(images[0])
    image = np.ascontiguousarray(np.stack(images))
    out = np.zeros_like(tmem)
    arguments = words if isinstance(words, np.ndarray) else np.array([*words, 0], np.uint32)
    dealloc = f"""
tcgen05.fence::before_thread_sync;
{barrier(group)}
@%q2 bra FREED;
tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r30, 512;
FREED:
"""
    text = (
        _prologue(group, size)
        + _transfer("FILL", "%p1", store=True)
        + barrier(group)
        + "tcgen05.fence::after_thread_sync;\n"
        + body
        + (WAIT if wait else barrier(group))
        + _transfer("DUMP", "%p2", store=False)
        + dealloc
    )
    report = run_ptx(
        text, image, np.ascontiguousarray(tmem), out, arguments, grid=(group, 1, 1), block=THREADS,
        cluster=(group, 1, 1), smem=size + 64, shared=SHARED, **options,
    )  # fmt: skip
    return report, out

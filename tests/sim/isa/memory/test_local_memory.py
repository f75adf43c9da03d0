"""Local memory: variables of one thread (PTX ISA, ".local")."""

from __future__ import annotations

import numpy as np

from testing.harness import run_ptx
from tests.sim.isa.memory.programs import aligned, fault_of

DEPOT = ".local .align 8 .b8 depot[64]; .local .align 4 .b8 other[8]; .reg .b64 %SP, %SPL;"
START = "mov.b64 %SPL, depot; cvta.local.u64 %SP, %SPL; mov.u32 %r0, %tid.x;"


def test_every_thread_has_variables_of_its_own() -> None:
    """Write through the local space, read through generic addresses with an index per thread."""
    out = aligned(64, np.uint32)
    body = START + (
        "st.local.b32 [%SPL], %r0; mul.lo.u32 %r1, %r0, 3; st.local.b32 [depot+4], %r1;"
        "st.local.b32 [other], %r0; and.b32 %r2, %r0, 1; shl.b32 %r2, %r2, 2; "
        "cvt.u64.u32 %rd1, %r2;"
        "add.s64 %rd2, %SP, %rd1; ld.b32 %r3, [%rd2]; mul.wide.u32 %rd3, %r0, 4; "
        "add.s64 %rd3, %rd3, %p0;"
        "st.global.b32 [%rd3], %r3;"
    )
    run_ptx(body, out, block=64, regs=DEPOT)
    thread = np.arange(64)
    assert (out == np.where(thread & 1, 3 * thread, thread)).all()


def test_an_access_beyond_the_threads_variables_stops() -> None:
    assert "local-address" in fault_of(START + "st.local.b32 [%SPL+80], %r0;", block=1, regs=DEPOT)
    assert "local-address" in fault_of(START + "ld.b64 %rd1, [%SP+80];", block=1, regs=DEPOT)

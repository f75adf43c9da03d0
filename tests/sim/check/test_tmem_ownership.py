"""Columns of Tensor Memory have an owner from their allocation to their release."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.check.edges import (
    MODES,
)
from tests.sim.check.test_exit_rules import SMALL
from tests.sim.isa.memory.programs import only

TMEM_ALLOC = (
    "mov.u32 %r1, dyn; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;"
    "bar.warp.sync -1; ld.shared.b32 %r2, [%r1]; mov.u32 %r3, %tid.x; "
    "shl.b32 %r5, %r3, 16; and.b32 %r5, %r5, 6291456; or.b32 %r4, %r2, %r5;"
)
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;"
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r4];"
ST = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {%r3};"
WAIT_ST, WAIT_LD = "tcgen05.wait::st.sync.aligned;", "tcgen05.wait::ld.sync.aligned;"
PERMIT = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
WHOLE = TMEM_ALLOC + ST + WAIT_ST + LD + WAIT_LD + FREE
TMEM = {
    "leak": (WHOLE, WHOLE.replace(FREE, ""), "tmem-leak"),
    "load not waited for at dealloc": (WHOLE, WHOLE.replace(WAIT_LD, ""), "race-tmem"),
    "use after dealloc": (WHOLE, WHOLE + LD, "unallocated-columns-access"),
    "second dealloc": (WHOLE, WHOLE + FREE, "unallocated-columns-being-dealloced"),
    "other lanes": (
        WHOLE,
        WHOLE.replace("or.b32 %r4, %r2, %r5;", "or.b32 %r4, %r2, 2097152;"),
        "current-warp-owner-invalid",
    ),
    "columns beyond the allocation": (
        WHOLE,
        WHOLE.replace("or.b32 %r4, %r2, %r5;", "add.u32 %r4, %r2, 64;"),
        "unallocated-columns-access",
    ),
    "permit": (WHOLE + PERMIT, TMEM_ALLOC + PERMIT + TMEM_ALLOC, "phase-invalid-during-alloc"),
    "size of the dealloc": (
        WHOLE,
        WHOLE.replace("b32 %r2, 64", "b32 %r2, 32"),
        "dealloc-size-mismatch",
    ),
}


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("rule", TMEM)
def test_tensor_memory_is_owned(rule: str, mode: str, seed: int) -> None:
    correct, broken, code = TMEM[rule]
    assert run_ptx(correct, mode=mode, seed=seed, **SMALL).findings == ()
    findings = run_ptx(broken, mode=mode, seed=seed, **SMALL).findings
    assert findings[0].code == code


def test_freed_columns_stay_as_they_are_until_they_are_given_out_again() -> None:
    """CUTLASS example 77 reads its last dQ from columns that another warp may have freed."""
    out = np.zeros(32, np.uint32)
    put = "mul.wide.u32 %rd1, %r3, 4; add.s64 %rd1, %rd1, %p0; st.global.b32 [%rd1], %r6;"
    (found,) = run_ptx(WHOLE + LD + WAIT_LD + put, out, **SMALL).findings
    assert (found.code, found.fatal) == ("unallocated-columns-access", False)
    assert out.tolist() == list(range(32))
    again = run_ptx(WHOLE + TMEM_ALLOC + LD + WAIT_LD + FREE + put, out, **SMALL).findings
    assert {f.code for f in again} == {"uninitialised-tmem"}
    assert set(out.tolist()) == {0xFFFFFFFF}


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("drop", ["st", "alloc"])
def test_other_warps_are_ordered_after_alloc_and_before_dealloc(
    drop: str, mode: str, seed: int
) -> None:
    """Warp 1 uses columns that warp 0 allocates, told of by a flag that orders nothing."""
    flag = (
        "st.relaxed.cta.shared.b32 [%r1+8], 1; "
        "SPIN: ld.relaxed.cta.shared.b32 %r9, [%r1+8]; setp.ne.u32 %q2, %r9, 1; "
        "@%q2 bra SPIN;"
    )
    store, poll = flag.split(" SPIN: ")
    rest = TMEM_ALLOC.partition("bar.warp.sync -1;")
    text = (
        "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x; setp.ge.u32 %q1, %r3, 32; @%q1 bra USER;"
        + TMEM_ALLOC
        + f"{store} EDGE bar.sync 1, 64;"
        + FREE
        + "bra DONE; USER: SPIN: "
        + poll
        + "EDGE mov.u32 %r2, 0;"
        + rest[2].replace("ld.shared.b32 %r2, [%r1];", "")
        + ST
        + WAIT_ST
        + "bar.sync 1, 64; DONE:"
    )
    start = (
        "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x;"
        + only(0, "st.shared.b32 [%r1+8], 0;", "Z")
        + "bar.sync 0;"
    )
    options = SMALL | {"checks": Check.RACES, "block": 64, "mode": mode, "seed": seed}
    if drop == "alloc":
        assert run_ptx(start + text.replace("EDGE", "bar.sync 2, 64;"), **options).findings == ()
        findings = run_ptx(start + text.replace("EDGE", ""), **options).findings
    else:
        text = text.replace("EDGE", "bar.sync 2, 64;")
        assert run_ptx(start + text, **options).findings == ()
        findings = run_ptx(
            start + text.replace(WAIT_ST, "").replace("DONE:", "DONE:" + WAIT_ST), **options
        ).findings
    assert {f.code for f in findings} & {"race-tmem", "unallocated-columns-access"}


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_a_kernel_that_never_allocates_has_all_of_tensor_memory(mode: str, seed: int) -> None:
    """Shipped kernels do so; one that allocates has no more than it asked for."""
    lanes = "mov.u32 %r3, %tid.x; shl.b32 %r5, %r3, 16; and.b32 %r5, %r5, 6291456;"
    columns = lanes + "or.b32 %r4, %r5, 448;" + ST + WAIT_ST + LD + WAIT_LD
    (found,) = run_ptx(columns, mode=mode, seed=seed, **SMALL).findings
    assert (found.code, found.fatal) == ("tmem-not-allocated", False)
    asked = run_ptx(columns + TMEM_ALLOC + FREE, mode=mode, seed=seed, **SMALL).findings
    assert (asked[0].code, asked[0].fatal) == ("unallocated-columns-access", True)

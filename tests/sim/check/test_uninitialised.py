"""Reads of what nothing wrote: registers by lane, shared memory by byte, Tensor Memory by cell
half."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.check.edges import MODES
from tests.sim.isa.memory.programs import SMEM, aligned

THREADS = "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x; setp.lt.u32 %q1, %r3, 16;"
ALLOC = (
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; "
    "bar.warp.sync -1; ld.shared.b32 %r2, [%r1];"
)
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;"
ST = "tcgen05.st.sync.aligned.32x32b.x{}.b32 [%r2], {{%r3{}}}; tcgen05.wait::st.sync.aligned;"
LD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r6, %r7}, [%r2]; tcgen05.wait::ld.sync.aligned;"
BULK = (
    "mbarrier.init.shared.b64 [%r1+128], 1; "
    "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1+128], 16; "
    "fence.mbarrier_init.release.cluster;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+64], "
    "[%p0], 16, [%r1+128];"
    "W: mbarrier.try_wait.parity.shared.b64 %q14, [%r1+128], 0; @!%q14 bra W;"
)
STORE = (
    "fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%p0], [%r1+64], "
    "{}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
)
FILL = "st.shared.v4.b32 [%r1+64], {%r3, %r3, %r3, %r3};"

CASES = {
    "register": (
        "mov.u32 %r5, 1; add.u32 %r6, %r5, 1;",
        "add.u32 %r6, %r5, 1;",
        "uninitialised-register",
        "source operand 0",
    ),
    "register, some lanes": (
        "mov.u32 %r5, 1; @%q1 mov.u32 %r5, 2; add.u32 %r6, %r5, 1;",
        "@%q1 mov.u32 %r5, 2; add.u32 %r6, %r5, 1;",
        "uninitialised-register",
        "lanes ffff0000",
    ),
    "guard": (
        "setp.eq.u32 %q5, %r3, 0; @%q5 mov.u32 %r6, 1;",
        "@%q5 mov.u32 %r6, 1;",
        "uninitialised-register",
        "the guard predicate",
    ),
    "guard that is false": (
        "setp.ne.u32 %q5, %r3, %r3; @%q5 add.u32 %r6, %r7, 1;",
        "@!%q5 add.u32 %r6, %r3, 1;",
        "uninitialised-register",
        "guard",
    ),
    "shared, one byte": (
        (
            "cvt.u16.u32 %h1, %r3; st.shared.b16 [%r1+64], %h1; st.shared.b8 [%r1+66], %h1; "
            "ld.shared.b8 %h2, [%r1+66];"
        ),
        "cvt.u16.u32 %h1, %r3; st.shared.b16 [%r1+64], %h1; ld.shared.b32 %r6, [%r1+64];",
        "uninitialised-shared",
        "0x442",
    ),
    "shared, atomic": (
        "st.shared.b32 [%r1+64], 0; atom.shared.add.u32 %r6, [%r1+64], 1;",
        "atom.shared.add.u32 %r6, [%r1+64], 1;",
        "uninitialised-shared",
        "0x440",
    ),
    "shared, bulk load writes it": (
        BULK + "ld.shared.b32 %r6, [%r1+64];",
        BULK + "ld.shared.b32 %r6, [%r1+76]; ld.shared.b32 %r6, [%r1+80];",
        "uninitialised-shared",
        "0x450",
    ),
    "shared, source of a bulk store": (
        FILL + STORE.format(16),
        FILL + STORE.format(32),
        "uninitialised-shared",
        "0x450",
    ),
    "tmem, one column": (
        ALLOC + ST.format(2, ", %r3") + LD + FREE,
        ALLOC + ST.format(1, "") + LD + FREE,
        "uninitialised-tmem",
        "column 1 of CTA 0",
    ),
    "tmem, half of a column": (
        ALLOC + ST.format(2, ", %r3") + LD + FREE,
        ALLOC + ST.format(1, "").replace("x1.b32", "x1.unpack::16b.b32") + LD + FREE,
        "uninitialised-tmem",
        "upper half",
    ),
    "tmem, a new allocation": (
        ALLOC + ST.format(2, ", %r3") + FREE + ALLOC + ST.format(2, ", %r3") + LD + FREE,
        ALLOC + ST.format(2, ", %r3") + FREE + ALLOC + LD + FREE,
        "uninitialised-tmem",
        "which nothing wrote",
    ),
}


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("name", CASES)
def test_a_read_of_what_nothing_wrote_is_found(name: str, mode: str, seed: int) -> None:
    correct, broken, code, words = CASES[name]
    options: dict[str, Any] = {"shared": SMEM, "smem": 256, "mode": mode, "seed": seed}
    block = 32 if "tmem" in name or "register" in name or "guard" in name else 1
    options |= {"checks": Check.UNINITIALISED, "block": block}
    assert run_ptx(THREADS + correct, aligned(64, np.uint32), **options).findings == ()
    findings = run_ptx(THREADS + broken, aligned(64, np.uint32), **options).findings
    assert {finding.code for finding in findings} == {code}
    assert words in findings[0].message


def test_two_findings_keep_their_own_addresses() -> None:
    body = THREADS + (
        "L: ld.shared.b32 %r6, [%r1+64];\n ld.shared.b32 %r6, [%r1+96]; "
        "add.u32 %r1, %r1, 4; setp.lt.u32 %q2, %r1, 1040; @%q2 bra L;"
    )
    report = run_ptx(body, shared=SMEM, smem=256, block=1, checks=Check.SHARED)
    assert ["0x440" in report.findings[0].message, "0x460" in report.findings[1].message] == [
        True,
        True,
    ]
    assert [finding.count for finding in report.findings] == [4, 4]

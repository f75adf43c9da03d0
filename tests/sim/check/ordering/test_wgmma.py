"""wgmma: its registers between issue and wait, and what orders its reads of shared memory (PTX ISA,
"wgmma.fence", "wgmma.wait_group", "Async Proxy").

128 threads; %r2 and %r3 are two 1024-byte aligned matrices in shared memory, which every thread has
written and fenced; %rd5 is a descriptor of the first, %r31 an mbarrier of count 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import run_ptx
from tests.sim.check.edges import MODES
from tests.sim.isa.memory.programs import SMEM, aligned, wait

BYTES = 8192
DESCRIPTOR = 1 << 16 | 64 << 32 | 1 << 62
FILL = (
    "or.b32 %r11, %r0, 0x3F803F80;"
    "shl.b32 %r9, %r0, 2; F: add.u32 %r10, %r2, %r9; st.shared.b32 [%r10], %r11;"
    "add.u32 %r9, %r9, 512;"
    f"setp.lt.u32 %q1, %r9, {2 * BYTES}; @%q1 bra F;"
)
PROXY, MEET = "fence.proxy.async;", "bar.sync 0;"
START = (
    "mov.u32 %r0, %tid.x; mov.u32 %r31, dyn; add.u32 %r2, %r31, 1024;"
    f"add.u32 %r3, %r2, {BYTES}; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd5, %r5;"
    f"mov.b64 %rd6, {DESCRIPTOR}; or.b64 %rd5, %rd5, %rd6; setp.eq.u32 %q5, %r0, 0;"
    "@%q5 mbarrier.init.shared.b64 [%r31], 1;"
    "@%q5 fence.mbarrier_init.release.cluster;" + FILL
)
D = ", ".join(f"%d{k}" for k in range(4))
ZERO = " ".join(f"mov.b32 %d{k}, 0; mov.b32 %a{k}, 0;" for k in range(4))
SS = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{D}}}, %rd5, %rd5, 1, 1, 1, 0, 0;"
RS = SS.replace("}, %rd5", "}, {%a0, %a1, %a2, %a3}").replace("1, 1, 1, 0, 0", "1, 1, 1, 0")
HALF = SS.replace("f32.bf16.bf16", "f16.f16.f16").replace(D, "%d0, %d1")
FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT, WAIT_ONE = "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"
USE = "add.u32 %r14, %d0, 1;"
WRITE_A = "add.u32 %a1, %a1, 1;"
STORE = "st.shared.b32 [%r2], %r0;"
TMA = (
    "@%q5 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r31], 16;"
    "@%q5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    " [%r2], [%p0], 16, [%r31];"
)
FILLED = wait("%r31", 0, "FILLED")


@dataclass(frozen=True)
class Rule:
    """A program that is clean with `kept` in place of EDGE, and breaks `code` with `broken`."""

    name: str
    body: str
    kept: str
    code: str
    broken: str = ""


READY = PROXY + MEET + ZERO
RULES = (
    Rule("fence before the first", f"{READY} EDGE {SS} {COMMIT} {WAIT}", FENCE, "wgmma-not-fenced"),
    Rule("fence after a write of D", f"{READY} {FENCE} mov.b32 %d1, 1; EDGE {SS} {COMMIT} {WAIT}",
         FENCE, "wgmma-not-fenced"),
    Rule("fence after a write of A", f"{READY} {FENCE} {WRITE_A} EDGE {RS} {COMMIT} {WAIT}",
         FENCE, "wgmma-not-fenced"),
    Rule("fence after a read of D",
         f"{READY} {FENCE} {SS} {COMMIT} {WAIT} {USE} EDGE {SS} {COMMIT} {WAIT}",
         FENCE, "wgmma-not-fenced"),
    Rule("wait before a use of D", f"{READY} {FENCE} {SS} {COMMIT} EDGE {USE} {WAIT}",
         WAIT, "wgmma-register-in-flight"),
    Rule("commit before the wait", f"{READY} {FENCE} {SS} EDGE {WAIT} {USE} {COMMIT} {WAIT}",
         COMMIT, "wgmma-register-in-flight"),
    Rule("wait for enough groups", f"{READY} {FENCE} {SS} {COMMIT} EDGE {USE} {WAIT}",
         WAIT, "wgmma-register-in-flight", WAIT_ONE),
    Rule("wait before a write of A", f"{READY} {FENCE} {RS} {COMMIT} EDGE {WRITE_A} {WAIT}",
         WAIT, "wgmma-register-in-flight"),
    Rule("the same shape accumulates", f"{READY} {FENCE} {SS} EDGE {COMMIT} {WAIT}",
         SS, "wgmma-register-in-flight", HALF),
    Rule("wait before the end", f"{READY} {FENCE} {SS} {COMMIT} EDGE", WAIT, "wgmma-not-waited"),
    Rule("proxy fence before the read", f"EDGE {MEET} {ZERO} {FENCE} {SS} {COMMIT} {WAIT}",
         PROXY, "race-shared"),
    Rule("every warp knows of the write", f"{PROXY} EDGE {ZERO} {FENCE} {SS} {COMMIT} {WAIT}",
         MEET, "race-shared"),
    Rule("wait before a store", f"{READY} {FENCE} {SS} {COMMIT} EDGE {MEET} @%q5 {STORE} {WAIT}",
         WAIT, "race-shared"),
    Rule("wait before a copy", f"{READY} {FENCE} {SS} {COMMIT} EDGE {MEET} {TMA} {FILLED} {WAIT}",
         WAIT, "race-shared"),
    Rule("copy before the read", f"{READY} {FENCE} {MEET} {TMA} EDGE {SS} {COMMIT} {WAIT} {FILLED}",
         FILLED.replace("FILLED", "BEFORE"), "race-shared"),
)  # fmt: skip


def run_rule(body: str, mode: str = "fast", seed: int = 0, checks: Check = Check.ALL) -> Report:
    """Run a body behind the frame; faults are reported, not raised."""
    return run_ptx(
        START + body, aligned(64, np.uint32), block=128, smem=1024 + 2 * BYTES, shared=SMEM,
        regs=".reg .b32 %d<4>; .reg .b32 %a<4>;", mode=mode, seed=seed,
        checks=checks, raise_on_fault=False,
    )  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_edge(rule: Rule, mode: str, seed: int) -> None:
    checks = Check.ALL | Check.TO_THE_LETTER
    kept = run_rule(rule.body.replace("EDGE", rule.kept), mode, seed, checks)
    assert kept.verdict == "clean", kept.findings
    broken = run_rule(rule.body.replace("EDGE", rule.broken), mode, seed, checks)
    assert rule.code in {f.code for f in broken.findings}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("every warp knows of the write", ("read by wgmma of the warpgroup", "four warps")),
        ("wait before a store", ("after the read by wgmma of", "a wgmma.wait_group by its warps")),
    ],
)
def test_a_race_with_wgmma_names_it(name: str, words: tuple[str, ...]) -> None:
    """Not tcgen05, which shares the checker's queues."""
    (rule,) = (r for r in RULES if r.name == name)
    found = run_rule(rule.body.replace("EDGE", rule.broken)).findings
    texts = [f.message for f in found if f.code == "race-shared"]
    assert any(all(word in text for word in words) for text in texts), texts
    assert not any("tcgen05" in text for text in texts)


def test_one_warp_may_release_what_the_warpgroup_read() -> None:
    """The wgmma of four warps are one operation: whoever waited for it knows that all of it is
    over."""
    body = f"{READY} {FENCE} {SS} {COMMIT} {WAIT} @%q5 {STORE}"
    assert run_rule(body).verdict == "clean"


def test_late_mode_lands_at_the_wait() -> None:
    """A program without the wait reads what D held before; with it, the product."""
    seen = []
    for edge in (WAIT, ""):
        out = aligned(128, np.uint32)
        show = "mad.wide.u32 %rd9, %r0, 4, %p0; st.global.b32 [%rd9], %d0;"
        body = f"{READY} {FENCE} {SS} {COMMIT} {edge} {show} {WAIT}"
        run_ptx(
            START + body, out, block=128, smem=1024 + 2 * BYTES, shared=SMEM, mode="late",
            regs=".reg .b32 %d<4>; .reg .b32 %a<4>;",
        )  # fmt: skip
        seen.append(bool(out.any()))
    assert seen == [True, False]

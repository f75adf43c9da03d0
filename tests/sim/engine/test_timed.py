"""Mode "timed": warps and asynchronous work advance together."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.report import SimulationFault
from testing.harness import SMEM, run_ptx

ROUNDS = 6
STEPS = 200
FRAGILE = f"""
mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; setp.ne.u32 %q0, %r0, 0; setp.ge.u32 %q1, %r0, 32;
@!%q0 mbarrier.init.shared.b64 [%r1], 1; bar.sync 0; mov.u32 %r2, 0; setp.ne.u32 %q2, %r0, 32;
@!%q1 bra WAITS;
ROUND: mov.u32 %r3, 0;
WORK: add.u32 %r3, %r3, 1; setp.lt.u32 %q3, %r3, {STEPS}; @%q3 bra WORK;
@!%q2 mbarrier.arrive.shared.b64 _, [%r1];
add.u32 %r2, %r2, 1; setp.lt.u32 %q4, %r2, {ROUNDS}; @%q4 bra ROUND;
bra END;
WAITS: and.b32 %r4, %r2, 1;
AGAIN: mbarrier.try_wait.parity.shared.b64 %q5, [%r1], %r4; @!%q5 bra AGAIN;
add.u32 %r2, %r2, 1; setp.lt.u32 %q4, %r2, {ROUNDS}; @%q4 bra WAITS;
st.global.u32 [%p0], %r2;
END:
"""
"""A warp signals after some work, and does not ask whether the other one has seen the last time."""


def test_a_slow_producer_is_not_ahead() -> None:
    out = np.zeros(1, np.uint32)
    report = run_ptx(FRAGILE, out, block=64, shared=SMEM, smem=64, mode="timed")
    assert (out[0], report.ended) == (ROUNDS, True)


def test_at_once_it_is() -> None:
    out = np.zeros(1, np.uint32)
    with pytest.raises(SimulationFault, match="deadlock"):
        run_ptx(FRAGILE, out, block=64, shared=SMEM, smem=64, mode="late", seed=1)


COPY = """
mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; add.u32 %r2, %r1, 64; setp.ne.u32 %q0, %r0, 0;
@!%q0 mbarrier.init.shared.b64 [%r1], 1; @!%q0 st.shared.u32 [%r2], 1; bar.sync 0;
@!%q0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
@!%q0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%p0], 16, [%r1];
ld.shared.u32 %r3, [%r2]; st.global.u32 [%p1], %r3;
AGAIN: mbarrier.try_wait.parity.shared.b64 %q5, [%r1], 0; @!%q5 bra AGAIN;
ld.shared.u32 %r4, [%r2]; st.global.u32 [%p1+4], %r4;
"""


@pytest.mark.parametrize(("mode", "early"), [("fast", 2), ("timed", 1)])
def test_a_copy_takes_its_time(mode: str, early: int) -> None:
    """What is read without a wait is the old value where a copy takes time."""
    source, out = np.full(64, 2, np.uint32), np.zeros(2, np.uint32)
    at = -(source.ctypes.data // 4) % 4
    run_ptx(COPY, source[at : at + 8], out, shared=SMEM, smem=128, mode=mode)
    assert out.tolist() == [early, 2]


RING = """
mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1;
setp.ne.u32 %q0, %r0, 0; @!%q0 mbarrier.init.shared.b64 [%r1], 1;
fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
@%q0 bra END;
st.shared.u32 [%r1+8], %r2; mapa.shared::cluster.u32 %r4, %r1, %r3;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q5, [%r1], 0; @!%q5 bra AGAIN;
ld.shared::cluster.u32 %r5, [%r4+8];
mul.wide.u32 %rd1, %r2, 4; add.s64 %rd1, %rd1, %p0; st.global.u32 [%rd1], %r5;
END:
"""
"""Two CTAs tell one another that their words are there, read them, and end."""


def test_a_cta_does_not_end_while_its_neighbour_that_began_as_early_still_reads() -> None:
    """A load from another CTA takes as long as an arrival there; at once, the first one is gone."""
    out = np.zeros(2, np.uint32)
    two = (2, 1, 1)
    run_ptx(RING, out, grid=two, cluster=two, shared=SMEM, smem=64, mode="timed")
    assert out.tolist() == [1, 0]
    with pytest.raises(SimulationFault, match="has exited"):
        run_ptx(RING, out, grid=two, cluster=two, shared=SMEM, smem=64, mode="fast")

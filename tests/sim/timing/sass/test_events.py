"""What lanes tell and bring mbarriers, and which instructions of the PTX count at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.timing.chips import load_chip
from sm100sim.timing.model import run_cluster
from sm100sim.timing.records import Action
from sm100sim.timing.sass.trace import traced
from testing.harness import SMEM
from tests.sim.timing.sass.test_trace import actions, followed

CANCEL = """
@%q1 bra W;
add.u32 %r7, %r6, 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%r7], [%r6];
"""  # noqa: E501
STORE = """
add.u32 %r9, %r8, 16;
st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r9], {%r1, %r1, %r1, %r1}, [%r8];
"""


@pytest.mark.parametrize("brings", [CANCEL, STORE])
def test_lanes_that_arrive_at_barriers_of_two_ctas_expect_bytes_at_each(brings: str) -> None:
    """Two lanes tell the barrier of a CTA each of 16 bytes; an answer or two stores bring them."""
    body = f"""
mov.u32 %r6, dyn;
mov.u32 %r2, %tid.x;
mov.u32 %r5, %cluster_ctarank;
setp.ne.u32 %q1, %r2, 0;
@%q1 bra READY;
mbarrier.init.shared.b64 [%r6], 1;
fence.mbarrier_init.release.cluster;
READY: barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
setp.ne.u32 %q2, %r5, 0;
@%q2 bra W;
setp.gt.u32 %q2, %r2, 1;
@%q2 bra W;
mapa.shared::cluster.u32 %r8, %r6, %r2;
mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r8], 16;
{brings}W: mbarrier.try_wait.parity.shared.b64 %q3, [%r6], 0;
@%q3 bra D;
bra W;
D: st.global.b32 [%p0], %r2;
"""
    out = np.zeros(32, np.uint32)
    pair: dict[str, Any] = {"grid": (2, 1, 1), "cluster": (2, 1, 1), "block": 32}
    launched, kernel, _ = followed(body, out, smem=256, shared=SMEM, **pair)
    (trace,) = traced(kernel, launched).traces
    (expects,) = (e for e in trace.events if e.kind is Action.MBARRIER_ARRIVE)
    assert (len(expects.objects), expects.count, expects.size) == (2, 1, 16)
    assert run_cluster(trace, load_chip("b200").draw(0)).cycles > 0


@pytest.mark.parametrize(
    ("directives", "kept"), [("", 0), (".reqntid 128, 1, 1 .minnctapersm 1", 1)]
)
def test_setmaxnreg_counts_where_the_assembler_keeps_it(directives: str, kept: int) -> None:
    """It leaves it out where it does not know how many registers a thread has at its start."""
    body = "bar.sync 0;\nsetmaxnreg.dec.sync.aligned.u32 40;\nbar.sync 1;"
    launched, kernel, _ = followed(body, block=128, directives=directives)
    assert sum(i.opcode == "USETMAXREG" for i in kernel.instructions) == kept
    launch = traced(kernel, launched)
    for stream in launch.traces[0].streams:
        assert actions(launch, stream).count(Action.NAMED_BARRIER) == 2
        assert actions(launch, stream).count(Action.REGISTERS) == kept

"""Clusters: distributed shared memory, cluster barrier, remote arrivals, launch control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of, only, wait

PAIR: dict[str, Any] = {"shared": SMEM, "smem": 256, "grid": (2, 1, 1), "cluster": (2, 1, 1)}
START = (
    "mov.u32 %r1, dyn; mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; "
    "mapa.shared::cluster.u32 %r2, %r1, %r21;"
)
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"
MODES = ["fast", "random", "late"]


def test_mapa_and_getctarank() -> None:
    out = aligned(8, np.uint32)
    run_ptx(
        START + "getctarank.shared::cluster.u32 %r3, %r2; cvt.u64.u32 %rd1, %r1; "
        "cvta.shared.u64 %rd2, %rd1; mapa.u64 %rd3, %rd2, %r21;"
        "cvta.to.shared::cluster.u64 %rd4, %rd3; cvt.u32.u64 %r4, %rd4; getctarank.u64 %r5, %rd3;"
        "mad.wide.u32 %rd5, %r20, 16, %p0; st.global.v4.b32 [%rd5], {%r2, %r3, %r4, %r5};",
        out,
        block=1,
        **PAIR,
    )
    assert out.tolist() == [0x01000400, 1, 0x01000400, 1, 0x400, 0, 0x400, 0]


def test_own_shared_addresses_carry_the_rank_as_on_an_h200() -> None:
    """What an H200 writes for a dynamic array at byte 0x800 of a cluster of 4
    (benchmarks/hopper/README.md).

    Only where the array starts is the kernel's and the driver's business.
    """
    out = aligned(16, np.uint32)
    run_ptx(
        "mov.u32 %r1, dyn; mov.u32 %r2, %cluster_ctarank; "
        "mapa.shared::cluster.u32 %r3, %r1, 0; mapa.shared::cluster.u32 %r4, %r1, 3;"
        "mapa.shared::cluster.u32 %r5, %r1, %r2; mad.wide.u32 %rd1, %r2, 16, %p0; "
        "st.global.v4.b32 [%rd1], {%r1, %r3, %r4, %r5};",
        out,
        shared=SMEM,
        smem=256,
        grid=(4, 1, 1),
        block=1,
        cluster=(4, 1, 1),
    )
    h200 = [[0x800, 0x800, 0x3000800, 0x800], [0x1000800, 0x800, 0x3000800, 0x1000800]]
    h200 += [[0x2000800, 0x800, 0x3000800, 0x2000800], [0x3000800, 0x800, 0x3000800, 0x3000800]]
    start = int(out[1])
    assert (out.reshape(4, 4) - start == np.array(h200) - 0x800).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "arrive", ["barrier.cluster.arrive;", "barrier.cluster.arrive.release.aligned;"]
)
def test_ctas_exchange_through_distributed_shared_memory(mode: str, arrive: str) -> None:
    out = aligned(64, np.uint32)
    sync = arrive + (
        "barrier.cluster.wait.acquire.aligned;" if "aligned" in arrive else "barrier.cluster.wait;"
    )
    run_ptx(
        START + "mov.u32 %r0, %tid.x; shl.b32 %r3, %r0, 2; add.u32 %r4, %r2, %r3; "
        "mad.lo.s32 %r5, %r20, 100, %r0;"
        "st.shared::cluster.b32 [%r4], %r5;"
        + sync
        + "add.u32 %r6, %r1, %r3; ld.shared.b32 %r7, [%r6];"
        "mad.lo.s32 %r8, %r20, 32, %r0; mad.wide.u32 %rd1, %r8, 4, %p0; st.global.b32 [%rd1], %r7;"
        + sync,
        out,
        mode=mode,
        **PAIR,
    )
    assert out.tolist() == list(range(100, 132)) + list(range(32))


@pytest.mark.parametrize("mode", MODES)
def test_remote_arrivals_and_transactions(mode: str) -> None:
    body = (
        START
        + only(0, "mbarrier.init.shared.b64 [%r1], 33; fence.mbarrier_init.release.cluster;", "I")
        + SYNC
        + "mov.u32 %r3, 1; mbarrier.arrive.shared::cluster.b64 _, [%r2], %r3;"
        + only(
            0,
            (
                "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%r2], 48; "
                "mbarrier.complete_tx.shared::cluster.b64 [%r2], 48;"
            ),
            "X",
        )
        + wait("%r1", 0, "W")
        + SYNC
    )
    run_ptx(body, mode=mode, **PAIR)


@pytest.mark.parametrize("mode", MODES)
def test_st_async_and_red_async_signal_their_bytes(mode: str) -> None:
    out = aligned(8, np.uint64)
    body = (
        START
        + only(
            0,
            (
                "mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; "
                "st.shared.b64 [%r1+64], 5; st.shared.b32 [%r1+80], 3;"
            ),
            "I",
        )
        + SYNC
        + only(
            0,
            "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 28; cvt.u64.u32 %rd1, %r20; "
            "add.s64 %rd1, %rd1, 70;"
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.s64 [%r2+64], %rd1, [%r2];"
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r2+96], {1, "
            "2, 3, 4}, [%r2];"
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
            "[%r2+80], 9, [%r2];"
            + wait("%r1", 0, "W")
            + "ld.shared.b64 %rd2, [%r1+64]; ld.shared.b32 %r5, [%r1+80]; "
            "ld.shared.b32 %r6, [%r1+108]; mad.wide.u32 %rd3, %r20, 32, %p0;"
            "cvt.u64.u32 %rd4, %r5; cvt.u64.u32 %rd5, %r6; st.global.b64 [%rd3], %rd2; "
            "st.global.b64 [%rd3+8], %rd4; st.global.b64 [%rd3+16], %rd5;",
            "X",
        )
        + SYNC
    )
    run_ptx(body, out, mode=mode, **PAIR)
    assert out.tolist() == [71, 12, 4, 0, 70, 12, 4, 0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (START + "ld.shared.b32 %r5, [%r2];", "another CTA"),
        (
            START
            + only(0, "mbarrier.init.shared.b64 [%r1], 1;", "I")
            + SYNC
            + only(0, wait("%r2", 0, "W"), "X"),
            "another CTA",
        ),
        (
            START
            + (
                "mov.u32 %r5, 2; mapa.shared::cluster.u32 %r6, %r1, %r5; "
                "ld.shared::cluster.u32 %r7, [%r6];"
            ),
            "beyond the cluster",
        ),
        ("barrier.cluster.wait;", "without barrier.cluster.arrive"),
        ("barrier.cluster.arrive; barrier.cluster.arrive;", "arrive again"),
        (
            START + "setp.eq.u32 %q0, %r20, 0; @%q0 bra ZERO; ret; ZERO: mov.u32 %r9, 0; "
            "L: add.u32 %r9, %r9, 1; setp.lt.u32 %q1, %r9, 5000;"
            "@%q1 bra L; st.shared::cluster.b32 [%r2], 1;",
            "has exited",
        ),
        (
            START
            + "setp.eq.u32 %q0, %r20, 0; @%q0 bra ZERO;"
            + only(0, "mbarrier.init.shared.b64 [%r1], 5;", "I")
            + wait("%r1", 0, "W")
            + "ZERO: "
            + SYNC,
            "deadlock",
        ),
    ],
)
def test_broken_rules_fault(body: str, reason: str) -> None:
    assert reason in fault_of(body, **PAIR)


def test_exited_threads_do_not_hold_up_the_cluster_barrier() -> None:
    run_ptx("mov.u32 %r20, %cluster_ctarank; setp.eq.u32 %q0, %r20, 1; @%q0 ret;" + SYNC, **PAIR)


@pytest.mark.parametrize("mode", MODES)
def test_a_cluster_takes_over_the_work_of_those_not_started(mode: str) -> None:
    """Each block of a grid of 6 adds one to its own cell, whether it runs by itself or was
    cancelled."""
    out = aligned(6, np.uint32)
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r10, %ctaid.x; mov.u32 %r11, 0; "
        "mbarrier.init.shared.b64 [%r1], 1;"
        "NEXT: mad.wide.u32 %rd1, %r10, 4, %p0; red.global.add.u32 [%rd1], 1; "
        "mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r1], 16;"
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
        ".multicast::cluster::all.b128 [%r1+16], [%r1];"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %q0, [%r1], %r11; @!%q0 bra WAIT; "
        "xor.b32 %r11, %r11, 1;"
        "ld.shared.b128 %x0, [%r1+16]; "
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q1, %x0; "
        "@!%q1 bra DONE;"
        "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r10, %x0;"
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r12, %r13, "
        "%r14, _}, %x0; setp.ne.u32 %q2, %r10, %r12; @%q2 trap;"
        "bra NEXT; DONE:"
    )
    report = run_ptx(
        body,
        out,
        block=1,
        grid=(6, 1, 1),
        shared=SMEM,
        smem=64,
        regs=".reg .b128 %x<2>;",
        mode=mode,
    )
    assert out.tolist() == [1] * 6
    assert report.opcode_counts["TRY_CANCEL"] == 6


def test_a_cancelled_response_may_not_leave_the_cta() -> None:
    body = (
        START
        + only(0, "mbarrier.init.shared.b64 [%r1], 1;", "I")
        + SYNC
        + (
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
            "[%r2+16], [%r1];"
        )
    )
    assert "another CTA" in fault_of(body, **PAIR)

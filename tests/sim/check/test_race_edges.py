"""Happens-before edges that the race checker must neither miss nor invent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, only, wait

PAIR = {"shared": SMEM, "smem": 256, "grid": (2, 1, 1), "cluster": (2, 1, 1)}


def races(body: str, *arguments: object, **options: Any) -> set[str]:
    report = run_ptx(body, *arguments, checks=Check.RACES, **options)
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize(("between", "expected"), [("", {"race-shared"}), ("bar.sync 0;", set())])
def test_a_barrier_used_again_does_not_order_what_lies_between(
    between: str, expected: set[str]
) -> None:
    """Both warps read a maximum, then warp 0 overwrites it with a sum on its way to the next
    barrier."""
    body = (
        "mov.u32 %r1, dyn;" + only(0, "st.shared.b32 [%r1], 1;", "A") + "bar.sync 0;"
        "ld.shared.b32 %r2, [%r1];"
        + between
        + only(0, "st.shared.b32 [%r1], 2;", "B")
        + "bar.sync 0; ld.shared.b32 %r3, [%r1];"
    )
    assert races(body, block=64, shared=SMEM, smem=256) == expected


@pytest.mark.parametrize(
    ("between", "expected"),
    [("", {"race-shared"}), ("barrier.cluster.arrive; barrier.cluster.wait;", set())],
)
def test_the_cluster_barrier_orders_one_generation_at_a_time(
    between: str, expected: set[str]
) -> None:
    sync = "barrier.cluster.arrive; barrier.cluster.wait;"
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r20, %cluster_ctarank; mov.u32 %r21, 0;"
        "mapa.shared::cluster.u32 %r2, %r1, %r21; setp.ne.u32 %q0, %r20, 0; "
        "setp.eq.u32 %q1, %r20, 0;"
        "@%q1 st.shared.b32 [%r1], 1;"
        + sync
        + "@%q0 ld.shared::cluster.b32 %r3, [%r2];"
        + between
        + "@%q1 st.shared.b32 [%r1], 2;"
        + sync
    )
    assert races(body, block=1, **PAIR) == expected


def test_a_copy_into_several_ctas_is_learnt_of_in_each() -> None:
    """Every CTA waits on its own mbarrier and reads its own copy (cp.async.bulk, multicast)."""
    source = aligned(4, np.uint32)
    source[:] = (1, 2, 3, 4)
    out = aligned(8, np.uint32)
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r20, %cluster_ctarank; mbarrier.init.shared.b64 [%r1], 1;"
        "fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 16;"
        "barrier.cluster.arrive; barrier.cluster.wait; setp.ne.u32 %q0, %r20, 0; mov.b16 %h1, 3;"
        "@%q0 bra GO; "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%r1+16], [%p0], 16, [%r1], %h1; GO:"
        + wait("%r1", 0, "W")
        + "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r1+16]; mul.wide.u32 %rd1, %r20, 16; "
        "add.s64 %rd1, %rd1, %p1;"
        "st.global.v4.b32 [%rd1], {%r4, %r5, %r6, %r7}; barrier.cluster.arrive; "
        "barrier.cluster.wait;"
    )
    assert races(body, source, out, block=1, **PAIR) == set()
    assert out.tolist() == [1, 2, 3, 4, 1, 2, 3, 4]

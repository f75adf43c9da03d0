"""Tensor copies into other CTAs of a cluster, alone and multicast."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of, only, wait
from tests.sim.isa.memory.test_tma import GOOD, MODES, SOURCE, dump, load, loaded


# ---- clusters -----------------------------------------------------------------------------------
def gathered(text: str, mode: str, ctas: int = 2, block: int = 32) -> np.ndarray:
    """Run on a cluster; every CTA writes its box to its own kilobyte of the result."""
    out = aligned(1024 * ctas, np.uint8)
    own = "mov.u32 %r20, %cluster_ctarank; mad.wide.u32 %p1, %r20, 1024, %p1;"
    sync = "barrier.cluster.arrive; barrier.cluster.wait;"
    run_ptx(
        text.replace("OWN", own).replace("SYNC", sync) + own + dump(1024) + sync,
        SOURCE,
        out,
        GOOD.encode(),
        grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1),
        block=block,
        shared=SMEM,
        smem=4096,
        mode=mode,
    )
    return out.reshape(ctas, 1024)


INIT = (
    only(0, "mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; EXPECT", "I")
    + "SYNC"
)
ISSUE = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{forms} "
    "[{dst}], [%m0, {{0, %r20}}], [{bar}]{tail};"
)


@pytest.mark.parametrize("mode", MODES)
def test_multicast_delivers_and_signals_in_every_named_cta(mode: str) -> None:
    expect = "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 1024;"
    issue = ISSUE.format(
        forms=".multicast::cluster.L2::cache_hint", dst="%r1+1024", bar="%r1", tail=", %h1, %rd8"
    )
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r20, %cluster_ctarank; mov.b64 %rd8, 0; mov.b16 %h1, 13;"
        + INIT.replace("EXPECT", expect)
        + "setp.ne.u32 %q3, %r20, 2; @%q3 bra NOT;"
        + only(0, issue, "T")
        + "NOT: setp.eq.u32 %q4, %r20, 1; @%q4 bra OUT;"
        + wait("%r1", 0, "W")
        + "OUT: SYNC"
    )
    got = gathered(body + "@%q4 st.shared.b32 [%r1+1024], 0;", mode, ctas=4)
    box = loaded(GOOD, SOURCE, (0, 2))
    assert all((got[r] == box).all() for r in (0, 2, 3))
    assert not (got[1] == box).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_pair_signals_the_barrier_of_its_leader(mode: str) -> None:
    """.cta_group::2: both CTAs load; address bit 24 cleared names the even CTA's barrier."""
    expect = (
        "mov.u32 %r20, %cluster_ctarank; setp.ne.u32 %q5, %r20, 0; @%q5 bra ODD; "
        "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 2048; ODD:"
    )
    issue = ISSUE.format(forms=".cta_group::2", dst="%r1+1024", bar="%r21", tail="")
    body = (
        "mov.u32 %r1, dyn; and.b32 %r21, %r1, 0xFEFFFFFF;"
        + INIT.replace("EXPECT", expect)
        + "mov.u32 %r20, %cluster_ctarank;"
        + only(0, issue, "T")
        + "setp.ne.u32 %q6, %r20, 0; @%q6 bra SECOND;"
        + wait("%r1", 0, "W")
        + "SECOND: SYNC"
    )
    got = gathered(body, mode)
    assert (got[0] == loaded(GOOD, SOURCE, (0, 0))).all()
    assert (got[1] == loaded(GOOD, SOURCE, (0, 1))).all()


@pytest.mark.parametrize(
    ("forms", "bar", "tail", "reason"),
    [
        (".multicast::cluster", "%r1", ", 4", "CTA mask 0x4"),
        (".multicast::cluster", "%r1", ", 0", "CTA mask 0x0"),
    ],
)
def test_cluster_rules(forms: str, bar: str, tail: str, reason: str) -> None:
    issue = ISSUE.format(forms=forms, dst="%r1+1024", bar=bar, tail=tail)
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r20, %cluster_ctarank; xor.b32 %r22, %r1, 0x01000000;"
        + INIT.replace("EXPECT", "").replace(
            "SYNC", "barrier.cluster.arrive; barrier.cluster.wait;"
        )
        + only(0, issue, "T")
        + "barrier.cluster.arrive; barrier.cluster.wait;"
    )
    assert reason in fault_of(
        body, SOURCE, GOOD.encode(), grid=(2, 1, 1), cluster=(2, 1, 1), shared=SMEM, smem=4096
    )


def test_a_pair_s_signal_needs_a_second_cta() -> None:
    """Rank 2 of three CTAs has no partner: its signal would go to rank 3 (.cta_group::2)."""
    issue = ISSUE.format(
        forms=".multicast::cluster.cta_group::2", dst="%r1+1024", bar="%r21", tail=", 4"
    )
    sync = "barrier.cluster.arrive; barrier.cluster.wait;"
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r20, %cluster_ctarank; or.b32 %r21, %r1, 0x01000000;"
        + INIT.replace("EXPECT", "").replace("SYNC", sync)
        + "setp.ne.u32 %q6, %r20, 1; @%q6 bra OTHER;"
        + only(0, issue, "T")
        + "OTHER:"
        + sync
    )
    assert "cta-pair: CTA 2 has no pair partner" in fault_of(
        body, SOURCE, GOOD.encode(), grid=(3, 1, 1), cluster=(3, 1, 1), shared=SMEM, smem=4096,
        mode="fast",  # the warps of the last CTA come first
    )


@pytest.mark.parametrize("mode", MODES)
def test_the_barrier_is_in_the_cta_of_the_destination_whatever_the_address_names(mode: str) -> None:
    """Address bit 24 cleared, without .cta_group::2: CTA 1 names the barrier of CTA 0."""
    out = aligned(2048, np.uint8)
    own = "mov.u32 %r20, %cluster_ctarank; mad.wide.u32 %p1, %r20, 1024, %p1;"
    expect = "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 1024;"
    issue = ISSUE.format(forms="", dst="%r1+1024", bar="%r21", tail="")
    sync = "barrier.cluster.arrive; barrier.cluster.wait;"
    report = run_ptx(
        "mov.u32 %r1, dyn; and.b32 %r21, %r1, 0xFEFFFFFF; mov.u32 %r20, %cluster_ctarank;"
        + INIT.replace("EXPECT", expect).replace("SYNC", sync)
        + only(0, issue, "T")
        + wait("%r1", 0, "W")
        + own
        + dump(1024)
        + sync,
        SOURCE, out, GOOD.encode(), grid=(2, 1, 1), cluster=(2, 1, 1), shared=SMEM, smem=4096,
        mode=mode,
    )  # fmt: skip
    for rank, got in enumerate(out.reshape(2, 1024)):
        assert (got == loaded(GOOD, SOURCE, (0, rank))).all()
    (found,) = report.findings
    assert (found.code, found.fatal, found.rank) == ("mbarrier-address", False, 1)


def test_a_load_may_not_land_in_a_cta_that_has_exited() -> None:
    body = load(GOOD, (0, 0)).replace(wait("%r1", 0, "W"), "")
    assert "exited" in fault_of(body, SOURCE, GOOD.encode(), shared=SMEM, smem=4096, mode="late")


def test_loads_show_in_the_timeline_and_the_byte_count() -> None:
    out = aligned(1024, np.uint8)
    report = run_ptx(
        load(GOOD, (0, 0)) + dump(1024),
        SOURCE,
        out,
        GOOD.encode(),
        shared=SMEM,
        smem=4096,
        trace_cluster=0,
    )
    assert report.tma_bytes_loaded == 1024
    event = next(e for e in report.events if e.kind.name == "TMA_LOAD")
    barrier = next(e for e in report.events if e.kind.name == "BARRIER")
    assert (event.a, event.b - barrier.a) == (1024, 1024)
    assert barrier.b == 1
    assert event.end - event.start >= 700
    assert max(e.end for e in report.events if e.kind.name == "MARK") > event.end


def test_a_waited_load_is_clean_and_an_unwaited_read_is_a_race() -> None:
    out = aligned(1024, np.uint8)
    args = (SOURCE, out, GOOD.encode())
    assert not run_ptx(
        load(GOOD, (0, 0)) + dump(1024), *args, shared=SMEM, smem=4096, checks=Check.ALL
    ).findings
    unwaited = (
        load(GOOD, (0, 0)).replace(wait("%r1", 0, "W"), "") + dump(1024) + wait("%r1", 0, "W")
    )
    report = run_ptx(unwaited, *args, shared=SMEM, smem=4096, checks=Check.RACES)
    assert any(f.code == "race-shared" for f in report.findings)

"""tcgen05.commit: arrivals, multicast, time, and who may commit."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sm100sim.report import EventKind, Report, SimulationFault
from testing.layouts.instr_desc import InstrDescriptor
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.isa.tcgen05.programs import IMAGE_START, run_frame

IMAGE = np.zeros(32768, np.uint8)
DESC = SmemDescriptor(IMAGE_START, 16, 1024, Swizzle.B128)
HI, LO = DESC.encode() >> 32, DESC.encode() & 0xFFFFFFFF
IDESC = InstrDescriptor("f16", 128, 128, "bf16", "bf16").encode()
MMA = """
mov.b64 %rd5, {%r51, %r52};
tcgen05.mma.cta_group::1.kind::f16 [%r30], %rd5, %rd5, %r53, 0;
"""
SETUP = f"mov.b32 %r51, {LO}; mov.b32 %r52, {HI}; mov.b32 %r53, {IDESC};"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r31];"
MULTICAST_2 = ".multicast::cluster.b64 [%r31], 2"
PAIR = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"


def run(body: str, *, group: int = 1, **options: Any) -> Report:
    tmem = np.zeros((group, 128, 512), np.uint32)
    return run_frame(SETUP + body, [IMAGE] * group, tmem, group=group, **options)[0]


def thread0(text: str) -> str:
    return f"@!%q1 bra ISSUED; {text} ISSUED:"


@pytest.mark.parametrize("mode", ["fast", "random", "late"])
def test_a_commit_completes_the_phase(mode: str) -> None:
    assert not run(thread0(MMA + COMMIT), mode=mode).findings


def test_without_a_commit_nothing_arrives() -> None:
    with pytest.raises(SimulationFault, match="deadlock"):
        run(thread0(MMA), mode="late")


def test_a_commit_with_nothing_outstanding_arrives() -> None:
    assert not run(thread0(COMMIT)).findings


def test_a_commit_that_nobody_waits_for_is_lost_with_its_cta() -> None:
    """Shipped kernels end so; it is worth a finding, not a stop."""
    tmem = np.zeros((1, 128, 512), np.uint32)
    body = SETUP + thread0(COMMIT)
    report, _ = run_frame(body, [IMAGE], tmem, wait=False, mode="late")
    assert [(f.code, f.fatal) for f in report.findings] == [("exited-cta", False)]


def test_a_generic_address_without_its_window_is_taken_as_ptxas_takes_it() -> None:
    """Triton 3.6 and ThunderKittens write so; it is worth a finding, not a stop."""
    commit = COMMIT.replace(".shared::cluster", "").replace("%r31", "%rd5")
    report = run(thread0(f"{MMA} cvt.u64.u32 %rd5, %r31; {commit}"))
    assert [(f.code, f.fatal) for f in report.findings] == [("generic-address", False)]
    with pytest.raises(SimulationFault, match="generic-address"):
        run(thread0(f"mov.b64 %rd5, 0x123400000000; {commit}"))


@pytest.mark.parametrize("mode", ["fast", "late"])
def test_multicast_arrives_in_the_named_ctas(mode: str) -> None:
    body = f"mov.b16 %h1, 3; @!%q5 bra ISSUED; {PAIR}.multicast::cluster.b64 [%r31], %h1; ISSUED:"
    assert not run(body, group=2, mode=mode).findings


def test_without_multicast_the_peer_waits_for_ever() -> None:
    with pytest.raises(SimulationFault, match="deadlock"):
        run(f"@!%q5 bra ISSUED; {PAIR}.b64 [%r31]; ISSUED:", group=2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (COMMIT, "several-lanes-issue"),
        (thread0(COMMIT.replace(".b64 [%r31]", MULTICAST_2)), "multicast-mask"),
        (thread0("add.u32 %r31, %r31, 8;" + COMMIT), "no-mbarrier"),
        (thread0("add.u32 %r31, %r31, 4;" + COMMIT), "misaligned"),
        (thread0(COMMIT + COMMIT.replace("group::1", "group::2")), "cta-group-mix"),
    ],
    ids=lambda x: x if len(x) < 30 else "",
)  # fmt: skip
def test_rules(text: str, code: str) -> None:
    with pytest.raises(SimulationFault, match=code):
        run(text)


def test_a_commit_by_another_thread_is_reported() -> None:
    body = f"""
setp.eq.u32 %q6, %r0, 32; @!%q1 bra ISSUED; {MMA} ISSUED: bar.sync 0;
@!%q6 bra COMMITTED; {COMMIT} COMMITTED:
"""
    assert [f.code for f in run(body).findings] == ["commit-other-thread"]


def test_time_follows_the_published_latency() -> None:
    """One M128 N128 instruction holds the pipe 64 cycles, and a batch runs back to back."""
    report = run(thread0(MMA * 5 + COMMIT), trace_cluster=0)
    events = [e for e in report.events if e.kind == EventKind.MMA]
    assert [e.end - e.start for e in events] == [64] * 5
    assert all(b.start >= a.end for a, b in pairwise(events))
    assert (events[0].a, events[0].b) == (0, 128)
    assert events[-1].end - events[0].start == 5 * 64

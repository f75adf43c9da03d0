"""tcgen05.alloc, dealloc and relinquish_alloc_permit: results, blocking, every rule two-sided."""

from typing import Any

import numpy as np
import pytest

from sm100sim.report import Report, SimulationFault
from testing.harness import run_ptx

SHARED = ".shared .align 8 .b8 slots[64];"


def alloc(columns: int | str, slot: int = 0, group: int = 1) -> str:
    name = f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32"
    return f"{name} [%r2 + {4 * slot}], {columns};"


def dealloc(base: str, columns: int, group: int = 1) -> str:
    return f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 {base}, {columns};"


RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"


def run(body: str, *, warps: int = 1, ctas: int = 1, **options: Any) -> tuple[Report, np.ndarray]:
    """Run with %r0 tid, %r1 rank, %r2 the result slots, %r9 warp; answers (report, slots)."""
    out = np.zeros((ctas, 8), np.uint32)
    text = f"""
mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, slots; shr.u32 %r9, %r0, 5;
mul.wide.u32 %rd9, %r1, 32; add.s64 %rd9, %rd9, %p0;
{body}
bar.sync 0; setp.ge.u32 %q9, %r0, 8; @%q9 bra LEAVE;
mad.lo.u32 %r3, %r0, 4, %r2; ld.shared.b32 %r4, [%r3];
mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd9, %rd1; st.global.b32 [%rd1], %r4;
LEAVE:
"""
    shape: dict[str, Any] = {"grid": (ctas, 1, 1), "block": 32 * warps, "cluster": (ctas, 1, 1)}
    report = run_ptx(text, out, shared=SHARED, **shape, **options)
    return report, out


def test_allocations_do_not_overlap_and_can_be_reused() -> None:
    body = (
        alloc(256)
        + alloc(128, 1)
        + alloc(32, 2)
        + "ld.shared.b32 %r5, [%r2 + 4];"
        + dealloc("%r5", 128)
        + alloc(32, 3)
        + "ld.shared.b32 %r6, [%r2 + 8]; ld.shared.b32 %r7, [%r2 + 12]; ld.shared.b32 %r8, [%r2];"
        + RELINQUISH
        + dealloc("%r6", 32)
        + dealloc("%r7", 32)
        + dealloc("%r8", 256)
    )
    report, out = run(body)
    assert not report.findings
    assert out[0, :3].tolist() == [0, 256, 384]
    assert out[0, 3] % 32 == 0
    assert 256 <= out[0, 3] < 512
    assert out[0, 3] != 384


def test_an_allocation_waits_for_free_columns() -> None:
    """Warp 1 gets its columns only when warp 0 frees them, which it does after a while."""
    body = f"""
setp.eq.u32 %q1, %r9, 1; @%q1 bra SECOND;
{alloc(512)} bar.sync 1, 64; ld.shared.b32 %r5, [%r2];
mov.b32 %r6, 99; st.shared.b32 [%r2 + 8], %r6;
{dealloc("%r5", 512)} bra DONE;
SECOND: bar.sync 1, 64; {alloc(512, 1)} ld.shared.b32 %r7, [%r2 + 8]; st.shared.b32 [%r2 + 12], %r7;
ld.shared.b32 %r5, [%r2 + 4]; {dealloc("%r5", 512)}
DONE:
"""
    _, out = run(body, warps=2)
    assert out[0, 3] == 99


def test_starvation_is_a_deadlock_that_names_the_allocation() -> None:
    with pytest.raises(SimulationFault, match=r"(?s)deadlock.*alloc"):
        run(alloc(512) + alloc(512, 1))


def test_columns_left_at_exit_are_reported() -> None:
    report, _ = run(alloc(64))
    assert [f.code for f in report.findings] == ["tmem-leak"]
    assert "64" in report.findings[0].message


FREE = "ld.shared.b32 %r5, [%r2];"


@pytest.mark.parametrize(
    ("legal", "illegal", "code"),
    [
        (alloc(64) + FREE + dealloc("%r5", 64), alloc(96), "allocation-granularity-invalid"),
        (alloc(32) + FREE + dealloc("%r5", 32), alloc(16), "allocation-granularity-invalid"),
        (
            alloc(32) + RELINQUISH + FREE + dealloc("%r5", 32),
            RELINQUISH + alloc(32),
            "phase-invalid-during-alloc",
        ),
        (
            alloc(64) + FREE + dealloc("%r5", 64) + alloc(64) + FREE + dealloc("%r5", 64),
            alloc(64) + FREE + dealloc("%r5", 64) + alloc(128),
            "allocation-grows",
        ),
        (
            alloc(64) + FREE + dealloc("%r5", 64),
            alloc(64) + FREE + dealloc("%r5", 32),
            "dealloc-size-mismatch",
        ),
        (
            alloc(64) + FREE + dealloc("%r5", 64),
            alloc(64) + FREE + dealloc("%r5", 64) + dealloc("%r5", 64),
            "unallocated-columns-being-dealloced",
        ),
        (
            alloc(64) + FREE + dealloc("%r5", 64),
            alloc(64) + FREE + "add.u32 %r5, %r5, 32;" + dealloc("%r5", 32),
            "col-being-dealloced-not-returned-by-alloc",
        ),
        (
            alloc(64) + FREE + dealloc("%r5", 64),
            alloc(64) + FREE + dealloc("%r5", 64, group=2),
            "cta-group-mix",
        ),
        (
            alloc(64) + FREE + dealloc("%r5", 64),
            alloc(64, group=2),
            "pair-missing",
        ),
        (
            alloc(64) + FREE + dealloc("%r5", 64),
            "setp.lt.u32 %q1, %r0, 16; @!%q1 bra OVER;" + alloc(64) + "OVER:",
            "partial-warp|deadlock",
        ),
    ],
    ids=lambda x: x if len(x) < 45 else "",
)
def test_rules(legal: str, illegal: str, code: str) -> None:
    assert not run(legal)[0].findings
    with pytest.raises(SimulationFault, match=code):
        run(illegal)


CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


@pytest.mark.parametrize("mode", ["fast", "random"])
def test_a_pair_gets_the_same_columns(mode: str) -> None:
    body = "".join(
        [
            alloc(128, 0, 2),
            alloc(64, 1, 2),
            "ld.shared.b32 %r5, [%r2]; ld.shared.b32 %r6, [%r2 + 4];",
            CLUSTER,
            dealloc("%r5", 128, 2),
            dealloc("%r6", 64, 2),
        ]
    )
    report, out = run(body, ctas=2, mode=mode)
    assert not report.findings
    assert out[:, :2].tolist() == [[0, 128], [0, 128]]


@pytest.mark.parametrize(
    ("difference", "code"),
    [
        ("mad.lo.u32 %r2, %r1, 4, %r2;" + alloc(64, 0, 2), "pair-alloc-mismatch"),
        ("shl.b32 %r3, 64, %r1;" + alloc("%r3", 0, 2), "pair-alloc-mismatch"),
        ("setp.eq.u32 %q1, %r1, 1; @%q1 bra OVER;" + alloc(64, 0, 2) + "OVER:", "deadlock|exited"),
    ],
)
def test_a_pair_must_agree(difference: str, code: str) -> None:
    with pytest.raises(SimulationFault, match=code):
        run(difference, ctas=2)

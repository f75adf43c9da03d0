"""Bulk copies without a tensor, and cp.async."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of, only, wait

MODES = ["fast", "random", "late"]
OPTIONS: dict[str, Any] = {"shared": SMEM, "smem": 4096}
SETUP = (
    "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x;"
    + only(0, "mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;", "I")
    + "bar.sync 0;"
)


def data(count: int) -> np.ndarray:
    out = aligned(count, np.uint8)
    out[:] = np.random.default_rng(3).integers(0, 256, count)
    return out


def round_trip(size: int = 512, to: str = "shared::cta") -> str:
    """global -> shared -> global through one thread."""
    return SETUP + only(
        0,
        (
            f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {size}; mov.u32 %r5, {size};"
            f"cp.async.bulk.prefetch.L2.global [%p0], %r5;"
            f"cp.async.bulk.{to}.global.mbarrier::complete_tx::bytes [%r1+1024], [%p0], %r5, [%r1];"
            + wait("%r1", 0, "W")
            + (
                "cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r1+1024], %r5; "
                "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
            )
        ),
        "T",
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", ["shared::cta", "shared::cluster"])
def test_round_trip(mode: str, to: str) -> None:
    source, out = data(512), aligned(512, np.uint8)
    report = run_ptx(round_trip(to=to), source, out, mode=mode, checks=Check.RACES, **OPTIONS)
    assert (out == source).all()
    assert not report.findings


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda t: t.replace("%r5, 512;", "%r5, 520;"), "multiple of 16"),
        (lambda t: t.replace("[%p0], %r5, [%r1]", "[%p0+8], %r5, [%r1]"), "alignment of 16"),
        (lambda t: t.replace("bytes [%r1+1024]", "bytes [%r1+1032]"), "alignment of 16"),
        (lambda t: t.replace("bytes [%r1+1024]", "bytes [%r1+3600]"), "past the end"),
        (
            lambda t: t.replace("[%p0], %r5, [%r1]", "[%p0+4096], %r5, [%r1]"),
            "outside of every known",
        ),
        (lambda t: t.replace("%r5, [%r1]", "%r5, [%r1+8]"), "no live mbarrier"),
        (lambda t: t.replace("bytes [%r1+1024]", "bytes [%r1]"), "live mbarrier"),
    ],
)
def test_operands_are_checked(edit: Any, reason: str) -> None:
    text = edit(round_trip())
    assert text != round_trip()
    assert reason in fault_of(text, data(512), aligned(512, np.uint8), **OPTIONS)


def test_byte_mask_selects_bytes_of_every_16() -> None:
    source, out = data(64), aligned(64, np.uint8)
    store = "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%p1], [%r1+1024], %r5, %h1;"
    text = round_trip(64).replace(
        "cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r1+1024], %r5;",
        "mov.b16 %h1, 0x8001;" + store,
    )
    run_ptx(text, source, out, **OPTIONS)
    keep = np.arange(64) % 16 % 15 == 0
    assert (out == np.where(keep, source, 0)).all()


@pytest.mark.parametrize(("mask", "room", "fits"), [(0x00FF, 56, True), (0x01FF, 56, False),
                                                    (0x0F00, 60, True), (0, 32, True)])  # fmt: skip
def test_bytes_that_the_mask_leaves_out_need_no_memory(mask: int, room: int, fits: bool) -> None:
    """PTX ISA, "cp.async.bulk": a byte is copied if its bit of the mask is set."""
    source, out = data(64), np.zeros(room, np.uint8)  # its own allocation, which ends with it
    store = "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%p1], [%r1+1024], %r5, %h1;"
    text = round_trip(64).replace(
        "cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r1+1024], %r5;",
        f"mov.b16 %h1, {mask:#x};" + store,
    )
    if not fits:
        assert "its last 1 bytes are past the end" in fault_of(text, source, out, **OPTIONS)
        return
    run_ptx(text, source, out, **OPTIONS)
    keep = mask >> np.arange(room) % 16 & 1
    assert (out == np.where(keep, source[:room], 0)).all()


@pytest.mark.parametrize("mode", MODES)
def test_reductions_to_global_and_to_a_peer(mode: str) -> None:
    source = aligned(64, np.uint32)
    source[:] = np.arange(64)
    out = aligned(64, np.uint32)
    out[:] = 100
    text = round_trip(256).replace(
        "cp.async.bulk.global.shared::cta.bulk_group [%p1]",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p1]",
    )
    run_ptx(text, source, out, mode=mode, **OPTIONS)
    assert (out == 100 + source).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("form", "combine"),
    [("cp.async.bulk", lambda a, b: b), ("cp.reduce.async.bulk", lambda a, b: a + b)],
)
@pytest.mark.parametrize(("barrier", "codes"), [("%r2", []), ("%r1", ["mbarrier-address"])])
def test_copy_to_the_other_cta(
    form: str, combine: Any, mode: str, barrier: str, codes: list[str]
) -> None:
    """The barrier is the other CTA's, even if the operand names one's own."""
    out = aligned(64, np.uint32)
    suffix = ".add.u32" if "reduce" in form else ""
    sync = "barrier.cluster.arrive; barrier.cluster.wait;"
    text = (
        SETUP + "mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; "
        "mapa.shared::cluster.u32 %r2, %r1, %r21; shl.b32 %r3, %r0, 2; "
        "add.u32 %r4, %r1, %r3;"
        "mad.lo.u32 %r6, %r20, 1000, %r0; st.shared.b32 [%r4+1024], %r6; "
        "add.u32 %r7, %r6, 7; st.shared.b32 [%r4+2048], %r7; fence.proxy.async;"
        + sync
        + only(
            0,
            "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 128;"
            f"{form}.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{suffix} "
            f"[%r2+2048], [%r1+1024], 128, [{barrier}];",
            "T",
        )
        + wait("%r1", 0, "W")
        + (
            "ld.shared.b32 %r8, [%r4+2048]; mad.lo.u32 %r9, %r20, 32, %r0; "
            "mad.wide.u32 %rd1, %r9, 4, %p0; st.global.b32 [%rd1], %r8;"
        )
        + sync
    )
    report = run_ptx(
        text.replace("mad.lo.u32", "mad.lo.s32"),
        out,
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        mode=mode,
        **OPTIONS,
    )
    lane = np.arange(32)
    own, other = [lane + 7, 1007 + lane], [1000 + lane, lane]
    assert (out.reshape(2, 32) == [combine(a, b) for a, b in zip(own, other, strict=True)]).all()
    assert [finding.code for finding in report.findings] == codes


def test_multicast_copies_to_every_named_cta() -> None:
    source, out = data(128), aligned(256, np.uint8)
    sync = "barrier.cluster.arrive; barrier.cluster.wait;"
    text = (
        SETUP
        + only(0, "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 128;", "E")
        + sync
        + "mov.u32 %r20, %cluster_ctarank; setp.ne.u32 %q3, %r20, 0; @%q3 bra SKIPC;"
        + only(
            0,
            "mov.b16 %h1, 3; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".multicast::cluster [%r1+1024], [%p0], 128, [%r1], %h1;",
            "T",
        )
        + "SKIPC:"
        + wait("%r1", 0, "W")
        + "shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; ld.shared.b32 %r5, [%r4+1024];"
        "mad.lo.s32 %r6, %r20, 128, %r3; cvt.u64.u32 %rd1, %r6; add.s64 %rd1, %rd1, %p1; "
        "st.global.b32 [%rd1], %r5;" + sync
    )
    run_ptx(text, source, out, grid=(2, 1, 1), cluster=(2, 1, 1), **OPTIONS)
    assert (out.reshape(2, 128) == source).all()


# ---- cp.async -----------------------------------------------------------------------------------
READ = (
    "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3+1024]; "
    "st.global.v4.b32 [%rd2], {%r10, %r11, %r12, %r13};"
)
PLACE = (
    "mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; shl.b32 %r2, %r0, 4; "
    "add.u32 %r3, %r1, %r2; cvt.u64.u32 %rd0, %r2; add.s64 %rd1, %p0, %rd0; "
    "add.s64 %rd2, %p1, %rd0;"
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "finish",
    [
        "cp.async.commit_group; cp.async.wait_group 0;",
        "cp.async.wait_all;",
        (
            "cp.async.commit_group; cp.async.ca.shared.global [%r3+2048], [%rd1], 16; "
            "cp.async.commit_group; cp.async.wait_group 1;"
        ),
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];" + wait("%r1", 0, "W"),
        "cp.async.mbarrier.arrive.noinc.b64 [%r1];" + wait("%r1", 0, "W"),
    ],
)
def test_cp_async_lands_before_its_wait(finish: str, mode: str) -> None:
    source, out = data(512), aligned(512, np.uint8)
    init = "mov.u32 %r1, dyn;" + only(0, "mbarrier.init.shared.b64 [%r1], 32;", "I") + "bar.sync 0;"
    report = run_ptx(
        init + PLACE + "cp.async.cg.shared.global.L2::128B [%r3+1024], [%rd1], 16;" + finish + READ,
        source,
        out,
        mode=mode,
        checks=Check.RACES,
        **OPTIONS,
    )
    assert (out == source).all()
    assert not report.findings


@pytest.mark.parametrize(
    "finish",
    [
        "",
        "cp.async.commit_group;",
        "cp.async.wait_group 0;",
        "cp.async.commit_group; cp.async.wait_group 1;",
    ],
)
def test_an_insufficient_wait_shows_in_late_mode_and_to_the_checker(finish: str) -> None:
    source, out = data(512), aligned(512, np.uint8)
    text = (
        PLACE
        + (
            "st.shared.v4.b32 [%r3+1024], {0, 0, 0, 0}; "
            "cp.async.cg.shared.global [%r3+1024], [%rd1], 16;"
        )
        + finish
        + READ
    )
    report = run_ptx(
        text + "cp.async.wait_all;", source, out, mode="late", checks=Check.RACES, **OPTIONS
    )
    assert not out.any()
    assert any(f.code == "race-shared" for f in report.findings)


def test_arrive_without_noinc_leaves_the_count() -> None:
    source = data(512)
    init = "mov.u32 %r1, dyn;" + only(0, "mbarrier.init.shared.b64 [%r1], 1;", "I") + "bar.sync 0;"
    copy = PLACE + (
        "cp.async.ca.shared.global [%r3+1024], [%rd1], 16; "
        "cp.async.mbarrier.arrive.shared.b64 [%r1];"
    )
    run_ptx(
        init + copy + only(0, "mbarrier.arrive.shared.b64 %rd9, [%r1];", "A") + wait("%r1", 0, "W"),
        source,
        aligned(512, np.uint8),
        mode="late",
        **OPTIONS,
    )


def test_source_size_and_ignore_predicate_fill_with_zeros() -> None:
    source, out = data(512), aligned(512, np.uint8)
    text = PLACE + (
        "and.b32 %r6, %r0, 15; setp.lt.u32 %q0, %r0, 8; "
        "cp.async.ca.shared.global [%r3+1024], [%rd1], 16, %r6; cp.async.wait_all;"
        "setp.ge.u32 %q1, %r0, 24; @%q1 cp.async.ca.shared.global [%r3+1024], [%rd1], 4, "
        "%q0; @%q0 cp.async.ca.shared.global [%r3+1024], [%rd1], 4, %q0; "
        "cp.async.wait_all;"
    )
    run_ptx(text + READ, source, out, **OPTIONS)
    for lane in range(32):
        expected = source[16 * lane : 16 * lane + 16].copy()
        expected[lane % 16 :] = 0
        if lane < 8:
            expected[:4] = 0
        if lane >= 24:
            expected[:4] = source[16 * lane : 16 * lane + 4]
        assert (out[16 * lane : 16 * lane + 16] == expected).all()


def test_cp_async_rules() -> None:
    args = (data(512), aligned(512, np.uint8))
    assert "larger than cp-size" in fault_of(
        PLACE + "cp.async.ca.shared.global [%r3], [%rd1], 4, 8;", *args, **OPTIONS
    )
    assert "alignment of 16" in fault_of(
        PLACE + "cp.async.cg.shared.global [%r3+4], [%rd1], 16;", *args, **OPTIONS
    )
    assert "outside of every known" in fault_of(
        PLACE + "cp.async.cg.shared.global [%r3], [%rd1+4096], 16;", *args, **OPTIONS
    )
    for text in (
        "cp.async.cg.shared.global [%r3], [%rd1], 8;",
        "cp.async.ca.shared.global [%r3], [%rd1], 12;",
        "cp.reduce.async.commit_group;",
    ):
        with pytest.raises(PtxError):
            run_ptx(PLACE + text, *args, **OPTIONS)

"""ld, st, address conversion: widths, vectors, sign extension, spaces, and the faults of each."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim import Check, SimulationFault
from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, aligned_copy, fault_of

LANE = "mov.u32 %r0, %tid.x;"
RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("kind", "reg"),
    [
        ("b8", "%h"),
        ("u8", "%h"),
        ("b16", "%h"),
        ("b32", "%r"),
        ("f32", "%f"),
        ("b64", "%rd"),
        ("f64", "%fd"),
    ],
)
def test_scalar_copy(kind: str, reg: str) -> None:
    size = {"8": 1, "16": 2, "32": 4, "64": 8}[kind.lstrip("busf")]
    source = aligned_copy(RNG.integers(0, 256, 32 * size, dtype=np.uint8))
    out = aligned(32 * size, np.uint8)
    run_ptx(
        f"""{LANE} mul.lo.s32 %r1, %r0, {size}; cvt.u64.u32 %rd0, %r1; add.s64 %rd1, %p0, %rd0;
        add.s64 %rd2, %p1, %rd0;
        ld.global.{kind} {reg}9, [%rd1]; st.global.{kind} [%rd2], {reg}9;""",
        source,
        out,
    )
    assert (out == source).all()


@pytest.mark.parametrize(
    ("vector", "kind", "size"),
    [
        ("v2", "b32", 8),
        ("v4", "b32", 16),
        ("v8", "b32", 32),
        ("v2", "b64", 16),
        ("v4", "b64", 32),
        ("v4", "b16", 8),
        ("v2", "b8", 2),
    ],
)
@pytest.mark.parametrize("through_shared", [False, True])
def test_vector_copy(vector: str, kind: str, size: int, through_shared: bool) -> None:
    count = int(vector[1])
    prefix = {"b8": "%h", "b16": "%h", "b32": "%r1", "b64": "%rd1"}[kind]
    regs = "{" + ", ".join(f"{prefix}{k}" for k in range(count)) + "}"
    middle = (
        f"st.shared.{vector}.{kind} [%r3], {regs}; ld.shared.{vector}.{kind} {regs}, [%r3];"
        if through_shared
        else ""
    )
    source = aligned_copy(RNG.integers(0, 256, 32 * size, dtype=np.uint8))
    out = aligned(32 * size, np.uint8)
    run_ptx(
        f"""{LANE} mul.lo.s32 %r1, %r0, {size}; cvt.u64.u32 %rd0, %r1; add.s64 %rd1, %p0, %rd0;
        add.s64 %rd2, %p1, %rd0;
        mov.u32 %r2, dyn; add.s32 %r3, %r2, %r1;
        ld.global.{vector}.{kind} {regs}, [%rd1];
        {middle} st.global.{vector}.{kind} [%rd2], {regs};""",
        source,
        out,
        shared=SMEM,
        smem=2048,
    )
    assert (out == source).all()


def test_signed_elements_extend_into_wider_registers() -> None:
    source = np.array([-1, -128, 127, 5] * 8, np.int8)
    out = np.zeros((32, 3), np.int64)
    run_ptx(
        f"""{LANE} cvt.u64.u32 %rd0, %r0; add.s64 %rd1, %p0, %rd0; mad.wide.u32 %rd2, %r0, 24, %p1;
        ld.global.s8 %r1, [%rd1]; cvt.s64.s32 %rd3, %r1; st.global.b64 [%rd2], %rd3;
        ld.global.u8 %r1, [%rd1]; cvt.s64.s32 %rd3, %r1; st.global.b64 [%rd2+8], %rd3;
        ld.global.s8 %rd3, [%rd1]; st.global.b64 [%rd2+16], %rd3;""",
        source,
        out,
    )
    assert (out[:, 0] == source).all()
    assert (out[:, 1] == source.view(np.uint8)).all()
    assert (out[:, 2] == source).all()


def test_stores_take_the_low_bits_and_leave_neighbours() -> None:
    out = np.full(64, 0xEE, np.uint8)
    run_ptx(
        (
            f"{LANE} mad.wide.u32 %rd0, %r0, 2, %p0; add.s32 %r1, %r0, 0x12345600; "
            f"st.global.b8 [%rd0], %r1;"
        ),
        out,
    )
    assert (out[::2] == np.arange(32)).all()
    assert (out[1::2] == 0xEE).all()


def test_guarded_lanes_are_untouched() -> None:
    out = aligned(32, np.uint32)
    run_ptx(
        (
            f"{LANE} setp.lt.u32 %q0, %r0, 5; mad.wide.u32 %rd0, %r0, 4, %p0; "
            f"@%q0 st.global.b32 [%rd0], 7;"
        ),
        out,
    )
    assert out.tolist() == [7] * 5 + [0] * 27


def test_param_loads_and_b128() -> None:
    out = aligned(4, np.uint64)
    run_ptx(
        "ld.param.v2.b32 {%r1, %r2}, [a1]; mov.b64 %rd1, {%r1, %r2}; st.global.b64 [%p0], %rd1;"
        "mov.b128 %x0, {%rd1, %rd1}; st.global.b128 [%p0+16], %x0; ld.global.b128 %x1, [%p0+16];"
        "mov.b128 {%rd2, %rd3}, %x1; st.global.b64 [%p0+8], %rd3;",
        out,
        bytes(range(128)),
        regs=".reg .b128 %x<2>;",
    )
    assert out.tolist() == [0x0706050403020100] * 4


def test_generic_addresses_reach_every_space() -> None:
    out = aligned(4, np.uint64)
    body = """
    mov.u32 %r1, dyn; cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd2, %rd1;
    st.b64 [%rd2+8], 77; ld.shared.b64 %rd3, [%r1+8]; st.global.b64 [%p0], %rd3;
    cvta.to.shared.u64 %rd4, %rd2; sub.s64 %rd4, %rd4, %rd1; st.b64 [%p0+8], %rd4;
    isspacep.shared %q0, %rd2; isspacep.global %q1, %p0; isspacep.global %q2, %rd2;
    isspacep.param %q3, %m0;
    selp.b64 %rd5, 1, 0, %q0; selp.b64 %rd6, 2, 0, %q1; selp.b64 %rd7, 4, 0, %q2;
    selp.b64 %rd8, 8, 0, %q3;
    or.b64 %rd5, %rd5, %rd6; or.b64 %rd5, %rd5, %rd7; or.b64 %rd5, %rd5, %rd8;
    st.b64 [%p0+16], %rd5;
    ld.b64 %rd9, [%m0+8]; st.b64 [%p0+24], %rd9;
    """
    run_ptx(body, out, bytes(range(128)), shared=SMEM, smem=64, block=1)
    assert out.tolist() == [77, 0, 1 | 2 | 8, 0x0F0E0D0C0B0A0908]


def test_semantics_scopes_and_cache_operators_are_accepted() -> None:
    out = aligned(4, np.uint32)
    run_ptx(
        "st.volatile.global.b32 [%p0], 1; st.release.gpu.global.b32 [%p0+4], 2; "
        "st.global.L1::no_allocate.b32 [%p0+8], 3;"
        "createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0; "
        "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd9;"
        "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd9, [%p0], 16, 32;"
        "createpolicy.cvt.L2.b64 %rd9, 0; "
        "st.relaxed.sys.global.L2::cache_hint.b32 [%p0+12], 4, %rd9;"
        "ld.acquire.gpu.global.b32 %r1, [%p0]; "
        "ld.global.nc.L1::evict_last.L2::128B.b32 %r2, [%p0]; ldu.global.b32 %r3, [%p0];"
        "prefetch.global.L2 [%p0]; prefetchu.L1 [%p0]; discard.global.L2 [%p0], 128; "
        "applypriority.global.L2::evict_normal [%p0], 128;",
        out,
        block=1,
    )
    assert out.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("ld.global.b32 %r1, [%p0+2];", "misaligned"),
        ("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%p0+8];", "misaligned"),
        ("ld.global.b32 %r1, [%p0+4096];", "global-address"),
        ("st.global.b32 [%p0+-4096], 1;", "global-address"),
        ("mov.b64 %rd1, 0; ld.global.b32 %r1, [%rd1];", "global-address"),
        ("mov.u32 %r1, dyn; ld.shared.b32 %r2, [%r1+64];", "shared-address"),
        ("mov.u32 %r1, 16; st.shared.b32 [%r1], 1;", "shared-address"),
        (
            "mov.u32 %r1, dyn; or.b32 %r1, %r1, 0x01000000; ld.shared::cluster.b32 %r2, [%r1];",
            "shared-address",
        ),
        ("mov.u32 %r1, dyn; ld.shared.b64 %rd2, [%r1+4];", "misaligned"),
        ("ld.param.b64 %rd1, [a0+8];", "param-address"),
        ("cvta.to.shared.u64 %rd1, %p0; ld.shared.b32 %r2, [%rd1];", "shared-address"),
    ],
)
def test_illegal_accesses_fault(body: str, code: str) -> None:
    assert code in fault_of(body, aligned(64, np.uint8), shared=SMEM, smem=64, block=1)


def test_the_last_legal_bytes_do_not_fault() -> None:
    run_ptx(
        (
            "mov.u32 %r1, dyn; st.shared.b32 [%r1+60], 1; ld.shared.b32 %r2, [%r1+60]; "
            "st.global.b32 [%p0+60], %r2;"
        ),
        np.zeros(16, np.uint32),
        shared=SMEM,
        smem=64,
        block=1,
    )


@pytest.mark.parametrize(
    "access",
    [
        "st.shared.b32 [%r1+4], 1;",
        "ld.shared.b32 %r2, [%r1];",
        "st.shared.v4.b32 [%r1+-16], {0,0,0,0};",
    ],
)
def test_only_mbarrier_operations_touch_a_live_mbarrier(access: str) -> None:
    setup = "mov.u32 %r1, dyn; add.s32 %r1, %r1, 16; mbarrier.init.shared.b64 [%r1], 1;"
    legal = access.replace("+-16", "+-32")
    if legal == access:
        run_ptx(
            setup + "mbarrier.inval.shared.b64 [%r1]; st.shared.b64 [%r1], 0;" + access,
            shared=SMEM,
            smem=64,
            block=1,
        )
        assert "mbarrier-access" in fault_of(setup + access, shared=SMEM, smem=64, block=1)
    else:
        run_ptx(
            "mov.u32 %r1, dyn; add.s32 %r1, %r1, 32; mbarrier.init.shared.b64 [%r1], 1;" + access,
            shared=SMEM,
            smem=64,
            block=1,
        )


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.b32 %h1, [%p0];",
        "ld.global.v2.b32 %r1, [%p0];",
        "st.global.pred [%p0], %q1;",
        "ld.weird.b32 %r1, [%p0];",
        "ld.shared.v8.b64 {%rd0,%rd1,%rd2,%rd3,%rd4,%rd5,%rd6,%rd7}, [%r1];",
        "st.param.b32 [a0], 1;",
    ],
)
def test_forms_outside_of_the_isa_stop_with_their_line(body: str) -> None:
    with pytest.raises(PtxError):
        run_ptx(body, np.zeros(8, np.uint64))


LOCAL = ".local .align 16 .b8 mine[48];"


def test_local_memory_belongs_to_each_thread() -> None:
    out = aligned(64, np.uint32)
    run_ptx(
        f"""{LANE} mov.b64 %rd1, mine; cvta.local.u64 %rd2, %rd1; add.u32 %r1, %r0, 100;
        st.local.b32 [%rd1+4], %r0; st.b32 [%rd2+8], %r1;
        ld.b32 %r2, [%rd2+4]; ld.local.b32 %r3, [mine+8]; mad.wide.u32 %rd3, %r0, 8, %p0;
        st.global.v2.b32 [%rd3], {{%r2, %r3}};""",
        out,
        regs=LOCAL,
    )
    assert (out.reshape(32, 2) == np.stack([np.arange(32), np.arange(32) + 100], 1)).all()
    assert "local-address" in fault_of("st.local.b32 [mine+48], 1;", regs=LOCAL)


CLEARED = (
    LANE
    + """
    mov.u32 %r1, dyn; shl.b32 %r2, %r0, 4; add.u32 %r3, %r1, %r2; mov.b64 %rd9, -1;
    st.shared.v2.b64 [%r3], {%rd9, %rd9}; bar.warp.sync -1;
"""
)


@pytest.mark.parametrize("generic", [False, True])
def test_bulk_stores_write_zeros(generic: bool) -> None:
    """PTX ISA, "st.bulk": each thread its bytes; of size 0 none."""
    out = aligned(64, np.uint64)
    where = "cvt.u64.u32 %rd1, %r3; cvta.shared.u64 %rd1, %rd1;" if generic else ""
    put = "st.bulk [%rd1+8]" if generic else "st.bulk.weak.shared::cta [%r3+8]"
    body = f"""{CLEARED} {where} and.b32 %r4, %r0, 1; shl.b32 %r4, %r4, 3; cvt.u64.u32 %rd2, %r4;
    {put}, %rd2, 0; bar.warp.sync -1;
    ld.shared.v2.b64 {{%rd3, %rd4}}, [%r3]; cvt.u64.u32 %rd5, %r2; add.u64 %rd6, %p0, %rd5;
    st.global.v2.b64 [%rd6], {{%rd3, %rd4}};"""
    report = run_ptx(body, out, shared=SMEM, smem=512)
    assert (out.reshape(32, 2)[:, 0] == 2**64 - 1).all()
    assert out.reshape(32, 2)[:, 1].tolist() == [2**64 - 1, 0] * 16
    assert not report.findings


def test_bulk_stores_that_race_are_found() -> None:
    body = LANE + "mov.u32 %r1, dyn; st.bulk.shared::cta [%r1], 64, 0;"
    report = run_ptx(body, shared=SMEM, smem=64, block=64, checks=Check.RACES)
    assert {finding.code for finding in report.findings} == {"race-shared"}


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("st.bulk.shared::cta [%r1], 12, 0;", "multiples of 8"),
        ("st.bulk.shared::cta [%r1+4], 8, 0;", "needs an alignment of 8"),
        ("st.bulk.shared::cta [%r1], 1024, 0;", "past the end"),
        ("st.bulk [%p0], 8, 0;", "its own CTA"),
        ("st.bulk.shared::cta [%r1], 8, 1;", "initial value must be 0"),
    ],
)
def test_bulk_stores_that_are_refused(statement: str, reason: str) -> None:
    out = aligned(64, np.uint64)
    with pytest.raises((SimulationFault, PtxError), match=reason):
        run_ptx("mov.u32 %r1, dyn;" + statement, out, shared=SMEM, smem=512)

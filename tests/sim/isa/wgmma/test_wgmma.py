"""wgmma against an independent numpy statement, its refusals and its faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sm100sim.ptx.errors import Unsupported
from sm100sim.report import SimulationFault, record
from testing.hardware.case import Case
from testing.hardware.micro.wgmma.programs import Form, case
from testing.hardware.micro.wgmma.table import TYPES
from testing.hardware.simulate import simulate
from testing.harness import run_ptx
from tests.sim.isa.wgmma.reference import expected

BF16 = Form("f32", "bf16", "bf16", 16)
FORMS = [
    *(Form(d, a, b, 24, accumulate=False) for d, a, b in TYPES),
    *(Form(d, a, b, 8, registers=True) for d, a, b in TYPES),
    Form("f32", "bf16", "bf16", 256),
    Form("f32", "f16", "f16", 48, signs=(-1, 1), count=2),
    Form("s32", "s8", "u8", 16, saturate=True),
    *(
        replace(BF16, swizzle=swizzle, majors=majors, n=64)
        for swizzle in ("none", "128", "64", "32")
        for majors in ((False, True), (True, False))
    ),
    *(
        Form(d, a, a, 24, selector=selector, registers=bool(selector))
        for d, a, selector in (
            ("f32", "f16", 0), ("f16", "f16", 1), ("f32", "tf32", 1), ("f32", "e4m3", 0),
            ("s32", "s8", 0),
        )
    ),
    *(
        replace(BF16, swizzle=swizzle, majors=majors, n=64, selector=0)
        for swizzle in ("none", "128", "64")
        for majors in ((False, True), (True, False))
    ),
]  # fmt: skip


def run(program: Case, **options: Any) -> np.ndarray:
    """What the program stores, in the simulator's default arithmetic."""
    return simulate(program, **{"exact_mma": False, **options})[0]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form!r} {form.selector}")
def test_results(form: Form) -> None:
    program = case(form, "test", spread=2)
    want = expected(form, program)
    for mode in ("fast", "late"):
        got = run(program, mode=mode, checks="all").view(want.dtype)
        np.testing.assert_array_equal(got.reshape(want.shape), want)


def test_bit_level_model_is_another() -> None:
    program = case(replace(BF16, n=64), "test", spread=24)
    assert (run(program) != run(program, exact_mma=True)).any()


def changed(old: str, new: str, form: Form = BF16) -> Case:
    program = case(form, "test")
    assert old in program.body
    return replace(program, body=program.body.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".m64n16k16", ".m64n12k16"), (".m64n16k16", ".m64n16k8"), (".bf16.bf16", ".bf16.f16"),
        (".f32.bf16", ".f16.bf16"), ("%q0, 1, 1, 0, 0", "%q0, 1, 1, 0"),
        ("%q0, 1, 1, 0, 0", "%q0, 2, 1, 0, 0"), ("%q0, 1, 1, 0, 0", "%q0, 1, 1, 0, 2"),
        ("{%d0, ", "{"), ("wgmma.mma_async.sync", "wgmma.mma_async.sp.sync"),
        ("m64n16k16", "m64n16k16.satfinite"),
        ("wait_group.sync.aligned 0", "wait_group.sync.aligned"),
        ("bf16.bf16", "b1.b1"), ("wgmma.fence.sync.aligned", "wgmma.fence.aligned"),
    ],
)  # fmt: skip
def test_refusals(old: str, new: str) -> None:
    with pytest.raises(Unsupported):
        run(changed(old, new))


MMA = BF16.instruction()
B_START = "add.s64 %rd5, %rd5, %rd6;"
ONE_WARP = "setp.eq.u32 %q2, %r0, 0; setp.lt.u32 %q3, %r0, 32; setp.gt.u32 %q4, %r0, 95;"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (MMA, f"{ONE_WARP} @%q2 {MMA}", "partial-warp"),
        (MMA, f"{ONE_WARP} @%q3 bra L; {MMA} bra E; L: {MMA} E:", "wgmma-warpgroup"),
        (MMA, f"{ONE_WARP} @%q4 bra B; {MMA} bra E; B: bar.sync 1, 64; E:", "deadlock"),
        (MMA, f"{ONE_WARP} @%q4 bra E; {MMA} E:", "wgmma-warpgroup"),
        (MMA, f"{ONE_WARP} @%q3 add.s64 %rd5, %rd5, 8; {MMA}", "not-uniform"),
        (MMA, f"{ONE_WARP} @%q2 add.s64 %rd5, %rd5, 8; {MMA}", "not-uniform"),
        (MMA, f"setp.eq.u32 %q0, %r0, 0; {MMA}", "not-uniform"),
        (B_START, B_START + "or.b64 %rd5, %rd5, 16384;", "smem-desc-reserved"),
        (B_START, B_START + "add.s64 %rd5, %rd5, 8192;", "smem-operand-bounds"),
        ("wait_group.sync.aligned 0", "wait_group.sync.aligned 64", "wgmma-group"),
    ],
)  # fmt: skip
def test_faults(old: str, new: str, code: str) -> None:
    with pytest.raises(SimulationFault, match=code):
        run(changed(old, new), mode="fast")  # which of two faults comes first depends on the mode


def test_part_of_a_warpgroup_is_refused() -> None:
    program = replace(case(BF16, "test"), block=64)
    with pytest.raises(SimulationFault, match="wgmma-warpgroup"):
        run(program)


def test_an_unwritten_accumulator_counts_only_when_it_is_added_to() -> None:
    for accumulate, codes in ((False, set()), (True, {"uninitialised-register"})):
        form = replace(BF16, accumulate=accumulate)
        body = case(form, "test").body
        kept = "\n".join(x for x in body.split("\n") if not x.startswith("ld.global.b32 %d0,"))
        program = replace(case(form, "test"), body=kept)
        buffers = [a.copy() for a in (*program.inputs, *program.outputs)]
        report = run_ptx(
            kept, *buffers, block=128, smem=program.smem, shared=program.shared, checks="all"
        )
        assert {f.code for f in report.findings} == codes


SPARSE = Form("f32", "f16", "f16", 16, selector=1, registers=True)


def test_metadata_without_meaning() -> None:
    program = case(SPARSE, "test")
    words = program.inputs[3].copy()
    words[32 + 4 * 5 + 3] = words[32 + 4 * 5 + 3] & ~np.uint32(15) | np.uint32(5)
    with pytest.raises(SimulationFault, match="sparse-metadata: row 21 of A: the metadata 0x5 "):
        run(replace(program, inputs=(*program.inputs[:3], words)))


def test_metadata_is_a_register_of_a() -> None:
    """It is read until the wait: written to before it, a finding; after it, none."""
    late, wait = "mov.b32 %r6, 0x44444444;", "wgmma.wait_group.sync.aligned 0;"
    program = case(SPARSE, "test")
    for order, codes in ((f"{late} {wait}", ["wgmma-register-in-flight"]), (f"{wait} {late}", [])):
        changed_ = replace(program, body=program.body.replace(wait, order))
        with record() as reports:
            run(changed_, checks="all", mode="fast")
        assert sorted({f.code for f in reports[0].findings}) == codes


def test_a_swizzle_narrower_than_b() -> None:
    form = replace(SPARSE, swizzle="32")
    with pytest.raises(SimulationFault, match="B with the 32-byte swizzle, K-major"):
        run(case(form, "test"))

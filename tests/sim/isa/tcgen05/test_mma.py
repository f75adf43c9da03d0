"""tcgen05.mma against an independent numpy statement, over kinds, shapes, layouts and sources."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sm100sim.options import Check
from sm100sim.ptx.errors import Unsupported
from sm100sim.report import SimulationFault
from testing.layouts.instr_desc import InstrDescriptor, Kind
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from testing.layouts.tmem_addr import d_cells
from tests.sim.isa.tcgen05.mma_cases import cases, program, run_case
from tests.sim.isa.tcgen05.mma_exact_reference import expected_element
from tests.sim.isa.tcgen05.mma_reference import Case
from tests.sim.isa.tcgen05.programs import IMAGE_START

FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def check(case: Case, **options: Any) -> None:
    """Bit for bit, wherever the result is defined."""
    _, after = run_case(case, poison=False, **options)
    np.testing.assert_array_equal(after, case.expected())


@given(case=cases(("f16",)), mode=st.sampled_from(["fast", "random", "late"]))
@FEW
def test_kind_f16(case: Case, mode: str) -> None:
    check(case, mode=mode)


@given(case=cases(("tf32",)))
@FEW
def test_kind_tf32(case: Case) -> None:
    check(case)


@pytest.mark.slow
@given(case=cases(("f8f6f4",)))
@FEW
def test_kind_f8f6f4(case: Case) -> None:
    check(case)


@pytest.mark.slow
@given(case=cases(("i8",)))
@FEW
def test_kind_i8(case: Case) -> None:
    check(case)


@pytest.mark.slow
@given(case=cases(("mxf8f6f4", "mxf4", "mxf4nvf4")))
@FEW
def test_block_scaled_kinds(case: Case) -> None:
    check(case)


EXACT_KINDS: tuple[Kind, ...] = ("f16", "tf32", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")


@pytest.mark.slow
@given(case=cases(EXACT_KINDS), seed=st.integers(0, 100))
@FEW
def test_bit_level_model(case: Case, seed: int) -> None:
    """Random elements of the exact_mma mode against rational arithmetic."""
    case.off_lanes = []
    _, after = run_case(case, poison=False, exact_mma=True)
    cells = d_cells(case.desc.m, case.desc.n, case.desc.group, case.lane0)
    rng = np.random.default_rng(seed)
    for row, column in zip(
        rng.integers(case.desc.m, size=8), rng.integers(case.desc.n, size=8), strict=True
    ):
        cta, lane, offset = cells[row, column]
        place = cta, lane, offset + case.d_column
        want = expected_element(case, int(row), int(column), int(case.tmem[place]))
        assert int(after[place]) == want


def simple(element: str = "bf16", **changes: Any) -> Case:
    """M128 N64, both operands K-major with the 128B swizzle; `a` and `b` are descriptors."""
    rng = np.random.default_rng(5)
    shape = {"kind": "f16", "m": 128, "n": 64, "a": element, "b": element}
    case_fields = {k: changes.pop(k) for k in list(changes) if k in Case.__dataclass_fields__}
    desc = InstrDescriptor(**{**shape, **changes})
    window = np.zeros(IMAGE_START + 32768, np.uint8)
    values = rng.normal(size=16384).astype(np.float32)
    window[IMAGE_START:] = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    tmem = np.zeros((desc.group, 128, 512), np.uint32)
    a = SmemDescriptor(IMAGE_START, 16, 1024, Swizzle.B128)
    b = SmemDescriptor(IMAGE_START + 16384, 16, 1024, Swizzle.B128)
    return replace(Case(desc, a, b, [window] * desc.group, tmem), **case_fields)


def patched(case: Case, old: str, new: str) -> str:
    text = program(case)
    assert old in text
    return text.replace(old, new)


def idesc_with(bits: int) -> str:
    return patched(simple(), str(simple().desc.encode()), str(simple().desc.encode() ^ bits))


def descriptor_with(bits: int) -> str:
    word = simple().b.encode()
    return patched(simple(), str(word), str(word ^ bits))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (patched(simple(), "@!%q5 bra ISSUED;", ""), "several-lanes-issue"),
        (idesc_with(1 << 6), "instr-desc-reserved"),
        (idesc_with(1 << 2), "sparse-mismatch"),
        (idesc_with(0b11 << 7), "instr-desc-type"),
        (idesc_with(0b11000 << 24), "instr-desc-shape"),
        (idesc_with(0b001000 << 17), "instr-desc-shape"),
        (idesc_with(1 << 30), "instr-desc-max-shift"),
        (descriptor_with(1 << 14), "smem-desc-reserved"),
        (descriptor_with(1 << 46), "smem-desc-constant"),
        (descriptor_with(1 << 49), "smem-desc-base-offset"),
        (descriptor_with(1 << 52), "smem-desc-lbo-mode"),
        (descriptor_with(1 << 61), "smem-desc-swizzle"),
        (descriptor_with(1 << 11), "smem-operand-bounds"),
        (descriptor_with(0xFFFF & simple().b.encode()), "smem-operand-bounds"),
        (patched(simple(), "[%r40 + 0]", "[%r40 + 449]"), "access-out-of-physical-bounds"),
        (patched(simple(), "[%r40 + 0]", "[%r40 + 1048576]"), "invalid-datapath-alignment"),
        (patched(simple(), "%rd5, %rd6", "[%r40 + 505], %rd6"), "access-out-of-physical-bounds"),
        (patched(simple(), "mma.cta_group::1", "mma.cta_group::2"), "cta-group-mix"),
    ],
    ids=lambda x: x if len(x) < 40 else "",
)  # fmt: skip
def test_rules(body: str, code: str) -> None:
    with pytest.raises(SimulationFault, match=code):
        run_case(simple(), body=body)


def test_the_program_that_the_rules_break_is_legal() -> None:
    case = simple()
    report, after = run_case(case)
    assert not report.findings
    np.testing.assert_array_equal(after[0, :, :64], case.expected()[0, :, :64])


@pytest.mark.parametrize("form", ["mma.sp", "mma.ashift"])
def test_unknown_forms_stop_with_their_line(form: str) -> None:
    with pytest.raises(Unsupported, match=r"tcgen05\.mma"):
        run_case(simple(), body=patched(simple(), "tcgen05.mma", f"tcgen05.{form}"))


@pytest.mark.parametrize(("kind", "shift"), [("e2m1", 2), ("e3m2", 1), ("e2m3", 1)])
def test_narrow_elements_of_a_in_tensor_memory_are_in_the_middle_of_a_byte(
    kind: str, shift: int
) -> None:
    """CUTLASS, cp_narrow_a_to_tmem_mma.py: 00xxxx00 and 0xxxxxx0.  All ones by B of e4m3 ones."""
    case = simple(kind, kind="f8f6f4", a=None, a_column=100)
    case = replace(case, desc=replace(case.desc, b="e4m3"))
    one = {"e2m1": 0x2, "e3m2": 0xC, "e2m3": 0x8}[kind] << shift
    case.tmem[0, :, 100:108] = one * 0x01010101
    case.windows[0][IMAGE_START:] = 0x38
    _, after = run_case(case)
    assert (after[0, : case.desc.m, : case.desc.n].view(np.float32) == 32).all()


def test_mn_major_32_bit_needs_its_own_swizzle() -> None:
    bad = simple("tf32", kind="tf32", mn_major_b=True)
    with pytest.raises(SimulationFault, match="operand-swizzle"):
        run_case(bad)


def test_freed_columns_are_noticed_when_the_mma_lands() -> None:
    case = simple()
    text = (
        program(case)
        + """
bar.sync 0; @%q2 bra EARLY;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 512;
EARLY:
"""
    )
    with pytest.raises(SimulationFault, match="being-dealloced") as caught:  # by the frame, again
        run_case(case, body=text, mode="late")
    told = [f for f in caught.value.report.findings if f.code == "unallocated-columns-access"]
    assert [f.fatal for f in told] == [False]


def test_a_missing_copy_of_a_in_layout_b_shows() -> None:
    """M = 128 of a pair: A from lanes 0-63 for the lower half of N, 64-127 for the upper."""
    case = simple(m=128, n=64, group=2, a=None, a_column=100)
    case.tmem[:, :64, 100:108] = 0x3F803F80
    _, after = run_case(case)
    np.testing.assert_array_equal(after[:, :, :32], case.expected()[:, :, :32])
    assert after[0, :64, :32].any()
    assert not after[0, 64:, :32].any()


def test_uninitialised_accumulator_is_reported() -> None:
    case = simple(accumulate=True)
    text = program(case)
    assert not run_case(case, body=text, checks=Check.TMEM)[0].findings
    again = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 512;" + (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r31 + 16], 512;"
    )
    fresh = f"@%q2 bra FRESH; {again} FRESH: bar.sync 0;\n{text}"
    findings = run_case(case, body=fresh, checks=Check.TMEM)[0].findings
    assert "uninitialised-tmem" in [f.code for f in findings if "mma" in f.source]

"""Descriptors that contradict their kind, and scale factors that differ between partitions."""

from __future__ import annotations

import pytest

from sm100sim.report import SimulationFault
from tests.sim.isa.tcgen05.mma_cases import SFA_COLUMN, SFB_COLUMN, run_case
from tests.sim.isa.tcgen05.mma_reference import Case
from tests.sim.isa.tcgen05.test_mma import patched, simple


def scaled(element: str, kind: str, sf_block: int) -> Case:
    """A block-scaled case whose scale factors are all 1."""
    columns = {"sfa_column": SFA_COLUMN, "sfb_column": SFB_COLUMN, "sf_block": sf_block}
    case = simple(element, kind=kind, scale_type="ue8m0", **columns)
    case.tmem[:, :, SFA_COLUMN : SFB_COLUMN + 8] = 0x7F7F7F7F
    return case


BROKEN = {
    "instr-desc-saturate": (simple(), 1 << 3),
    "instr-desc-negate": (simple("s8", kind="i8", d="s32"), 1 << 13),
    "instr-desc-scale-type": (scaled("e4m3", "mxf8f6f4", 32), 1 << 23),
    "instr-desc-scale-id": (scaled("e2m1", "mxf4", 32), 1 << 4),
    "operand-major": (simple("e2m1", kind="f8f6f4"), 1 << 16),
}
"""Fault -> a legal case, and the bit of its descriptor that makes it one."""


@pytest.mark.parametrize("code", BROKEN)
def test_a_descriptor_agrees_with_its_kind(code: str) -> None:
    case, bit = BROKEN[code]
    assert run_case(case)[0].verdict == "clean"
    word = case.desc.encode()
    with pytest.raises(SimulationFault, match=code):
        run_case(case, body=patched(case, f"%r42, {word};", f"%r42, {word ^ bit};"))


def test_scale_factors_are_the_same_in_all_partitions() -> None:
    case = scaled("e4m3", "mxf8f6f4", 32)
    assert not run_case(case)[0].findings
    case.tmem[0, 32, SFA_COLUMN] ^= 1
    (finding,) = run_case(case)[0].findings
    assert finding.code == "scale-factors-differ"
    assert "row 0 is 0x7f7f7f7f in partition 0 and 0x7f7f7f7e in partition 1" in finding.message

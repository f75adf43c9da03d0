"""Matrix and instruction descriptors of every MMA, against those that ``cute.gemm`` emits."""

from __future__ import annotations

import pytest

from fa4_cute.plan.facts.umma import MmaPlan
from tests.witness.cute_mma import A_ADDRESS, A_COLUMN, B_ADDRESS, D_COLUMN, witness
from tests.witness.plans import PLANS

LEADING_OFFSET = 0x3FFF << 16
"""Bits 16-29 of a matrix descriptor."""
plans = pytest.mark.parametrize("plan", PLANS, ids=PLANS.get)


def blocks(plan: MmaPlan) -> list[int]:
    return [k for stage in range(plan.num_stages) for k in plan.k_blocks(stage)]


@pytest.mark.slow
@plans
def test_instructions_and_descriptors_are_those_of_cute(plan: MmaPlan) -> None:
    """In one test: what CuTe makes of a plan is compiled once."""
    are_instructions_of_cute(plan)
    are_descriptors_of_a(plan)
    are_descriptors_of_b(plan)


def are_instructions_of_cute(plan: MmaPlan) -> None:
    """Number, kind, CTA group, descriptor, and that only the first overwrites D."""
    seen = witness(plan).instructions
    assert [(i.cta_group, i.kind, i.idesc, i.d, i.accumulate) for i in seen] == [
        (plan.cta_group, plan.kind, plan.idesc, D_COLUMN, index > 0)
        for index in range(len(blocks(plan)))
    ]


def are_descriptors_of_b(plan: MmaPlan) -> None:
    """An MN-major tile of one column chunk has no next one: CuTe leaves that distance 0."""
    start = plan.b.descriptor(B_ADDRESS)
    if plan.b.mn_major and plan.b.mn == plan.b.span:
        start &= ~LEADING_OFFSET
    ours = [start + (plan.b_offset(k) >> 4) for k in blocks(plan)]
    assert [f"{i.b:#x}" for i in witness(plan).instructions] == [f"{word:#x}" for word in ours]


def are_descriptors_of_a(plan: MmaPlan) -> None:
    if plan.a is None:
        ours = [A_COLUMN + plan.a_offset(k) for k in blocks(plan)]
    else:
        ours = [plan.a.descriptor(A_ADDRESS) + (plan.a_offset(k) >> 4) for k in blocks(plan)]
    assert [f"{i.a:#x}" for i in witness(plan).instructions] == [f"{word:#x}" for word in ours]

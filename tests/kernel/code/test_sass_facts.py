"""Facts of the machine code: no spill in any role, and register budgets that add up."""

import re

import pytest

from fa4_cute.plan.compute.mma_plans import pv_plan, qk_plan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import REGISTERS_PER_SM, WARP_GROUP_THREADS
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from tests.kernel.artifacts import sass

SPECS = [
    KernelSpec.for_attention(DType.BF16, head_dim, causal=causal, return_lse=True)
    for head_dim in (64, 128, 192)
    for causal in (False, True)
]
BUDGET = re.compile(r"USETMAXREG\.(TRY_ALLOC|DEALLOC)\S* (?:UP\d, )?(0x[0-9a-f]+)")


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_no_role_spills(spec: KernelSpec) -> None:
    spills = [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)]
    assert spills == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_register_budgets_are_those_of_the_schedule(spec: KernelSpec) -> None:
    found = [(kind, int(count, 16)) for line in sass(spec) for kind, count in BUDGET.findall(line)]
    schedule = spec.schedule
    assert found == [
        ("TRY_ALLOC", schedule["softmax0"].registers),
        ("DEALLOC", schedule["correction"].registers),
        ("DEALLOC", schedule["mma"].registers),
    ]
    groups = [found[0], found[0], found[1], found[2]]
    assert sum(count for _, count in groups) * WARP_GROUP_THREADS <= REGISTERS_PER_SM


@pytest.mark.parametrize("spec", SPECS[:4], ids=lambda s: s.name)
def test_mmas_of_one_stage_are_straight_line(spec: KernelSpec) -> None:
    """An MMA whose issuing lane the assembler cannot prove unique sits in a loop over lanes."""
    blocks = [0]
    for line in sass(spec):
        if "BRA" in line:
            blocks.append(0)
        blocks[-1] += "UTCHMMA" in line
    plans = (qk_plan(spec.config), pv_plan(spec.config))
    shortest = min(len(plan.k_blocks(part)) for plan in plans for part in range(plan.num_stages))
    assert shortest > 1
    assert min(count for count in blocks if count) >= shortest
    assert sum(blocks) == sum(4 * plan.num_k_mmas for plan in plans)

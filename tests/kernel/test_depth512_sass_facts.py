"""Facts of the pair kernel's machine code: no spills, budgets that add up, straight-line MMAs."""

import re

import pytest

from benchmarks.pair_cta import static_t1
from benchmarks.sass_paths import disassemble
from fa4_cute.plan.compute.depth512_mma import pv_half_plan, qk_part_plan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import REGISTERS_PER_SM, WARP_GROUP_THREADS
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from tests.kernel.artifacts import compiled, nvdisasm, sass
from tests.kernel.test_sass_facts import BUDGET

SPECS = [
    Depth512Spec.for_attention(
        DType.BF16, head_dim, causal=causal, return_lse=True, look_ahead=look_ahead
    )
    for head_dim in (256, 512)
    for causal, look_ahead in ((False, True), (True, True), (True, False))
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_no_role_spills(spec: Depth512Spec) -> None:
    spills = [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)]
    assert spills == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_register_budgets_are_those_of_the_schedule(spec: Depth512Spec) -> None:
    found = [(kind, int(count, 16)) for line in sass(spec) for kind, count in BUDGET.findall(line)]
    schedule = spec.schedule
    assert found == [
        ("TRY_ALLOC", schedule["softmax"].registers),
        ("TRY_ALLOC", schedule["correction"].registers),
        ("DEALLOC", schedule["mma"].registers),
    ]
    assert sum(count for _, count in found) * WARP_GROUP_THREADS <= REGISTERS_PER_SM


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_mmas_of_one_part_are_straight_line(spec: Depth512Spec) -> None:
    """An MMA whose issuing lane the assembler cannot prove unique sits in a loop over lanes."""
    blocks = [0]
    for line in sass(spec):
        if "BRA" in line:
            blocks.append(0)
        blocks[-1] += "UTCHMMA.2CTA" in line
    config = spec.config
    parts = [qk_part_plan(config, part) for part in range(config.num_qk_stages)]
    parts += [pv_half_plan(config)] * config.num_pv_stages * config.num_o_parts
    assert sum(blocks) == sum(part.num_k_mmas for part in parts)
    assert min(count for count in blocks if count) >= min(part.num_k_mmas for part in parts)


@pytest.mark.parametrize("spec", SPECS[:1], ids=lambda s: s.name)
def test_only_the_hand_over_of_p_pays_for_a_memory_barrier(spec: Depth512Spec) -> None:
    """Arrivals that hand over Tensor Memory need none."""
    ptx = compiled(spec).ptx
    assert len(re.findall(r"mbarrier\.arrive\.release\.cluster", ptx)) == 1
    assert len(re.findall(r"mbarrier\.arrive\.relaxed\.cluster", ptx)) > 1
    assert "tcgen05" in ptx
    assert "cta_group::1" not in ptx


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_tensor_memory_is_freed_after_the_last_cluster_barrier(spec: Depth512Spec) -> None:
    ptx = compiled(spec).ptx
    assert ptx.count("tcgen05.alloc.cta_group::2") == ptx.count("tcgen05.dealloc") == 1
    assert ptx.count("barrier.cluster.arrive") == ptx.count("barrier.cluster.wait") == 2
    assert ptx.rindex("barrier.cluster.wait") < ptx.index("tcgen05.dealloc")


@pytest.mark.parametrize("spec", SPECS[::3], ids=lambda s: s.name)
def test_t1_stays_short(spec: Depth512Spec) -> None:
    """Stall cycles from "S ready" to "P handed over", a lower bound of the softmax of one tile."""
    code = disassemble(compiled(spec).cubin, nvdisasm())
    assert static_t1(code, [instruction.text for instruction in code]) < 1300

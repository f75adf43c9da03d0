"""Every tcgen05.mma of the kernels of ``testing.kernels``, each once."""

from __future__ import annotations

from typing import Final

from fa4_cute.plan.compute.depth512_mma import pv_block_plan, qk_stage_plan
from fa4_cute.plan.compute.mma_plans import pv_plan, qk_plan, rope_plan
from fa4_cute.plan.facts.umma import MmaPlan, SmemOperand
from fa4_cute.plan.spec.combine_spec import CombineSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from testing.kernels import KERNELS


def _plans() -> dict[MmaPlan, str]:
    found: dict[MmaPlan, str] = {}
    for name, spec in KERNELS.items():
        if isinstance(spec, CombineSpec | SM90Spec):
            continue
        if isinstance(spec, Depth512Spec):
            config = spec.config
            scores = [qk_stage_plan(config, part) for part in range(config.num_qk_stages)]
            plans = {f"QK part {i}": plan for i, plan in enumerate(scores)}
            plans["PV"] = pv_block_plan(config)
        else:
            plans = {"QK": qk_plan(spec.config), "PV": pv_plan(spec.config)}
            if rope := rope_plan(spec.config):
                plans["QK rope"] = rope
        for kind, plan in plans.items():
            found.setdefault(plan, f"{kind} of {name}")
    return found


PLANS: Final = _plans()
"""Each MMA plan and the first kernel that has it."""


def operands() -> dict[SmemOperand, MmaPlan]:
    """Return every operand tile in shared memory, with one plan that reads it."""
    found: dict[SmemOperand, MmaPlan] = {}
    for plan in PLANS:
        for operand in (plan.a, plan.b):
            if operand is not None:
                found.setdefault(operand, plan)
    return found

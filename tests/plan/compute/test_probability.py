"""Formats of P: no overflow, and tails that survive."""

from __future__ import annotations

import pytest
import torch

from fa4_cute.plan.compute.probability import ProbabilityPlan
from fa4_cute.plan.facts.dtypes import DType
from testing.reference.fp8 import SMALLEST_E4M3


def largest(plan: ProbabilityPlan) -> float:
    """Return the largest probability that is ever stored."""
    return float(2.0 ** (plan.lift - plan.threshold))


def test_the_smallest_e4m3_number_is_that_of_the_type() -> None:
    info = torch.finfo(torch.float8_e4m3fn)
    assert info.smallest_normal / 8 == SMALLEST_E4M3


def test_a_lifted_p_fits_e4m3_and_uses_its_range() -> None:
    plan = ProbabilityPlan.of(DType.FP8_E4M3)
    assert largest(plan) <= torch.finfo(torch.float8_e4m3fn).max < 2 * largest(plan)
    # A key 2**-15 below the row's maximum still counts.
    assert 2.0**-15 * 2.0**plan.lift >= SMALLEST_E4M3


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16])
def test_16_bit_types_need_no_lift(dtype: DType) -> None:
    plan = ProbabilityPlan.of(dtype)
    assert plan.lift == 0
    assert largest(plan) == 256


@pytest.mark.parametrize(("dtype", "per_column"), [(DType.BF16, 2), (DType.FP8_E4M3, 4)])
def test_keys_are_packed_into_columns(dtype: DType, per_column: int) -> None:
    plan = ProbabilityPlan.of(dtype)
    assert [plan.column(key) for key in (0, per_column - 1, per_column, 96)] == [
        0,
        0,
        1,
        96 // per_column,
    ]

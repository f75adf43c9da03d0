"""Results that stay within every element's bound, and are refused all the same."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from testing.reference.attention import attention_float64, compare
from testing.reference.fp8 import LIFT, compare_fp8
from testing.reference.slopes import (
    BF16_LIMIT,
    FP8_LIMIT,
    FP16_LIMIT,
    KEY_LIMIT,
    Rounding,
    key_deviations,
    key_slopes,
    slopes,
)

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
BF16, FP16, FP8 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
LIMITS = {BF16: BF16_LIMIT, FP16: FP16_LIMIT, FP8: FP8_LIMIT}
FACTORS = {BF16: 1 + 2.0**-10, FP16: 1 + 2.0**-13, FP8: 1 + 2.0**-7}


def inputs(dtype: torch.dtype, seqlen_q: int = 200, seqlen_k: int = 300) -> Tensors:
    generator = torch.Generator().manual_seed(3)
    shapes = ((1, seqlen_q, 2, 64), (1, seqlen_k, 1, 64), (1, seqlen_k, 1, 64))
    q, k, v = (torch.randn(s, generator=generator).to(dtype) for s in shapes)
    return q, k, v


def rounded(
    operands: Tensors, lost: int | None = None, factor: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with P and O rounded as a kernel rounds them.

    ``lost`` is a key left out of O, ``factor`` what O is multiplied by before it is rounded.
    """
    q, k, v = (x.double() for x in operands)
    exact = attention_float64(q, k, v)
    lift = 2.0**LIFT if operands[0].dtype is FP8 else 1.0
    (part,) = exact.summands
    top = part.p.amax(-1, keepdim=True)
    p = (part.p / top * lift).float().to(operands[0].dtype).double() / lift
    if lost is not None:
        p[..., lost] = 0
    out = ((p * top * factor) @ part.v).transpose(0, 1).unsqueeze(0)
    return out.to(BF16 if operands[0].dtype is FP8 else operands[0].dtype), exact.lse.float()


def judged(operands: Tensors, out: torch.Tensor, lse: torch.Tensor) -> Any:
    judge = compare_fp8 if operands[0].dtype is FP8 else compare
    return judge(out, lse, operands)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", LIMITS)
def test_rounding_passes_and_moves_the_slope_by_less_than_half_its_limit(
    dtype: torch.dtype,
) -> None:
    operands = inputs(dtype)
    out, lse = rounded(operands)
    judged(operands, out, lse).check()
    rounding = Rounding.of_fp8(out.dtype) if dtype is FP8 else Rounding.of(dtype)
    found = slopes(out, attention_float64(*(x.double() for x in operands)), rounding)
    assert list(found) == ["O of head 0", "O of head 1", "O"]
    assert found["O"].limit == LIMITS[dtype]
    assert abs(found["O"].value - 1) < LIMITS[dtype] / 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", LIMITS)
def test_a_factor_on_everything_is_refused(dtype: torch.dtype) -> None:
    operands = inputs(dtype)
    failures = judged(operands, *rounded(operands, factor=FACTORS[dtype])).failures
    assert any(one.startswith("O has slope 1 + ") for one in failures), failures
    assert all("has slope" in one for one in failures)


def test_a_factor_on_one_head_is_named() -> None:
    operands = inputs(BF16)
    out, lse = rounded(operands)
    out[:, :, 1] *= 1 + 2.0**-8
    failures = compare(out, lse, operands).failures
    assert any(one.startswith("O of head 1 has slope") for one in failures)
    assert not any("head 0" in one for one in failures)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", LIMITS)
def test_a_lost_row_of_v_is_refused_among_a_thousand_keys(dtype: torch.dtype) -> None:
    operands = inputs(dtype, 128, 1000)
    judged(operands, *rounded(operands)).check()
    failures = judged(operands, *rounded(operands, lost=640)).failures
    assert any("key 640 of head 0 in sequence 0 counts" in one for one in failures), failures


def test_the_slope_of_a_key_is_how_often_it_is_missing() -> None:
    exact = attention_float64(*inputs(torch.float64))
    (part,) = exact.summands
    p = part.p.clone()
    p[..., 7] *= 3
    p[..., 8] = 0
    slope = key_slopes(p @ part.v, part)
    exactly = key_deviations(part, Rounding(0.0, 0.0, 0.0), torch.tensor([7, 8]))
    assert torch.equal(exactly, torch.zeros(slope.shape[0], 2, dtype=slope.dtype))
    # Values of different keys are not orthogonal, so a lost one shows a little in the others.
    assert (slope[:, 7] - 2).abs().max() < 0.25
    assert (slope[:, 8] + 1).abs().max() < 0.25


def test_few_rows_may_be_rounded_to_one_side() -> None:
    operands = inputs(BF16, seqlen_q=1)
    exact = attention_float64(*operands)
    assert slopes(exact.out.to(BF16), exact, Rounding.of(BF16))["O of head 0"].limit > BF16_LIMIT


def test_what_rounding_does_to_a_slope_does_not_depend_on_the_other_keys_asked_for() -> None:
    (part,) = attention_float64(*inputs(torch.float64)).summands
    rounding, some = Rounding.of(BF16), torch.tensor([0, 7, 299])
    every = key_deviations(part, rounding, torch.arange(300))
    assert (every > 0).all()
    assert torch.allclose(every[:, some], key_deviations(part, rounding, some), rtol=1e-12)


def test_a_key_that_rounding_alone_may_lose_is_not_missed() -> None:
    """A hundredth of the weight of others: its slope is far off, and says nothing."""
    q, k, v = inputs(BF16, 4, 300)
    v[:, 5] /= 1000
    operands = (q, k, v)
    out, lse = rounded(operands)
    (part,) = attention_float64(*operands).summands
    far = key_slopes(out[0].transpose(0, 1), part)[:, 5].abs()
    assert (far > KEY_LIMIT).all()
    compare(out, lse, operands).check()


def test_zeros_have_no_slope_and_nan_is_refused() -> None:
    q, k, v = inputs(BF16)
    zeros = attention_float64(q, k, v * 0)
    assert slopes(zeros.out.to(BF16), zeros, Rounding.of(BF16)) == {}
    exact = attention_float64(q, k, v)
    broken = torch.full_like(exact.out, math.nan)
    assert not any(slope.ok for slope in slopes(broken, exact, Rounding.of(BF16)).values())

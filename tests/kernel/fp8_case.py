"""What an fp8 kernel may get wrong: rounding P to e4m3, and O to bf16; nothing else."""

from __future__ import annotations

import math

import torch

from fa4_cute.plan.compute.probability import SMALLEST_E4M3
from fa4_cute.plan.facts.dtypes import DType
from testing.reference.fp8 import LIFT, ROUNDING, ROUNDING_OF_O
from tests.kernel.attention_case import Case, attention, run_kernel
from tests.kernel.depth512_case import run_pair

FP8 = DType.FP8_E4M3


def run(case: Case, q, k, v) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the kernel that serves the head dimension."""
    return (run_kernel if case.head_dim <= 192 else run_pair)(case, q, k, v)


def probabilities(case: Case, q, k) -> tuple[torch.Tensor, torch.Tensor]:
    """Return exp(score - row maximum) in float64, 0 where hidden, and its sums."""
    group = case.heads // case.kv_heads
    k = k.repeat_interleave(group, 2)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) * case.softmax_scale
    if case.causal:
        rows, columns = torch.arange(case.seqlen_q)[:, None], torch.arange(case.seqlen_k)[None]
        scores = scores.masked_fill(columns > rows + case.seqlen_k - case.seqlen_q, -math.inf)
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).min)
    weights = torch.exp(scores - top)
    return weights, weights.sum(-1, keepdim=True)


def emulated(case: Case, q, k, v) -> torch.Tensor:
    """Return attention with P lifted and rounded to e4m3, relative to the true row maximum."""
    weights, sums = probabilities(case, q, k)
    rounded = (weights * 2.0**LIFT).float().to(torch.float8_e4m3fn).double() / 2.0**LIFT
    values = v.double().repeat_interleave(case.heads // case.kv_heads, 2)
    output = torch.einsum("bhqk,bkhd->bqhd", rounded / sums.clamp(min=1e-300), values)
    return output.bfloat16()


def bound(case: Case, q, k, v, exact: torch.Tensor) -> torch.Tensor:
    """Return what each element of O may be off: every P rounded the wrong way."""
    weights, sums = probabilities(case, q, k)
    absolute = SMALLEST_E4M3 / 2 / 2.0**LIFT * (weights > 0)
    share = (ROUNDING * weights + absolute) / sums.clamp(min=1e-300)
    values = v.double().abs().repeat_interleave(case.heads // case.kv_heads, 2)
    return torch.einsum("bhqk,bkhd->bqhd", share, values) + ROUNDING_OF_O * exact.abs() + 1e-6


def check(case: Case, q, k, v, *, random: bool = True) -> None:
    """Assert output and log-sum-exp against float64 and, of random operands, plain fp8 attention.

    Few different probabilities may all happen to be exact relative to the true maximum, which is
    what plain attention rounds them to, and not relative to the one that the kernel still keeps.
    """
    output, lse = run(case, q, k, v)
    exact, exact_lse = attention(case, q.float(), k.float(), v.float(), torch.float64)
    error = (output - exact).abs()
    assert output.dtype == torch.bfloat16
    assert torch.isfinite(output).all()
    assert (error <= bound(case, q, k, v, exact)).all()
    plain = (emulated(case, q, k, v) - exact).abs()
    assert not random or error.max() <= 2 * plain.max() + 1e-6
    assert torch.equal(torch.isinf(lse), torch.isinf(exact_lse))
    seen = torch.isfinite(exact_lse)
    torch.testing.assert_close(lse[seen].double(), exact_lse[seen], atol=2e-4, rtol=1e-4)


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the cosine of the angle between two results."""
    flat = [x.double().flatten() for x in (a, b)]
    return float(torch.nn.functional.cosine_similarity(*flat, 0))

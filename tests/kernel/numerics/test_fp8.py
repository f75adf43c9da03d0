"""fp8 operands on the simulator: all kernels against float64, bf16 and plain fp8 attention."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.plan.compute.probability import ProbabilityPlan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SM90A
from testing.arguments import Arguments, arguments
from testing.cases import BF16, FP8, Case, dense
from testing.fp8 import cosine, emulated
from testing.reference.attention import attention_float64
from testing.reference.fp8 import compare_fp8
from testing.runner import Outcome, call, check, checked, run, spec_of
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow


def hopper(*sizes: int, **more: Any) -> Case:
    return dense(*sizes, num_qo=None, arch=SM90A, dtype=FP8, **more)


FEW = [
    # one tile, several tiles, ragged ends, more queries than keys, decode, one key
    dense(300, 700, 64, 4, 2, causal=True, dtype=FP8),
    dense(1, 1, 128, dtype=FP8),
    dense(300, 700, 96, causal=True, dtype=FP8),
    dense(133, 77, 128, 4, 2, batch=2, causal=True, dtype=FP8),
    dense(300, 400, 192, causal=True, dtype=FP8),
    # one Q tile per CTA: even and odd key tiles, combined at the end
    dense(130, 650, 128, dtype=FP8, num_qo=1),
    # CTA pairs
    dense(300, 700, 256, 2, 1, causal=True, dtype=FP8),
    dense(300, 1100, 512, causal=True, dtype=FP8),
    # Hopper
    hopper(300, 700, 64, 4, 2, causal=True),
    hopper(133, 77, 128, 4, 2, batch=2, causal=True),
]
MORE = [
    dense(300, 520, 128, dtype=FP8),
    # padding of the head dimension, and groups that do not divide a tile
    dense(100, 300, 16, 3, 1, dtype=FP8),
    dense(133, 77, 384, causal=True, dtype=FP8),
    hopper(1, 1, 128),
    hopper(100, 300, 16, 3, 1),
]
WIDE = [
    dense(70, 200, 80, 8, 1, dtype=FP8),
    dense(300, 700, 192, 2, 1, head_dim_v=128, causal=True, dtype=FP8),
    dense(9, 1000, 64, 8, 1, causal=True, dtype=FP8, num_qo=1),
    dense(60, 300, 512, 8, 1, batch=2, dtype=FP8),
    dense(1, 1, 272, dtype=FP8),
    hopper(9, 1000, 80, 8, 1, causal=True),
]
EVERY_HEAD_DIM = [
    dense(70, 300, d, 2, 1, causal=True, dtype=FP8, num_qo=n)
    for d in range(16, 513, 16)
    for n in ((1, 2) if d <= 192 else (None,))
]
PAIR_OR_NOT = [128, 256]


def nearly_plain(outcome: Outcome) -> None:
    """Assert the result, and that no error is twice the largest of plain fp8 attention."""
    checked(outcome)
    given = outcome.arguments
    exact = attention_float64(*(x.float() for x in given.inputs), **given.options).out
    plain = (emulated(given) - exact).abs().max()
    assert outcome.out.dtype == BF16
    assert (outcome.out - exact).abs().max() <= 2 * plain + 1e-6


@pytest.mark.parametrize("case", FEW, ids=str)
def test_output_and_lse(case: Case) -> None:
    nearly_plain(run(case))


@pytest.mark.parametrize(
    "case", [*MORE, *also(*WIDE)], ids=str
)
def test_output_and_lse_of_other_shapes(case: Case) -> None:
    nearly_plain(run(case))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", EVERY_HEAD_DIM, ids=str)
def test_every_head_dim(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "head_dim",
    [64, 256, *also(128, 192, 512)],
)
def test_close_to_the_bf16_kernel_on_the_same_values(head_dim: int) -> None:
    given = arguments(dense(256, 256, head_dim, 2, 1, causal=True, dtype=FP8))
    narrow = call(given)
    q, k, v = (x.bfloat16() for x in given.inputs)
    wide = call(Arguments(q, k, v, given.options))
    assert cosine(narrow.out, wide.out) >= 0.9997
    torch.testing.assert_close(narrow.lse, wide.lse, atol=2e-4, rtol=1e-4)


def test_a_pair_computes_what_one_cta_does() -> None:
    given = arguments(dense(600, 520, 128, causal=True, dtype=FP8))
    alone = call(given)
    given.options |= {"pair_cta": True, "num_qo": None}
    assert torch.equal(alone.out, call(given).out)


@pytest.mark.parametrize("head_dim", PAIR_OR_NOT)
@pytest.mark.parametrize("growth", [0.8, 1.9, 2.1, 7.0])
def test_rows_whose_maximum_moves_in_every_tile(head_dim: int, growth: float) -> None:
    """Growth just below and above the rescale threshold; P stays below 448 in between."""
    given = arguments(dense(128, 900, head_dim, dtype=FP8, softmax_scale=math.log(2)), seed=1)
    q, k = torch.zeros(given.q.shape), torch.zeros(given.k.shape)
    q[..., 0], q[..., 1] = 1.0, 0.125
    steps = growth * (torch.arange(900) // 64)
    k[..., 0] = steps.floor()[None, :, None]
    k[..., 1] = (8 * (steps - steps.floor()))[None, :, None]
    given.q, given.k = q.to(FP8), k.to(FP8)
    outcome = call(given)
    compare_fp8(*outcome.results, given.inputs, equal_rows=True, **given.options).check()
    assert outcome.verdicts == ("clean",)


def tail_stress(head_dim: int) -> Arguments:
    """One key that takes almost everything, and a tail that only shows through its number."""
    q, k, v = (torch.zeros(1, n, 1, head_dim) for n in (128, 512, 512))
    q[..., 0], k[:, 0, :, 0], v[:, 1:] = 8.0, 10.0, 1.0
    return Arguments(q.to(FP8), k.to(FP8), v.to(FP8), {"softmax_scale": 1 / math.sqrt(128)})


@pytest.mark.parametrize("head_dim", PAIR_OR_NOT)
def test_the_lift_keeps_the_tail(head_dim: int) -> None:
    given = tail_stress(head_dim)
    exact = attention_float64(*(x.float() for x in given.inputs), **given.options).out
    output = call(given).out
    assert exact.min() > 0.05
    assert cosine(output, exact) >= 0.999
    torch.testing.assert_close(output.double(), exact, rtol=0.07, atol=0)


def test_without_the_lift_the_tail_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(dense(128, 512, 128, dtype=FP8))
    unlifted = replace(ProbabilityPlan.of(DType.FP8_E4M3), lift=0.0)
    monkeypatch.setattr(ProbabilityPlan, "of", classmethod(lambda cls, dtype: unlifted))
    artifact = compile_kernel(replace(spec, variant=replace(spec.variant, return_lse=True)))
    monkeypatch.setattr("fa4_cute.host.run.compute.cache.compiled", lambda _: artifact)
    given = tail_stress(128)
    given.options |= {"num_qo": 2}
    assert call(given).out.abs().max() == 0


def test_a_nan_operand_makes_its_rows_nan_and_no_other() -> None:
    given = arguments(dense(100, 200, 128, dtype=FP8))
    given.q[0, 7, 0, 3] = math.nan
    outcome = call(given)
    bad = torch.isnan(outcome.out).all(-1).flatten()
    assert bad.nonzero().flatten().tolist() == [7]
    assert torch.isnan(outcome.lse).flatten().nonzero().flatten().tolist() == [7]

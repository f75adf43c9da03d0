"""fp8 operands on the virtual SM100: both kernels against float64, bf16 and plain fp8 attention."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.host.run import simulator
from fa4_cute.host.run.launch import AttentionCall, pack_launch
from fa4_cute.plan.compute.probability import ProbabilityPlan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.options import Check, run_options
from tests.kernel.attention_case import Case, attention, buffer, inputs, operand
from tests.kernel.fp8_case import FP8, check, cosine, run

QUICK = [
    # one tile, several tiles, ragged ends, more queries than keys, decode, one key
    Case(300, 700, 64, heads=4, kv_heads=2, causal=True, dtype=FP8),
    Case(300, 520, 128, dtype=FP8),
    Case(1, 1, 128, dtype=FP8),
    Case(133, 77, 128, heads=4, kv_heads=2, batch=2, causal=True, dtype=FP8),
    Case(300, 400, 192, causal=True, dtype=FP8),
    # padding of the head dimension, and groups that do not divide a tile
    Case(100, 300, 16, heads=3, kv_heads=1, dtype=FP8),
    Case(70, 200, 80, heads=8, kv_heads=1, dtype=FP8),
    # one Q tile per CTA: even and odd key tiles, combined at the end
    Case(9, 1000, 64, heads=8, kv_heads=1, causal=True, dtype=FP8, num_qo=1),
    Case(130, 650, 128, dtype=FP8, num_qo=1),
    # CTA pairs
    Case(300, 700, 256, heads=2, kv_heads=1, causal=True, dtype=FP8),
    Case(300, 1100, 512, causal=True, dtype=FP8),
]
SLOW = [
    Case(256, 192, 64, dtype=FP8),
    Case(1, 300, 128, heads=8, kv_heads=1, causal=True, dtype=FP8),
    Case(1, 1, 192, dtype=FP8),
    Case(200, 333, 96, heads=3, causal=True, dtype=FP8),
    Case(100, 130, 144, dtype=FP8),
    Case(256, 128, 256, dtype=FP8),
    Case(90, 300, 208, heads=4, kv_heads=1, dtype=FP8),
    Case(60, 300, 512, heads=8, kv_heads=1, batch=2, dtype=FP8),
    Case(133, 77, 384, causal=True, dtype=FP8),
    Case(1, 1, 272, dtype=FP8),
]
GATE = [
    pytest.param(head_dim, marks=pytest.mark.slow if head_dim in (192, 512) else ())
    for head_dim in (64, 128, 192, 256, 512)
]
PAIR_OR_NOT = [128, pytest.param(256, marks=pytest.mark.slow)]
CLEAN = [QUICK[i] for i in (0, 3, 4, 7, 8, 9, 10)]


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_output_and_lse(case: Case) -> None:
    check(case, *inputs(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_output_and_lse_elsewhere(case: Case) -> None:
    check(case, *inputs(case))


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", range(16, 513, 16))
def test_every_head_dim(head_dim: int) -> None:
    case = Case(70, 300, head_dim, heads=2, kv_heads=1, causal=True, dtype=FP8)
    check(case, *inputs(case))
    if head_dim <= 192:
        check(replace(case, num_qo=1), *inputs(case))


@pytest.mark.parametrize("head_dim", GATE)
def test_close_to_the_bf16_kernel_on_the_same_values(head_dim: int) -> None:
    case = Case(256, 256, head_dim, heads=2, kv_heads=1, causal=True, dtype=FP8)
    q, k, v = inputs(case)
    of_fp8, lse = run(case, q, k, v)
    wide = replace(case, dtype=DType.BF16)
    of_bf16, wide_lse = run(wide, *(x.bfloat16() for x in (q, k, v)))
    assert cosine(of_fp8, of_bf16) >= 0.9997
    torch.testing.assert_close(lse, wide_lse, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("head_dim", PAIR_OR_NOT)
def test_rows_whose_maximum_moves_in_every_tile(head_dim: int) -> None:
    """Growth just below and above the rescale threshold; P stays below 448 in between."""
    for growth in (0.8, 1.9, 2.1, 7.0):
        case = Case(128, 900, head_dim, dtype=FP8, scale=math.log(2))
        q, k, v = inputs(case, seed=1)
        q, k = torch.zeros_like(q), torch.zeros_like(k)
        q[..., 0], q[..., 1] = 1.0, 0.125
        steps = growth * (torch.arange(900) // 64)
        k[..., 0] = steps.floor()[None, :, None].to(k.dtype)
        k[..., 1] = (8 * (steps - steps.floor()))[None, :, None].to(k.dtype)
        check(case, q, k, v, random=False)


def tail_stress(head_dim: int) -> tuple[Case, torch.Tensor, torch.Tensor, torch.Tensor]:
    """One key that takes almost everything, and a tail that only shows through its number."""
    case = Case(128, 512, head_dim, dtype=FP8)
    q, k, v = (torch.zeros(1, n, 1, head_dim) for n in (128, 512, 512))
    q[..., 0], k[:, 0, :, 0], v[:, 1:] = 8.0, 10.0, 1.0
    return case, *(x.to(torch.float8_e4m3fn) for x in (q, k, v))


@pytest.mark.parametrize("head_dim", PAIR_OR_NOT)
def test_the_lift_keeps_the_tail(head_dim: int) -> None:
    case, q, k, v = tail_stress(head_dim)
    if head_dim != 128:
        case = replace(case, scale=1 / math.sqrt(128))
    exact, _ = attention(case, q.float(), k.float(), v.float(), torch.float64)
    output, _ = run(case, q, k, v)
    assert exact.min() > 0.05
    assert cosine(output, exact) >= 0.999
    torch.testing.assert_close(output.double(), exact, rtol=0.07, atol=0)


def test_without_the_lift_the_tail_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    unlifted = ProbabilityPlan(FP8, threshold=-2.0, lift=0.0)
    monkeypatch.setattr(ProbabilityPlan, "of", classmethod(lambda cls, dtype: unlifted))
    case, q, k, v = tail_stress(128)
    spec = KernelSpec.for_attention(FP8, 128)
    o = torch.full(q.shape, math.nan, dtype=torch.bfloat16)
    call = AttentionCall(*map(operand, (q, k, v, o)), case.softmax_scale)
    artifact = compile_kernel(spec)
    buffers = [*map(buffer, (q, k, v)), buffer(o, writable=True)]
    simulator.launch(artifact.ptx, artifact.kernel_name, pack_launch(spec, call), buffers)
    assert o.abs().max() == 0


@pytest.mark.parametrize("case", CLEAN, ids=str)
def test_clean_under_all_watchers_in_any_order(case: Case) -> None:
    operands = inputs(case)
    first, _ = run(case, *operands)
    for mode, seed in (("late", 0), ("random", 1), ("random", 7)):
        with run_options(checks=Check.ALL, mode=mode, seed=seed):
            other, _ = run(case, *operands)
        report = simulator.last_report()
        assert report is not None
        assert not report.findings
        assert torch.equal(first, other)


def test_a_nan_operand_makes_its_rows_nan_and_no_other() -> None:
    case = Case(100, 200, 128, dtype=FP8)
    q, k, v = inputs(case)
    q[0, 7, 0, 3] = math.nan
    output, lse = run(case, q, k, v)
    bad = torch.isnan(output).all(-1).flatten()
    assert bad.nonzero().flatten().tolist() == [7]
    assert torch.isnan(lse).flatten().nonzero().flatten().tolist() == [7]

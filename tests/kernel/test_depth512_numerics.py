"""The CTA-pair kernel on the virtual SM100 against float64: dtypes, head dims, masks, lengths."""

import math

import pytest
import torch

from fa4_cute.plan.facts.dtypes import DType
from tests.kernel.attention_case import TORCH_TYPES, Case, attention, check, inputs
from tests.kernel.depth512_case import run_pair

BF16, FP16 = DType.BF16, DType.FP16

QUICK = [
    # one tile, several tiles, ragged ends, more queries than keys, decode, one key
    Case(256, 128, 256),
    Case(128, 256, 512),
    Case(300, 700, 256, causal=True),
    Case(300, 1100, 512, causal=True),
    Case(133, 77, 512, causal=True),
    Case(1000, 1, 256, causal=True),
    Case(1, 1, 512),
    Case(1, 1100, 256, causal=True),
    # the rows of the second CTA all lie past the end
    Case(60, 300, 512),
    # batch, heads, groups packed into rows, and groups that cannot be packed
    Case(77, 133, 256, heads=8, kv_heads=2, batch=2, causal=True),
    Case(77, 300, 512, heads=8, kv_heads=1, batch=2, causal=True, dtype=FP16),
    Case(133, 300, 256, heads=6, kv_heads=2, batch=2, causal=True, dtype=FP16),
    # padded head dimensions: depth parts with padding, depth parts that are nothing else
    Case(100, 300, 200, causal=True),
    Case(100, 300, 264, dtype=FP16),
    Case(200, 600, 384, causal=True),
]

SLOW = [
    Case(150, 450, d, heads=heads, kv_heads=1, causal=causal, dtype=dtype)
    for d in (200, 256, 384, 512)
    for heads in (1, 4, 8)
    for causal, dtype in ((heads == 1, BF16), (heads > 1, FP16))
]


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_output_and_lse(case: Case) -> None:
    check(case, *inputs(case), run=run_pair)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_output_and_lse_everywhere(case: Case) -> None:
    check(case, *inputs(case), run=run_pair)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", range(200, 513, 8))
def test_every_head_dim(head_dim: int) -> None:
    case = Case(70, 300, head_dim, causal=True, dtype=FP16 if head_dim % 16 else BF16)
    check(case, *inputs(case), run=run_pair)


@pytest.mark.parametrize("head_dim", [256, 512])
def test_no_keys_give_zeros_and_minus_infinity(head_dim: int) -> None:
    case = Case(300, 0, head_dim, causal=True)
    output, lse = run_pair(case, *inputs(case))
    assert (output == 0).all()
    assert (lse == -math.inf).all()


@pytest.mark.parametrize("head_dim", [256, 512])
def test_queries_before_the_first_key_give_zeros(head_dim: int) -> None:
    """Bottom-right alignment: the first 300 of 400 queries see none of the 100 keys."""
    case = Case(400, 100, head_dim, causal=True)
    output, lse = run_pair(case, *inputs(case))
    assert (output[:, :300] == 0).all()
    assert (lse[..., :300] == -math.inf).all()
    assert torch.isfinite(lse[..., 300:]).all()


@pytest.mark.parametrize("scale", [-0.3, 0.0, 1e-30, 5.0])
@pytest.mark.parametrize("head_dim", [256, 512])
def test_any_finite_scale(head_dim: int, scale: float) -> None:
    case = Case(200, 600, head_dim, causal=True, scale=scale)
    check(case, *inputs(case), run=run_pair)


@pytest.mark.parametrize("head_dim", [256, 512])
def test_maxima_that_grow_from_tile_to_tile(head_dim: int) -> None:
    """Keys grow along the sequence, so that O is rescaled again and again."""
    case = Case(200, 1100, head_dim)
    q, k, v = inputs(case)
    growing = torch.linspace(0.1, 20, case.seqlen_k)[None, :, None, None]
    check(case, q, (k * growing).to(k.dtype), v, run=run_pair)


def test_not_a_number_spreads_as_in_exact_attention() -> None:
    """Also to the thread that holds the other half of a row's keys."""
    case = Case(200, 600, 512, causal=True)
    q, k, v = inputs(case)
    k[0, 450] = math.nan
    output, _ = run_pair(case, q, k, v)
    exact, _ = attention(case, q, k, v, torch.float64)
    seen = torch.arange(200) + 400 >= 450
    assert torch.isnan(output[0, seen]).all()
    torch.testing.assert_close(output[0, ~seen].double(), exact[0, ~seen], atol=2e-2, rtol=2e-2)


def test_strided_operands() -> None:
    """q, k and v may be slices of one projection."""
    case = Case(150, 150, 256, heads=3, kv_heads=3, batch=2)
    generator = torch.Generator().manual_seed(1)
    packed = torch.randn(2, 150, 3, 3, 256, generator=generator).to(TORCH_TYPES[case.dtype])
    q, k, v = (packed[:, :, i] for i in range(3))
    check(case, q, k, v, run=run_pair)

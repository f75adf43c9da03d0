"""The compiled kernel on the virtual SM100 against float64: dtypes, head dims, masks, lengths."""

import math

import pytest
import torch

from fa4_cute.plan.facts.dtypes import DType
from tests.kernel.attention_case import TORCH_TYPES, Case, attention, check, inputs, run_kernel

BF16, FP16 = DType.BF16, DType.FP16

QUICK = [
    # one tile, several tiles, ragged ends, more queries than keys, decode, one key
    Case(256, 256, 128),
    Case(300, 700, 128),
    Case(300, 700, 128, causal=True),
    Case(133, 77, 128, causal=True),
    Case(1000, 1, 128, causal=True),
    Case(1, 1, 128),
    Case(1, 1000, 128, causal=True),
    # batch and heads, each with lengths that end inside a tile
    Case(77, 133, 128, heads=4, kv_heads=4, batch=2, causal=True),
    # grouped heads packed into rows, and a group that cannot be packed
    Case(77, 133, 64, heads=8, kv_heads=2, batch=2, causal=True),
    Case(133, 77, 64, heads=8, kv_heads=2, batch=2, causal=True),
    Case(257, 129, 72, heads=6, kv_heads=2, causal=True, dtype=FP16),
    # wide and narrow key tiles
    Case(400, 600, 64),
    Case(400, 600, 64, causal=True),
    Case(333, 444, 192, causal=True),
    Case(100, 300, 192, dtype=FP16),
    # padded head dimensions
    Case(100, 200, 8),
    Case(200, 300, 88, causal=True),
]

KINDS = ((1, False, BF16), (2, True, FP16), (3, True, BF16))
SLOW = [
    Case(300, 444, d, heads=heads, kv_heads=1, causal=causal, dtype=dtype)
    for i, d in enumerate((*range(8, 129, 8), 192))
    for heads, causal, dtype in (KINDS if d in (64, 128, 192) else KINDS[(i + 1) % 3 :][:1])
]
"""Every head dimension, by turns full, causal with packed heads, and causal with heads apart."""


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_output_and_lse(case: Case) -> None:
    check(case, *inputs(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_output_and_lse_everywhere(case: Case) -> None:
    check(case, *inputs(case))


@pytest.mark.parametrize("causal", [False, True])
def test_no_keys_give_zeros_and_minus_infinity(causal: bool) -> None:
    case = Case(300, 0, 128, causal=causal)
    output, lse = run_kernel(case, *inputs(case))
    assert (output == 0).all()
    assert (lse == -math.inf).all()


def test_queries_before_the_first_key_give_zeros() -> None:
    """Bottom-right alignment: the first 300 of 400 queries see none of the 100 keys."""
    case = Case(400, 100, 128, causal=True)
    output, lse = run_kernel(case, *inputs(case))
    assert (output[:, :300] == 0).all()
    assert (lse[..., :300] == -math.inf).all()
    assert torch.isfinite(lse[..., 300:]).all()


@pytest.mark.parametrize("scale", [-0.3, 0.0, 1e-30, 5.0])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_any_finite_scale(head_dim: int, scale: float) -> None:
    case = Case(200, 500, head_dim, causal=True, scale=scale)
    check(case, *inputs(case))


@pytest.mark.parametrize("head_dim", [64, 128, 192])
def test_maxima_that_grow_from_tile_to_tile(head_dim: int) -> None:
    """Keys grow along the sequence, so that O is rescaled again and again."""
    case = Case(300, 700, head_dim)
    q, k, v = inputs(case)
    growing = torch.linspace(0.1, 20, case.seqlen_k)[None, :, None, None]
    check(case, q, (k * growing).to(k.dtype), v)


def test_strided_operands() -> None:
    """q, k and v may be slices of one projection, with any batch, row and head strides."""
    case = Case(150, 150, 64, heads=3, kv_heads=3, batch=2)
    generator = torch.Generator().manual_seed(1)
    packed = torch.randn(2, 150, 3, 3, 64, generator=generator).to(TORCH_TYPES[case.dtype])
    q, k, v = (packed[:, :, i] for i in range(3))
    check(case, q, k.transpose(1, 2).contiguous().transpose(1, 2), v)


def test_not_a_number_spreads_as_in_exact_attention() -> None:
    case = Case(200, 300, 128, causal=True)
    q, k, v = inputs(case)
    k[0, 250] = math.nan
    output, _ = run_kernel(case, q, k, v)
    exact, _ = attention(case, q, k, v, torch.float64)
    seen = torch.arange(200) + 100 >= 250
    assert torch.isnan(output[0, seen]).all()
    assert torch.isfinite(output[0, ~seen]).all()
    torch.testing.assert_close(output[0, ~seen].double(), exact[0, ~seen], atol=2e-2, rtol=2e-2)


def test_results_do_not_depend_on_the_neighbours() -> None:
    """A batch entry computed alone is bit for bit the same: no row leaks into another tile."""
    case = Case(77, 133, 64, heads=2, kv_heads=2, batch=3)
    q, k, v = inputs(case)
    together, _ = run_kernel(case, q, k, v)
    alone = Case(77, 133, 64, heads=2, kv_heads=2)
    for entry in range(3):
        single, _ = run_kernel(alone, q[entry, None], k[entry, None], v[entry, None])
        assert torch.equal(single[0], together[entry])

"""The kernel with a single Q tile on the virtual SM100 against float64.

Key tiles alternate between two accumulators, so every number of tiles from none to several matters,
odd and even, and rows that see keys in one half only.
"""

import math
from dataclasses import replace

import pytest
import torch

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.launch import AttentionSizes, plan_launch
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from tests.kernel.attention_case import Case, attention, check, inputs, run_kernel

BF16, FP16 = DType.BF16, DType.FP16


def one_q(*args, **options) -> Case:
    return Case(*args, **options, num_qo=1)


QUICK = [
    # 1, 2, 3, 4 and 5 key tiles of 128 keys, whole and ragged, and one key
    *(one_q(128, keys, 128) for keys in (1, 128, 256, 300, 511, 640)),
    # few queries: decode and short prompts; more than one tile of queries
    one_q(1, 1100, 128, causal=True),
    one_q(11, 333, 128, causal=True),
    one_q(64, 64, 128, causal=True),
    one_q(300, 700, 128, causal=True),
    # wide key tiles; the heads of a group share a tile of rows
    one_q(1, 1, 64, heads=8, kv_heads=1, causal=True),
    one_q(1, 1000, 64, heads=16, kv_heads=2, batch=2, causal=True),
    one_q(11, 500, 64, heads=8, kv_heads=1, causal=True),
    # narrow key tiles in a shared ring of K and V
    *(one_q(64, keys, 192) for keys in (64, 100, 192, 256, 1100)),
    one_q(128, 333, 192, heads=4, kv_heads=1, causal=True, dtype=FP16),
    # a group that cannot be packed, padded head dimension, two depth parts
    one_q(77, 450, 72, heads=6, kv_heads=2, causal=True, dtype=FP16),
]

KINDS = ((1, False, BF16), (4, True, FP16), (3, True, BF16))
SLOW = [
    one_q(queries, keys, d, heads=heads, kv_heads=1, causal=causal, dtype=dtype)
    for i, d in enumerate((*range(8, 129, 8), 136, 160, 192))
    for heads, causal, dtype in (KINDS if d in (64, 128, 192) else KINDS[i % 3 :][:1])
    for queries, keys in ((128, 444), (11, 900))
]
"""Every head dimension, by turns full, causal with packed heads, and causal with heads apart."""


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_output_and_lse(case: Case) -> None:
    check(case, *inputs(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_output_and_lse_everywhere(case: Case) -> None:
    check(case, *inputs(case))


@pytest.mark.parametrize("case", [one_q(128, 0, 128), one_q(11, 0, 128, causal=True)], ids=str)
def test_no_keys_give_zeros_and_minus_infinity(case: Case) -> None:
    output, lse = run_kernel(case, *inputs(case))
    assert (output == 0).all()
    assert (lse == -math.inf).all()


def test_rows_without_keys_give_zeros() -> None:
    """Bottom-right alignment: of 700 queries, the first 400 see none of the 300 keys."""
    case = one_q(700, 300, 128, causal=True)
    output, lse = run_kernel(case, *inputs(case))
    assert (output[:, :400] == 0).all()
    assert (lse[..., :400] == -math.inf).all()
    check(case, *inputs(case))


@pytest.mark.parametrize("keys", [256, 333])
@pytest.mark.parametrize("loud", [0, 1, 2])
def test_halves_with_maxima_far_apart(keys: int, loud: int) -> None:
    """Scores of one key tile dwarf all others: its half decides, and the other vanishes."""
    case = one_q(100, keys, 128)
    q, k, v = inputs(case)
    k[:, 128 * loud : 128 * (loud + 1)] *= 40
    check(case, q, k, v)


def test_maxima_that_grow_from_tile_to_tile() -> None:
    """Keys grow along the sequence, so that both accumulators are rescaled again and again."""
    case = one_q(128, 1000, 128)
    q, k, v = inputs(case)
    growing = torch.linspace(0.1, 20, case.seqlen_k)[None, :, None, None]
    check(case, q, (k * growing).to(k.dtype), v)


@pytest.mark.parametrize("scale", [-0.3, 0.0, 5.0])
def test_any_finite_scale(scale: float) -> None:
    case = one_q(100, 500, 128, causal=True, scale=scale)
    check(case, *inputs(case))


@pytest.mark.parametrize("where", [100, 200])
def test_not_a_number_spreads_from_either_half(where: int) -> None:
    case = one_q(100, 300, 128, causal=True)
    q, k, v = inputs(case)
    k[0, where] = math.nan
    output, lse = run_kernel(case, q, k, v)
    seen = torch.arange(100) + 200 >= where
    assert torch.isnan(output[0, seen]).all()
    assert torch.isnan(lse[0, 0, seen]).all()
    assert torch.isfinite(output[0, ~seen]).all()


def test_results_do_not_depend_on_the_neighbours() -> None:
    """A batch entry computed alone is bit for bit the same: no row leaks into another tile."""
    case = one_q(77, 333, 128, heads=2, kv_heads=2, batch=2)
    q, k, v = inputs(case)
    together, _ = run_kernel(case, q, k, v)
    alone = replace(case, batch=1)
    for entry in range(2):
        single, _ = run_kernel(alone, q[entry, None], k[entry, None], v[entry, None])
        assert torch.equal(single[0], together[entry])


def test_a_decoded_row_equals_the_row_of_a_prompt() -> None:
    """The last query alone sees the same keys in the same halves, and gives the same bits."""
    prompt = one_q(100, 700, 128, causal=True)
    q, k, v = inputs(prompt)
    rows, row_lse = run_kernel(prompt, q, k, v)
    decoded, lse = run_kernel(replace(prompt, seqlen_q=1), q[:, -1:].contiguous(), k, v)
    assert torch.equal(decoded[:, 0], rows[:, -1])
    assert torch.equal(lse[..., 0], row_lse[..., -1])


def test_both_kernels_agree() -> None:
    case = one_q(128, 700, 128, causal=True)
    operands = inputs(case)
    one, one_lse = run_kernel(case, *operands)
    two, two_lse = run_kernel(replace(case, num_qo=2), *operands)
    exact, _ = attention(case, *operands, torch.float64)
    assert not torch.equal(one, two)
    assert (one - two).abs().max() <= 2 * (two - exact).abs().max()
    torch.testing.assert_close(one_lse, two_lse, atol=1e-5, rtol=1e-6)


def test_one_tile_of_rows_serves_all_heads_of_a_group() -> None:
    spec = KernelSpec.for_attention(BF16, 128, group=8, num_qo=1)
    case = one_q(1, 1000, 128, heads=32, kv_heads=4, batch=3)
    sizes = AttentionSizes(case.batch, case.seqlen_q, case.seqlen_k, case.heads, case.kv_heads)
    assert plan_launch(spec, sizes, case.softmax_scale).grid == (1, 4, 3)

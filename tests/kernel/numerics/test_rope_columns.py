"""Queries and keys wider than the values: rope columns in regions of their own."""

import re
from functools import partial
from typing import Any

import pytest
import torch

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.arguments import arguments
from testing.cases import BF16, FP8, FP16, Case, dense
from testing.runner import call, check, checked, spec_of
from testing.watchers import objections
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

mla = partial(dense, head_dim=192, head_dim_v=128)
CASES = [
    # rope beside a fused ring, with more key tiles than slots and rope buffers
    mla(300, 900, causal=True),
    # one Q tile, whose rings are split: rope columns lie in the slots of K
    mla(100, 700, num_qo=1),
    # rope columns of another type
    mla(300, 600, dtype=FP8, rope=BF16, causal=True),
    # a depth that is partly padding
    dense(600, 300, 72, heads=3, head_dim_v=40, causal=True, pair_cta=True),
]
MORE = [
    mla(133, 400, heads=2, kv_heads=2, batch=2, dtype=FP16, rope=BF16, pair_cta=True),
    # other depths: split rings with two Q tiles, rope columns that are partly padding
    dense(200, 700, 128, head_dim_v=64, causal=True),
    # both CTAs share every MMA and hold half of K and V: split rings, several pairs of CTAs
    mla(700, 900, causal=True, pair_cta=True),
    mla(133, 77, heads=4, kv_heads=2, batch=2, causal=True, dtype=FP16),
    dense(100, 400, 72, head_dim_v=64, causal=True),
    mla(300, 600, rope=FP16, causal=True),
    mla(133, 400, heads=2, kv_heads=2, dtype=FP16, rope=BF16),
    # a fused ring, and more key tiles than its rope buffers
    mla(300, 2500, dtype=FP8, pair_cta=True),
    mla(1, 1),
    dense(150, 300, 96, head_dim_v=80),
    mla(200, 600, dtype=FP8, rope=BF16, num_qo=1),
    mla(200, 600, dtype=FP8),
    # 192 keys a tile, and half a swizzle span of V in each CTA of a pair
    dense(600, 500, 128, head_dim_v=64, causal=True, pair_cta=True),
    dense(600, 500, 128, head_dim_v=64, causal=True, dtype=FP8, rope=FP16, pair_cta=True),
]


@pytest.mark.parametrize(
    "case",
    [*CASES, *also(*MORE)],
    ids=str,
)
def test_output_and_lse(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", [mla(64, 200), mla(300, 200, pair_cta=True)], ids=str)
def test_every_column_counts_once(case: Case) -> None:
    """One column of Q and K at a time carries all of the score."""
    for column in (0, 63, 64, 127, 128, 129, 191):
        given = arguments(case)
        only = torch.zeros(case.head_dim, dtype=case.dtype)
        only[column] = 4.0
        given.q, given.k = given.q * only, given.k * only
        checked(call(given))


@pytest.mark.parametrize(
    "dtype", [BF16, *also(FP8)], ids=str
)
def test_a_pair_computes_what_one_cta_does(dtype: torch.dtype) -> None:
    """Same tiles, same order of additions: the results are the same bit by bit."""
    given = arguments(mla(600, 700, dtype=dtype, causal=True))
    alone = call(given)
    given.options |= {"pair_cta": True, "num_qo": None}
    for x, y in zip(alone.results, call(given).results, strict=True):
        assert torch.equal(x, y)


def test_a_single_rope_buffer_is_too_few() -> None:
    """All key tiles in one buffer: a tile lands while the one before is still multiplied."""
    case = mla(256, 900)
    config = spec_of(case).config
    assert isinstance(config, FA4Config)
    assert config.use_fused_kv
    assert config.num_rope_buffers() == 2
    stride = config.k_rows_per_cta() * config.rope_depth() * config.rope_dtype_size
    # The buffer's offset is the tile's parity times its size, in the load and the MMA role.
    offset = re.compile(rf"(and\.b32\s+%r\d+, %r\d+), {stride};")

    def in_one_buffer(ptx: str) -> str:
        assert len(offset.findall(ptx)) == 2
        return offset.sub(r"\1, 0;", ptx)

    options: dict[str, Any] = {"mode": "random", "seed": 1}
    assert objections(arguments(case), **options) == []
    assert objections(arguments(case), in_one_buffer, **options)


def test_impossible_depths_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="qk_depth=64 is smaller than ov_depth=128"):
        KernelSpec.for_attention(DType.BF16, 64, head_dim_v=128)
    with pytest.raises(ValueError, match=r"ov_depth=120: rope columns that are tensors"):
        KernelSpec.for_attention(DType.BF16, 192, head_dim_v=120, rope_dtype=DType.FP16)

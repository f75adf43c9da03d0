"""Heads of a group in the rows of one query tile beside rope columns, with the other features."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from testing.cases import BF16, FP8, FP16, Case, Lengths
from testing.runner import check, spec_of
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

STEPS: Lengths = ((1, 300), (1, 70), (1, 0), (1, 513))
CHUNKS: Lengths = ((5, 300), (1, 70), (0, 20), (40, 130))


def grouped(
    features: str, group: int, lengths: Lengths = STEPS, *, kv_heads: int = 1, **more: Any
) -> Case:
    """Return a case of 192 and 128 columns, or others, whose heads share keys."""
    given: dict[str, Any] = {"head_dim": 192, "head_dim_v": 128, "num_qo": 1, **more}
    heads = group * kv_heads
    case = Case(frozenset(features.split()), heads=heads, kv_heads=kv_heads, lengths=lengths)
    return replace(case, **given)


pairs = partial(grouped, num_qo=None, pair_cta=True)
apart = partial(grouped, head_dim=128, head_dim_v=0)
"""64 rope columns besides, in tensors of their own, with one head of K for all."""
CASES = (
    grouped("page64 last", 4, kv_heads=2),
    grouped("page64 causal sink ragged", 8, CHUNKS),
    grouped("fp8 split cache", 16, kv_heads=2),
    apart("rope page16 window", 4, CHUNKS, kv_heads=2, num_qo=2),
    pairs("causal ragged", 64, CHUNKS),
)
MORE = (
    grouped("page64 cluster causal", 2, kv_heads=2),
    grouped("page16 split softcap", 3, kv_heads=2),
    grouped("cache last sink", 64),
    grouped("page256 last alibi", 128),
    grouped("tokens page64 last causal", 4, kv_heads=2),
    grouped("tokens split", 128),
    grouped("fp8 page16 cluster window", 8, CHUNKS),
    grouped("bias function", 4, ((5, 300),)),
    grouped("persistent causal ragged page64", 4, CHUNKS, kv_heads=2, num_qo=2),
    grouped("dynamic causal", 4, ((300, 300),), kv_heads=2, num_qo=2),
    grouped("window union", 8, ((70, 300), (20, 333)), num_qo=2),
    grouped("padding sink", 2, ((130, 300),), kv_heads=2, num_qo=2, dtype=FP16),
    apart("rope fp8 page64 last", 8, kv_heads=2),
    apart("rope tokens causal ragged", 4, CHUNKS, kv_heads=2, num_qo=2),
    apart("rope split sink cache", 128),
    grouped("split causal", 4, ((9, 300),), dtype=FP8, rope=BF16),
    grouped("page64 last", 16, ((2, 300),), rope=FP16),
    pairs("page64 sink", 4, ((70, 300), (20, 333)), kv_heads=2),
    pairs("persistent causal", 128, ((3, 300),)),
    pairs("causal", 256, ((2, 300),)),
    pairs("tokens page16 ragged", 8, CHUNKS),
)


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_output_and_lse(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("group", "positions"), [(1, 128), (2, 64), (3, 128), (4, 32), (128, 1), (256, 128)]
)
def test_a_query_tile_holds_all_heads_of_a_group_that_divides_its_rows(
    group: int, positions: int
) -> None:
    case = grouped("page64", group, ((1, 300),))
    assert spec_of(case).config.BM_eff() == positions

"""Few rows: copies of them in the lanes of Tensor Memory, each with keys of its own.

Of pairs it is the rows of both CTAs: a query tile has twice as many.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.cases import CUT, FP8, FP16, Case, Lengths
from testing.runner import check, launches, spec_of
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

STEPS: Lengths = ((1, 700), (1, 33), (0, 20), (1, 0), (1, 129), (1, 1))
"""Copies without a key, in one key tile and in several; a sequence without a query."""


MIXED: Lengths = tuple((1, 40 + 9 * (n % 30)) for n in range(70))
"""Query tiles of one key tile and of several, in turns: both groups have an O, or the first."""


def few(features: str, head_dim: int = 128, lengths: Lengths = STEPS, **more: Any) -> Case:
    given: dict[str, Any] = {"heads": 8, "kv_heads": 2, **more}
    return Case(frozenset(features.split()), head_dim, lengths=lengths, **given)


def copies_of(case: Case) -> int:
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec | Depth512Spec)
    return spec.config.row_copies


CASES = (
    few("ragged page16 sink", num_splits=1),
    few("cache causal", 96, ((8, 600), (8, 129), (8, 8), (8, 0)), dtype=FP16),
    few("fp8 ragged page64 stream_k", 64, CUT, dtype=FP8),
    few("cluster causal", 64, ((5, 700),), num_splits=4),
    few("last page16 cache", 128, ((1, 900), (1, 30), (1, 0)), num_splits=3),
    few("persistent ragged window", 128, CUT),
    few("persistent ragged causal", 64, MIXED),
)
MORE = (
    few("stream_k ragged page16 causal sink", 64, MIXED, heads=4),
    few("persistent ragged", 96, MIXED, dtype=FP8),
    few("", 128, ((1, 300),)),
    few("split ragged alibi", 72, CUT, num_splits=5),
    few("cluster ragged sink", 96, ((3, 500), (1, 20), (2, 0)), num_splits=2, dtype=FP8),
    few("tokens ragged page16 softcap", 128, CUT, dtype=FP8),
    few("rope causal ragged", 64, ((4, 300), (1, 40))),
    few("page16 causal ragged", 192, ((4, 300), (1, 40)), head_dim_v=128),
    few("fp8 page16 ragged stream_k", 192, CUT, head_dim_v=128, dtype=FP8),
    few("padding bias", 64, ((3, 400),)),
    few("union ragged function", 64, CUT),
    few("chunked ragged", 128, ((7, 400), (3, 70))),
    few("dynamic ragged", 128, CUT),
    few("page128 cache", 64, ((1, 5000), (1, 4096)), heads=4, kv_heads=1),
    few("ragged", 40, CUT, heads=3, kv_heads=1),
)
"""Also page tables of more tiles than lanes, and a group that is no divisor of the rows."""


def few_of_pair(features: str, lengths: Lengths = STEPS, head_dim: int = 256, **more: Any) -> Case:
    return few(features, head_dim, lengths, dtype=FP8, **more)


PAIRS = (
    few_of_pair("ragged page16 sink", num_splits=1),
    few_of_pair("fp8 cache causal", ((16, 600), (16, 129), (16, 8), (16, 0)), 224),
    few_of_pair("ragged page64 stream_k", CUT),
    few_of_pair("persistent ragged causal", MIXED, heads=4),
    few_of_pair("split ragged window", ((11, 700), (0, 20), (5, 133)), num_splits=3),
)
MORE_PAIRS = (
    few_of_pair("fp8 stream_k ragged page16 causal sink", MIXED, heads=4),
    few_of_pair("", ((1, 300),)),
    few_of_pair("persistent", ((3, 300),) * 5, kv_heads=8),
    few_of_pair("causal", ((15, 300),), 208),
    few_of_pair("tokens ragged page16 softcap", ((15, 300), (3, 33)), 240),
    few_of_pair("padding bias", ((3, 400),)),
    few_of_pair("union ragged function", ((9, 400), (3, 70))),
    few_of_pair("chunked ragged page128", ((7, 400), (3, 70))),
    few_of_pair("dynamic ragged", CUT),
    few_of_pair("page128 cache", ((1, 5000), (1, 4096)), heads=4, kv_heads=1),
    few_of_pair("ragged", ((33, 300), (50, 70)), heads=3, kv_heads=1),
)
"""Rows of the first CTA alone and of both; with a group that is no divisor of the rows."""


@pytest.mark.parametrize("case", [*CASES, *PAIRS, *also(*MORE, *MORE_PAIRS)], ids=str)
def test_four_copies(case: Case) -> None:
    assert copies_of(case) == 4
    check(case)


TWO = (
    # Staged: a share of O is two chunks.
    few_of_pair("causal", ((100, 300),), heads=1, kv_heads=1),
    few("ragged page64 causal", 128, ((16, 600), (9, 40), (3, 0)), heads=4, kv_heads=1),
    few("fp8 cluster", 64, ((13, 700),), heads=4, kv_heads=1, num_splits=2, dtype=FP8),
    few("stream_k ragged window", 96, CUT, heads=16, kv_heads=1),
    few_of_pair("ragged causal page16", ((32, 600), (17, 40), (3, 0)), heads=4, kv_heads=1),
    few_of_pair("stream_k ragged page64", ((21, 600), (3, 40), (30, 129)), heads=4, kv_heads=1),
)


@pytest.mark.parametrize("case", [*TWO[:2], TWO[4], *also(*TWO[2:4], *TWO[5:])], ids=str)
def test_two_copies(case: Case) -> None:
    assert copies_of(case) == 2
    check(case)


def test_what_is_asked_for_keeps_one_row_a_lane() -> None:
    """Whoever names the Q tiles gets the bits of any other batch."""
    assert copies_of(few("ragged", num_qo=1)) == 1


def test_pairs_of_16_bit_operands_have_none() -> None:
    """Sums of all copies would leave the ring of K and V less than two key tiles."""
    assert copies_of(few("ragged", 256)) == 1


def test_no_copies_where_no_register_is_left() -> None:
    """By stream-K under a mask of several terms, in a pair."""
    assert copies_of(few_of_pair("stream_k ragged union")) == 1
    assert copies_of(few_of_pair("ragged union")) == 4


UNEVEN: Lengths = ((1, 2048), *((1, 8),) * 59)
"""Room for so many keys that the call gets stream-K of itself; most of it is empty."""


@pytest.mark.parametrize(
    "case",
    [few("tokens ragged softcap", 64, UNEVEN, dtype=FP8), *also(few("ragged union", 64, UNEVEN))],
    ids=lambda case: "+".join(sorted(case.features)),
)
def test_no_copies_where_stream_k_has_small_key_tiles(case: Case) -> None:
    assert spec_of(case).variant.streams_keys
    assert copies_of(case) == 1
    check(case)


NARROW = (
    few("", 176, ((1, 300), (1, 300)), head_dim_v=32),
    few("causal", 144, ((200, 300), (200, 300)), head_dim_v=64),
)
"""V so narrow beside K that shared memory holds a single Q tile."""


@pytest.mark.parametrize("case", [NARROW[1], *also(NARROW[0])], ids=str)
def test_one_q_tile_where_two_do_not_fit(case: Case) -> None:
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    assert spec.config.num_qo == 1
    check(case)


def inputs(keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(5)
    q = torch.randn(1, 1, 4, 64)
    k, v = torch.randn(2, 1, keys, 1, 64)
    return q.bfloat16(), k.bfloat16(), v.bfloat16()


@pytest.mark.parametrize("keys", [128, 300])
def test_an_infinite_value_stays_with_the_copy_that_sees_it(keys: int) -> None:
    """No other copy multiplies it by zero: the lanes of P V are those of the key's copy."""
    q, k, v = inputs(keys)
    v[0, 70, 0, 3] = math.inf
    v[0, 5, 0, 9] = -math.inf
    out = fa4_cute.flash_attn(q, k, v)[0, 0].float()
    assert torch.equal(out[:, 3], torch.full((4,), math.inf))
    assert torch.equal(out[:, 9], torch.full((4,), -math.inf))
    others = [column for column in range(64) if column not in (3, 9)]
    assert out[:, others].isfinite().all()


def test_bits_do_not_depend_on_the_other_rows() -> None:
    """What lies beside a row of few, another head or none, changes nothing."""
    q, k, v = inputs(300)
    whole = fa4_cute.flash_attn(q, k, v, num_splits=1)
    for head in range(4):
        alone = fa4_cute.flash_attn(q[:, :, head : head + 1], k, v, num_splits=1)
        assert torch.equal(alone, whole[:, :, head : head + 1])


def test_one_launch_puts_all_together() -> None:
    q, k, v = inputs(300)
    with launches() as reports:
        fa4_cute.flash_attn(q, k, v, num_splits=1)
    assert len(reports) == 1

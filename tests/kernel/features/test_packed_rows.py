"""Query tiles counted by rows: kernels find the sequence of theirs, and every bit stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from testing.arguments import arguments
from testing.cases import BF16, FP8, Case, Lengths
from testing.runner import call, checked, spec_of
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

MIX: Lengths = ((1, 70), (300, 420), (0, 20), (17, 300), (1, 513), (3, 3), (1, 0), (2, 30))
MANY: Lengths = (*[(1, 40)] * 34, (280, 290), *[(2, 3)] * 4)
"""More sequences than lanes look at once."""


def packed(features: str, lengths: Lengths = MIX, **more: Any) -> Case:
    given: dict[str, Any] = {"heads": 4, "kv_heads": 2, **more}
    case = Case(frozenset({*features.split(), "ragged"}), lengths=lengths)
    return replace(case, **given)


CASES = (
    packed("causal", MANY),
    packed("page64 causal dynamic sink"),
    packed("causal persistent", head_dim=64),
    packed("page16 split", head_dim=256),
)
MORE = (
    packed("page64 causal last", num_qo=1),
    packed("window cluster", num_qo=1),
    packed("causal", head_dim=128, pair_cta=True),
    packed("dynamic causal", MANY, head_dim=256),
    packed("padding causal", MANY, num_qo=2),
    packed("page16 tokens dynamic causal"),
    packed("causal", head_dim=192, head_dim_v=128, dtype=FP8, rope=BF16),
    packed("function causal", heads=3, kv_heads=3),
)


def without(spec: AttentionSpec) -> AttentionSpec:
    """Return the kernel with query tiles for the longest sequence in every one."""
    return replace(spec, variant=replace(spec.variant, by_rows=False))


def name_of(case: Case) -> str:
    sequences = "many" if case.lengths == MANY else "mix"
    return f"d{case.head_dim} {' '.join(sorted(case.features))} {sequences}"


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=name_of)
def test_results_are_right_and_have_the_bits_of_all_query_tiles(case: Case) -> None:
    spec, given = spec_of(case), arguments(case)
    assert spec.variant.by_rows
    every = checked(call(given, spec=without(spec)))
    for one, other in zip(checked(call(given)).results, every.results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("scheduler", ["tile", "persistent"])
@pytest.mark.parametrize("causal", [False, True])
def test_rows_behind_the_last_sequence_are_nobodys(
    arch: str, scheduler: str, causal: bool
) -> None:
    """Where a graph has room for more rows than a step has, and offsets say how many it has."""
    starts = torch.tensor([0, 1, 261, 261, 262, 263], dtype=torch.int32)
    q, k, v = (torch.randn(600, 2, 64, dtype=torch.bfloat16) for _ in range(3))

    def attention(rows: int) -> torch.Tensor:
        options: dict[str, Any] = {"causal": causal, "scheduler": scheduler, "arch": arch}
        return fa4_cute.flash_attn_varlen(
            q[:rows], k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, unchecked=True,
            max_seqlen_q=260, max_seqlen_k=260, **options,
        )  # fmt: skip

    assert torch.equal(attention(600)[:263], attention(263))

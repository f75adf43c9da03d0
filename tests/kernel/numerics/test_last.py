"""Splits joined by the last CTA: against float64, and bit for bit against the workspace."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from testing.arguments import ints
from testing.cases import FP8, FP16, Case
from testing.reference.attention import compare
from testing.runner import check, launches
from tests.kernel.numerics.split_inputs import dense
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow


def of_last(
    size: int, lengths: tuple[tuple[int, int], ...], head_dim: int, heads: int = 4,
    *features: str, **more: Any,
) -> Case:  # fmt: skip
    return Case(
        frozenset({"last", *features}), head_dim, heads=heads, kv_heads=max(1, heads // 4),
        lengths=lengths, num_qo=1, num_splits=size, **more,
    )  # fmt: skip


CASES = [
    of_last(5, ((2, 700), (1, 30), (0, 20), (2, 0)), 128, 8, "ragged", "page64", "sink"),
    of_last(40, ((1, 300),), 64),
]
"""Uneven and empty splits, more of them than a warp has lanes, and sequences without keys."""
MORE = [
    of_last(3, ((40, 700),), 192, 2, "causal", dtype=FP16),
    of_last(4, ((3, 500), (3, 40)), 128, 4, "cache", "fp8", dtype=FP8),
    of_last(4, ((3, 500), (3, 40)), 128, 4, "tokens", dtype=FP8),
    of_last(2, ((1, 129),), 8),
    of_last(7, ((6, 900),), 96, 4, "causal", "softcap"),
    of_last(3, ((5, 300),), 64, 4, "rope", "causal"),
]


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_values(case: Case) -> None:
    check(case)


def call(
    inputs: tuple[torch.Tensor, ...], split: str, size: int, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    given = {"num_splits": size, "split": split, "num_qo": 1, "return_lse": True, **options}
    return fa4_cute.flash_attn(*inputs, **given)


def test_the_only_launch_is_the_attention() -> None:
    with launches() as reports:
        call(dense(1, 5, 300), "last", 4)
    assert [report.verdict for report in reports] == ["clean"]


@pytest.mark.parametrize(("head_dim", "size"), [(128, 5), *also((64, 40), (192, 3))])
def test_the_workspace_gives_the_same_bits(head_dim: int, size: int) -> None:
    operands = dense(2, 9, 900, head_dim)
    options = {
        "causal": True, "sink": torch.tensor([0.5, -1.0, 3.0, -math.inf]),
        "seqused_k": ints([900, 150]),
    }  # fmt: skip
    (out, lse), (other, other_lse) = (
        call(operands, split, size, **options) for split in ("last", "workspace")
    )
    assert torch.equal(out, other)
    assert torch.equal(lse, other_lse)


def test_repeated_calls_give_the_same_bits() -> None:
    operands = dense(1, 2, 600)
    first = call(operands, "last", 3)
    for _ in range(3):
        again = call(operands, "last", 3)
        assert all(map(torch.equal, first, again))


def test_rows_and_sequences_that_see_nothing() -> None:
    q, k, v = dense(3, 4, 300)
    hidden = masks.padding(ints([0, 300, 5]))
    out, lse = call((q, k, v), "last", 4, mask=hidden)
    assert torch.all(out[0] == 0)
    assert torch.all(lse[0] == -math.inf)
    compare(out, lse, (q, k, v), mask=hidden).check()


@pytest.mark.parametrize(("head_dim", "splits"), [(128, 4), *also((64, 6))])
def test_parts_of_few_keys_that_nobody_asked_for(head_dim: int, splits: int) -> None:
    """One or two key tiles a CTA, and none in sequences that are shorter than the room."""
    lengths = ((1, 1000), (1, 700), (1, 100), (1, 1), (1, 0))
    case = Case(frozenset({"cache", "page64"}), head_dim, heads=8, kv_heads=2, lengths=lengths)
    text = fa4_cute.explain(
        head_dim=head_dim, heads_q=8, heads_k=2, batch=len(lengths), seqlen_q=1, seqlen_k=1024,
        page_size=64,
    )
    assert f"{splits} splits of the keys: predicted for a B200" in text
    assert "joined by the last CTA" in text
    check(case)

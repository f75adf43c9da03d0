"""Parts of a shard as one plain call. The calls themselves: test_interface."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fa4_cute.distributed import attend
from fa4_cute.plan.ranks.band import CAUSAL, FULL, Band
from fa4_cute.plan.ranks.steps import Call, Part


def test_rows_that_follow_one_another_are_not_copied() -> None:
    q = torch.zeros(20, 1, 8)
    assert attend.selection([(2, 5), (5, 9)], q) == slice(2, 9)
    assert attend.selection([(2, 5), (6, 8)], q).tolist() == [2, 3, 4, 6, 7]
    assert attend.selection([(6, 8), (2, 3)], q).tolist() == [6, 7, 2]


@pytest.mark.parametrize(
    ("band", "arguments"),
    [
        (FULL, {}),
        (CAUSAL, {"causal": True}),
        (Band(0, None), {"window_size": (0, None)}),
        (Band(7, 0), {"window_size": (7, 0)}),
    ],
)
def test_bands_are_arguments(band: Band, arguments: dict[str, Any]) -> None:
    assert attend.window_arguments(band) == arguments


def test_a_ragged_call_counts_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def call(q: Any, k: Any, v: Any, **options: Any) -> tuple[Any, Any]:
        seen.update(options, q=q, k=k, v=v)
        return q, k

    monkeypatch.setattr(attend, "flash_attn_varlen", call)
    q, k = torch.arange(12).view(12, 1, 1), torch.arange(20).view(20, 1, 1)
    parts = Part((1, 3), (0, 4)), Part((6, 7), (4, 9))
    attend.results(Call(CAUSAL, parts), q, (k, -k), {"softcap": 2.0})
    assert seen["q"].flatten().tolist() == [1, 2, 6]
    assert seen["k"].flatten().tolist() == list(range(9))
    assert torch.equal(seen["v"], -seen["k"])
    assert seen["cu_seqlens_q"].tolist() == [0, 2, 3]
    assert seen["cu_seqlens_k"].tolist() == [0, 4, 9]
    assert (seen["max_seqlen_q"], seen["max_seqlen_k"]) == (2, 5)
    assert seen["unchecked"]
    assert seen["causal"]
    assert seen["return_lse"]
    assert seen["softcap"] == 2.0

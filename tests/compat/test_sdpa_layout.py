"""``fa4_cute.sdpa`` against torch's own, and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import fa4_cute

from .plain import normal

Q, K, V = normal(2, 4, 24, 64), normal(2, 2, 40, 64, seed=1), normal(2, 2, 40, 64, seed=2)
CASES: dict[str, dict[str, Any]] = {
    "fewer queries": {"is_causal": True},
    "rows": {"attn_mask": torch.rand(24, 40, generator=torch.Generator().manual_seed(1)) > 0.4},
    "padding": {"attn_mask": (torch.arange(40) < torch.tensor([[30], [40]]))[:, None, None]},
    "one column for all": {"attn_mask": torch.arange(24)[:, None] % 3 > 0},
    "heads": {"attn_mask": normal(4, 24, 40, seed=3)},
    "everything": {"attn_mask": normal(2, 4, 24, 40, seed=4), "scale": 0.2},
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_torch(case: str) -> None:
    ours = fa4_cute.sdpa(Q, K, V, enable_gqa=True, **CASES[case])
    exact = F.scaled_dot_product_attention(Q, K, V, enable_gqa=True, **CASES[case])
    assert ours.shape == exact.shape
    torch.testing.assert_close(ours, exact, atol=0.02, rtol=0.02)


@pytest.mark.exhaustive
def test_causal_is_aligned_to_the_top_left_where_there_are_more_queries() -> None:
    q = torch.cat((Q, Q), 2)
    ours = fa4_cute.sdpa(q, K, V, is_causal=True, enable_gqa=True)
    exact = F.scaled_dot_product_attention(q, K, V, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(ours, exact, atol=0.02, rtol=0.02)


def test_batch_dimensions_may_be_several_or_none() -> None:
    q, k = normal(2, 3, 2, 24, 64), normal(2, 3, 1, 24, 64, seed=1)
    mask = torch.rand(3, 1, 24, 24, generator=torch.Generator().manual_seed(2)) > 0.3
    ours, lse = fa4_cute.sdpa(q, k, k, mask, enable_gqa=True, return_lse=True)
    wide = k.expand_as(q)
    exact = F.scaled_dot_product_attention(q, wide, wide, mask)
    torch.testing.assert_close(ours, exact, atol=0.02, rtol=0.02)
    assert lse.shape == (2, 3, 2, 24)
    alone = fa4_cute.sdpa(q[1, 2], k[1, 2], k[1, 2], mask[2], enable_gqa=True)
    assert torch.equal(alone, ours[1, 2])


REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "dropout": (NotImplementedError, "dropout_p=0.5", lambda: fa4_cute.sdpa(Q, Q, Q, None, 0.5)),
    "two masks": (ValueError, "is_causal=True with an attn_mask",
                  lambda: fa4_cute.sdpa(Q, Q, Q, Q[0, 0] > 0, 0.0, True)),
    "heads": (ValueError, "key: 2 heads for the 4 heads of query.*enable_gqa=True",
              lambda: fa4_cute.sdpa(Q, K, V)),
    "batch": (ValueError, "key: .*other batch dimensions", lambda: fa4_cute.sdpa(Q, Q[:1], Q[:1])),
    "rows": (ValueError, r"value: shape .* differs from key",
             lambda: fa4_cute.sdpa(Q, K, Q, enable_gqa=True)),
    "columns": (ValueError, "key: head_dim=32 differs from head_dim=64",
                lambda: fa4_cute.sdpa(Q, Q[..., :32], Q[..., :32])),
    "rank": (ValueError, "query: .* has 2 dimensions",
             lambda: fa4_cute.sdpa(Q[0, 0], K[0, 0], V[0, 0])),
    "mask's shape": (ValueError, r"attn_mask: shape \(3, 24\) does not broadcast",
                     lambda: fa4_cute.sdpa(Q, Q, Q, torch.ones(3, 24, dtype=torch.bool))),
    "mask's type": (TypeError, r"attn_mask.dtype=torch.int64.*attn_mask.bool",
                    lambda: fa4_cute.sdpa(Q, Q, Q, torch.ones(24, 24, dtype=torch.int64))),
    "flag": (TypeError, "is_causal=1: expected True or False",
             lambda: fa4_cute.sdpa(Q, Q, Q, is_causal=1)),  # type: ignore[arg-type]  # refused
    "nested": (NotImplementedError, "query: a nested tensor",
               lambda: fa4_cute.sdpa(*[torch.nested.nested_tensor([Q[0]])] * 3)),
    "no mask": (TypeError, "attn_mask: expected a torch.Tensor",
                lambda: fa4_cute.sdpa(Q, Q, Q, "causal")),
    "no tensor": (TypeError, "value: expected a torch.Tensor",
                  lambda: fa4_cute.sdpa(Q, Q, None)),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_in_words(what: str) -> None:
    kind, words, call = REFUSED[what]
    with pytest.raises(kind, match=words):
        call()

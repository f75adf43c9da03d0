"""Joining partial results is attention over all keys, also where rows or parts are empty."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.distributed.partial import Partial

ROWS, HEADS, WIDTH = 5, 3, 4


def attention(scores: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """O (rows, heads, width) and LSE (heads, rows) of scores (heads, rows, keys), in float64."""
    lse = torch.logsumexp(scores, -1)
    p = torch.softmax(scores, -1).nan_to_num(0.0) if scores.shape[-1] else scores
    return torch.einsum("hrk,khd->rhd", p, v), lse


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 2**31), st.booleans())
def test_parts_join_to_the_whole(parts: list[int], seed: int, with_sink: bool) -> None:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(HEADS, ROWS, sum(parts), generator=random, dtype=torch.float64) * 20
    hidden = torch.rand(scores.shape, generator=random) < 0.5
    scores.masked_fill_(hidden, -torch.inf)
    v = torch.randn(sum(parts), HEADS, WIDTH, generator=random, dtype=torch.float64)
    total = Partial(torch.zeros(ROWS, HEADS, WIDTH), WIDTH)
    for part_scores, part_v in zip(scores.split(parts, -1), v.split(parts), strict=True):
        out, lse = attention(part_scores, part_v)
        total.add(slice(0, ROWS), out.float(), lse.float())
    sink = torch.tensor([1.0, -torch.inf, -3.0]) if with_sink else None
    out, lse = total.finished(sink, torch.float32)
    if sink is not None:
        extra = sink.double()[:, None, None].expand(HEADS, ROWS, 1)
        scores, v = torch.cat((scores, extra), -1), torch.cat((v, torch.zeros(1, HEADS, WIDTH)))
    exact, exact_lse = attention(scores, v)
    torch.testing.assert_close(out.double(), exact, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-6, atol=1e-5)


def test_a_first_part_stays_as_it_is_to_the_bit() -> None:
    out, lse = torch.randn(1, ROWS, HEADS, WIDTH).bfloat16(), torch.randn(1, HEADS, ROWS) * 100
    total = Partial(torch.zeros(1, ROWS, HEADS, 8), WIDTH)
    total.add(slice(0, ROWS), out, lse)
    total.add(slice(1, 3), torch.zeros(1, 2, HEADS, WIDTH), torch.full((1, HEADS, 2), -torch.inf))
    found, found_lse = total.finished(None, torch.bfloat16)
    assert torch.equal(found, out)
    assert torch.equal(found_lse, lse)


@pytest.mark.parametrize("rows", [slice(1, 4), torch.tensor([3, 0, 4])])
def test_rows_that_are_not_named_are_not_touched(rows: slice | torch.Tensor) -> None:
    total = Partial(torch.zeros(ROWS, HEADS, 8), WIDTH)
    first = torch.ones(ROWS, HEADS, WIDTH), torch.zeros(HEADS, ROWS)
    total.add(slice(0, ROWS), *first)
    total.add(rows, torch.full((3, HEADS, WIDTH), 3.0), torch.zeros(HEADS, 3))
    out, lse = total.finished(None, torch.float32)
    named = torch.zeros(ROWS, dtype=torch.bool)
    named[rows] = True
    torch.testing.assert_close(out[named], torch.full((3, HEADS, WIDTH), 2.0))
    assert torch.equal(out[~named], first[0][~named])
    torch.testing.assert_close(lse[:, named], torch.full((HEADS, 3), 2.0).log())
    assert torch.equal(lse[:, ~named], first[1][:, ~named])


def test_rows_that_see_nothing_are_zero_and_never_nan() -> None:
    total = Partial(torch.zeros(ROWS, HEADS, 8), WIDTH)
    out, lse = total.finished(None, torch.bfloat16)
    assert torch.equal(out, torch.zeros_like(out))
    assert torch.equal(lse, torch.full((HEADS, ROWS), -torch.inf))
    out, lse = total.finished(torch.tensor([1.0, -torch.inf, 2.0]), torch.bfloat16)
    assert torch.equal(out, torch.zeros_like(out))
    assert lse[:, 0].tolist() == [1.0, -torch.inf, 2.0]

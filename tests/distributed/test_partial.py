"""Joining partial results is attention over all keys, also where rows or parts are empty."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.distributed import partial
from fa4_cute.distributed.partial import Partial
from fa4_cute.host.run import combine
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.ranks.places import Place
from fa4_cute.plan.spec.combine_spec import CALLS_ABREAST

pytestmark = pytest.mark.slow  # They compile the kernel that combines.

ROWS, HEADS, WIDTH = 5, 3, 8
Q = torch.zeros(ROWS, HEADS, WIDTH).bfloat16()
ALL = slice(0, ROWS)


def attention(scores: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """O (rows, heads, width) and LSE (heads, rows) of scores (heads, rows, keys), in float64."""
    lse = torch.logsumexp(scores, -1)
    p = torch.softmax(scores, -1).nan_to_num(0.0) if scores.shape[-1] else scores
    return torch.einsum("hrk,khd->rhd", p, v), lse


def kept(total: Partial, place: Place, rows: slice | torch.Tensor, out: torch.Tensor,
         lse: torch.Tensor) -> None:  # fmt: skip
    """Keep a result as a call does that writes where it may."""
    room = total.room(place, rows)
    if room is not None:
        out = room.copy_(out)
    total.add(place, rows, out, lse)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 2**31), st.booleans())
def test_parts_join_to_the_whole(parts: list[int], seed: int, with_sink: bool) -> None:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(HEADS, ROWS, sum(parts), generator=random, dtype=torch.float64) * 20
    hidden = torch.rand(scores.shape, generator=random) < 0.5
    scores.masked_fill_(hidden, -torch.inf)
    v = torch.randn(sum(parts), HEADS, WIDTH, generator=random, dtype=torch.float64)
    sink = torch.tensor([1.0, -torch.inf, -3.0]) if with_sink else None
    total = Partial(Q, WIDTH, len(parts), sink)
    each = zip(scores.split(parts, -1), v.split(parts), strict=True)
    for number, (part_scores, part_v) in enumerate(each):
        out, lse = attention(part_scores, part_v)
        kept(total, Place(number), ALL, out.bfloat16(), lse.float())
    out, lse = total.finished()
    if sink is not None:
        extra = sink.double()[:, None, None].expand(HEADS, ROWS, 1)
        scores, v = torch.cat((scores, extra), -1), torch.cat((v, torch.zeros(1, HEADS, WIDTH)))
    exact, exact_lse = attention(scores, v)
    torch.testing.assert_close(out.double(), exact, rtol=2**-7, atol=2**-8)
    torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-6, atol=1e-5)


def test_a_first_part_stays_as_it_is_to_the_bit() -> None:
    out, lse = torch.randn(1, ROWS, HEADS, WIDTH).bfloat16(), torch.randn(1, HEADS, ROWS) * 100
    total = Partial(Q[None], WIDTH, 2)
    kept(total, Place(0), ALL, out, lse)
    nothing = torch.full((1, 2, HEADS, WIDTH), torch.nan).bfloat16()
    kept(total, Place(1), slice(1, 3), nothing, torch.full((1, HEADS, 2), -torch.inf))
    found, found_lse = total.finished()
    assert torch.equal(found, out)
    assert torch.equal(found_lse, lse)


@pytest.mark.parametrize("rows", [slice(1, 4), torch.tensor([3, 0, 4])])
def test_rows_that_are_not_named_are_not_touched(rows: slice | torch.Tensor) -> None:
    total = Partial(Q, WIDTH, 2)
    first = torch.ones(ROWS, HEADS, WIDTH).bfloat16(), torch.zeros(HEADS, ROWS)
    kept(total, Place(0), ALL, *first)
    total.out[1] = torch.nan
    second = torch.full((3, HEADS, WIDTH), 3.0).bfloat16(), torch.zeros(HEADS, 3)
    kept(total, Place(1), rows, *second)
    out, lse = total.finished()
    named = torch.zeros(ROWS, dtype=torch.bool)
    named[rows] = True
    assert torch.equal(out[named], torch.full_like(out[named], 2.0))
    assert torch.equal(out[~named], first[0][~named])
    torch.testing.assert_close(lse[:, named], torch.full((HEADS, 3), 2.0).log())
    assert torch.equal(lse[:, ~named], first[1][:, ~named])


def test_rows_that_see_nothing_are_zero_and_never_nan() -> None:
    total = Partial(Q, WIDTH, 1)
    total.out.fill_(torch.nan)
    out, lse = total.finished()
    assert torch.equal(out, torch.zeros_like(out))
    assert torch.equal(lse, torch.full((HEADS, ROWS), -torch.inf))
    total = Partial(Q, WIDTH, 0, torch.tensor([1.0, -torch.inf, 2.0]))
    out, lse = total.finished()
    assert torch.equal(out, torch.zeros_like(out))
    assert lse[:, 0].tolist() == [1.0, -torch.inf, 2.0]


def test_chunks_of_one_place_are_never_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "combined", None)
    total = Partial(Q, WIDTH, 1)
    out, lse = torch.randn(ROWS, HEADS, WIDTH).bfloat16(), torch.randn(HEADS, ROWS)
    for rows in (slice(3, ROWS), slice(0, 3)):
        kept(total, Place(0), rows, out[rows], lse[:, rows])
    found, found_lse = total.finished()
    assert torch.equal(found, out)
    assert torch.equal(found_lse, lse)


def test_hopper_joins_more_parts_than_it_loads_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combine, "arch_for", lambda *_: SM90A)
    parts = CALLS_ABREAST + 2
    total = Partial(Q, WIDTH, parts)
    total.out.fill_(torch.nan)
    for number in range(1, parts):
        value = torch.full((3, HEADS, WIDTH), float(number)).bfloat16()
        kept(total, Place(number), slice(1, 4), value, torch.zeros(HEADS, 3))
    out, lse = total.finished()
    mean = torch.full((3, HEADS, WIDTH), sum(range(1, parts)) / (parts - 1))
    torch.testing.assert_close(out[1:4].float(), mean, rtol=2**-8, atol=0.0)
    assert not out[[0, 4]].any()
    torch.testing.assert_close(lse[:, 1:4], torch.full((HEADS, 3), float(parts - 1)).log())
    assert torch.equal(lse[:, [0, 4]], torch.full((HEADS, 2), -torch.inf))


def test_folding_frees_all_places_but_the_first_and_the_sink() -> None:
    equal, lse = torch.ones(ROWS, HEADS, WIDTH).bfloat16(), torch.zeros(HEADS, ROWS)
    total = Partial(Q, WIDTH, 2, torch.zeros(HEADS))
    for place in (Place(0), Place(1), Place(1, folds=True), Place(1, folds=True)):
        kept(total, place, ALL, equal, lse)
    out, lse = total.finished()
    # Four keys of the value 1 and a sink of the same weight.
    torch.testing.assert_close(out.float(), torch.full(out.shape, 0.8), rtol=2**-8, atol=0.0)
    torch.testing.assert_close(lse, torch.full((HEADS, ROWS), 5.0).log())

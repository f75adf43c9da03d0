"""Ranks go on with the same plan, or all of them raise the same sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.distributed.agree import Description, agreed, plan_of
from fa4_cute.distributed.members import Members
from fa4_cute.plan.ranks.band import CAUSAL
from fa4_cute.plan.ranks.shards import Layout, Shards
from fa4_cute.plan.ranks.steps import ContextPlan

FITTING = [Description(rows=(rows, 2 * rows), band=CAUSAL) for rows in (3, 3)]
PLAN = ContextPlan(Shards((6,), 2, Layout.ZIGZAG), Shards((12,), 2, Layout.ZIGZAG), CAUSAL)


class Group:
    """Stands for a process group of two ranks, the other of which has ``other`` to say."""

    def __init__(self, other: Description) -> None:
        self.other = other
        self.said: list[Description] = []


class TwoMembers(Members):
    """This process is rank 0 of two."""

    def gathered(self, value: Any) -> list[Any]:
        self.group.said.append(value)
        return [value, self.group.other]


def members(other: Description = FITTING[1]) -> TwoMembers:
    return TwoMembers(Group(other), 0, 2)


def test_lengths_follow_from_the_rows_of_all_ranks() -> None:
    assert plan_of(FITTING) == PLAN


def test_ragged_lengths_are_given() -> None:
    lengths = (5, 3), (8, 2)
    held = [Description(rows=rows, lengths=lengths) for rows in ((3, 5), (5, 5))]
    with pytest.raises(ValueError, match=r"q: rank 0 holds 3 rows, and its share of 8 rows"):
        plan_of(held)
    shards = [Shards(each, 2, Layout.ZIGZAG) for each in lengths]
    of_q, of_k = shards
    held = [replace(held[0], rows=(of_q.rows(rank), of_k.rows(rank))) for rank in range(2)]
    assert plan_of(held).keys == shards[1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"layout": Layout.CONTIGUOUS}, r"layout: 'zigzag' on rank 0, and 'contiguous' on rank 1"),
        ({"settings": (("softmax_scale", 2.0),)}, r"softmax_scale: None .*, and 2.0 on rank 1"),
        ({"lengths": ((6,), (12,))}, r"lengths in cu_seqlens_q: None .*, and \(6,\) on rank 1"),
        ({"rows": (3, 5)}, r"k: rank 0 holds 6 rows, and its share of 11 .*'zigzag' is 5; nearest"),
    ],
)
def test_what_differs_is_named(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        plan_of([FITTING[0], replace(FITTING[1], **change)])


@pytest.mark.parametrize("kind", [TypeError, ValueError, NotImplementedError, RuntimeError])
def test_another_rank_s_refusal_keeps_its_kind(kind: type[Exception]) -> None:
    refused = Description(refusal=(kind.__name__, "k: wrong"))
    with pytest.raises(kind, match="rank 1 of the group refused its call: k: wrong") as caught:
        agreed(lambda: FITTING[0], members(refused), unchecked=False)
    assert type(caught.value) is kind


def test_an_own_error_is_told_and_raised_as_it_is() -> None:
    own = KeyError("q")

    def describe() -> Description:
        raise own

    us = members()
    with pytest.raises(KeyError) as caught:
        agreed(describe, us, unchecked=False)
    assert caught.value is own
    assert us.group.said == [Description(refusal=("RuntimeError", "'q'"))]


def test_only_unchecked_calls_ask_once() -> None:
    us = members()
    for _ in range(3):
        assert agreed(lambda: FITTING[0], us, unchecked=True) == PLAN
    assert len(us.group.said) == 1
    agreed(lambda: FITTING[0], us, unchecked=False)
    assert len(us.group.said) == 2
    with pytest.raises(ValueError, match="k: rank 0 holds 8"):
        agreed(lambda: replace(FITTING[0], rows=(3, 8)), us, unchecked=True)
    with pytest.raises(ZeroDivisionError):
        agreed(lambda: Description(rows=(1 // 0, 0)), us, unchecked=True)
    assert len(us.group.said) == 3


def test_groups_do_not_share_what_they_agreed_on() -> None:
    first, second = members(), members(replace(FITTING[1], rows=(9, 6)))
    agreed(lambda: FITTING[0], first, unchecked=True)
    with pytest.raises(ValueError, match="its share of 12 rows"):
        agreed(lambda: FITTING[0], second, unchecked=True)

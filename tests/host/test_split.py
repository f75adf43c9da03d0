"""``split=``: what is asked for, what the rules choose, and what is refused in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.ask.arguments import Options
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.plan.spec.variant import Partition

SIZES: dict[str, Any] = {"head_dim": 128, "heads_q": 8, "heads_k": 2, "seqlen_k": 9000}


def chosen(**options: Any) -> Choice:
    q = torch.empty(1, 5, 8, 128, dtype=torch.bfloat16)
    kv = torch.empty(1, 900, 2, 128, dtype=torch.bfloat16)
    found = choose(request((q, kv, kv), Options(**options)).problem)
    assert isinstance(found, Choice)
    return found


@pytest.mark.parametrize("size", range(2, 9))
def test_a_cluster_on_request(size: int) -> None:
    found = chosen(num_splits=size, split="cluster")
    assert found.spec.variant.in_cluster
    assert found.spec.cluster_size == size
    assert found.split is not None
    assert found.split.reason == "as asked for"
    text = fa4_cute.explain(**SIZES, num_splits=size, split="cluster")
    assert f"keys split in {size}, joined in a cluster: as asked for" in text
    assert f"grid ({size}, 2, 1) x block (512, 1, 1), cluster ({size}, 1, 1)" in text
    assert f"cluster{size}" in text


def test_the_rules_choose_where_nothing_is_asked() -> None:
    two, three = chosen(num_splits=2), chosen(num_splits=3)
    assert two.spec.variant.partition is Partition.CLUSTER
    # Twenty rows: five queries of four heads.
    assert three.spec.variant.partition is Partition.WORKSPACE
    assert chosen(num_splits=2, num_qo=2).spec.variant.partition is Partition.WORKSPACE
    asked = chosen(num_splits=2, split="workspace")
    assert asked.spec.variant.partition is Partition.WORKSPACE
    assert "clusters of 2 fill 148 SMs" in fa4_cute.explain(**SIZES, num_splits=2)
    assert "a second kernel weighs" in fa4_cute.explain(**SIZES, seqlen_q=5, num_splits=3)


def test_the_last_cta_joins_few_rows() -> None:
    few = {**SIZES, "seqlen_q": 4, "num_splits": 3}
    assert "joined by the last CTA: 16 rows a CTA" in fa4_cute.explain(**few)
    assert "the last CTA of a query tile weighs" in fa4_cute.explain(**few)
    assert "in a workspace" in fa4_cute.explain(**few, split="workspace")
    asked = fa4_cute.explain(**SIZES, seqlen_q=100, num_splits=3, split="last")
    assert "joined by the last CTA: as asked for" in asked


def test_the_rules_do_not_look_at_the_batch() -> None:
    for batch in (1, 9):
        text = fa4_cute.explain(**SIZES, batch=batch, num_splits=2, num_qo=1)
        assert "joined in a cluster" in text


def test_a_single_split_is_none() -> None:
    q = torch.empty(1, 5, 8, 128, dtype=torch.bfloat16)
    options = Options(num_splits=1, split="cluster")
    assert request((q, q, q), options).problem.features == Features(num_splits=1)
    assert chosen(num_splits=1, split="cluster").split is None
    assert "keys split" not in fa4_cute.explain(**SIZES, num_splits=1, split="cluster")


def test_a_kernel_that_was_chosen_says_how_the_problem_is_split() -> None:
    q = torch.empty(1, 5, 8, 128, dtype=torch.bfloat16)
    problem = request((q, q, q), Options(num_splits=2)).problem
    found = choose(problem)
    assert isinstance(found, Choice)
    settled = problem.with_partition(found.spec.variant.partition)
    assert settled.variant == found.spec.variant
    assert settled.with_partition(settled.variant.partition) is settled
    plain = request((q, q, q), Options()).problem
    assert plain.with_partition(Partition.NONE) is plain


@pytest.mark.parametrize(
    ("options", "error", "pattern"),
    [
        ({"split": "cluster"}, TypeError, r"split='cluster'.*choice: num_splits=2 with it"),
        ({"split": "both", "num_splits": 2}, ValueError, r"'both'.*: .* or cluster or last$"),
        ({"split": "none", "num_splits": 2}, ValueError, r"split='none'"),
        ({"split": 3, "num_splits": 2}, TypeError, r"=3: expected one of workspace, cluster, last"),
        (
            {"split": "cluster", "num_splits": 9},
            ValueError,
            r"num_splits=9, split='cluster'.*8 CTAs.*choice: num_splits=8, or split='workspace'$",
        ),
        (
            {"split": "cluster", "num_splits": 2, "num_qo": 2},
            NotImplementedError,
            r"num_qo=2: the CTAs of a cluster share .* a single Q tile.*choice: num_qo=1$",
        ),
        (
            {"split": "last", "num_splits": 2, "num_qo": 2},
            NotImplementedError,
            r"num_qo=2: the last CTA joins .* a single Q tile.*choice: num_qo=1$",
        ),
        (
            {"split": "last", "num_splits": 2, "scheduler": "dynamic"},
            ValueError,
            r"scheduler='dynamic': the last CTA.*choice: split='workspace', or scheduler='tile'$",
        ),
        (
            {"split": "last", "num_splits": 257},
            ValueError,
            r"num_splits=257: at most 256",
        ),
        (
            {"split": "cluster", "num_splits": 2, "scheduler": "persistent"},
            ValueError,
            r"scheduler='persistent'.*choice: split='workspace', or scheduler='tile'$",
        ),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], pattern: str) -> None:
    q = torch.zeros(1, 5, 2, 64, dtype=torch.bfloat16)
    with pytest.raises(error, match=pattern):
        fa4_cute.flash_attn(q, q, q, **options)
    assert not fa4_cute.can_implement(q, q, q, **options)


def test_the_kernel_of_larger_head_dimensions_has_none() -> None:
    q = torch.zeros(1, 5, 2, 256, dtype=torch.bfloat16)
    with pytest.raises(NotImplementedError, match=r"split: .*head_dim=256.*: split='workspace'$"):
        fa4_cute.flash_attn(q, q, q, num_splits=2, split="cluster")
    assert fa4_cute.can_implement(q, q, q, num_splits=2)
    with pytest.raises(NotImplementedError, match=r"split='last': .*head_dim=256.*'workspace'$"):
        fa4_cute.flash_attn(q, q, q, num_splits=2, split="last")
    support = fa4_cute.can_implement(head_dim=256, num_splits=2, split="cluster")
    assert support.nearest == "split='workspace'"


def test_questions_without_tensors_refuse_the_same() -> None:
    assert not fa4_cute.can_implement(**SIZES, num_splits=3, split="warp")
    with pytest.raises(TypeError, match="num_splits=2 with it"):
        fa4_cute.can_implement(**SIZES, split="cluster")
    pair = fa4_cute.can_implement(**SIZES, num_splits=2, split="cluster", pair_cta=True)
    assert not pair
    assert "pair_cta=False" in str(pair.nearest)

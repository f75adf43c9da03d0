"""Every wrong feature argument is refused with its name, its value and the nearest choice."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.run.operands import describe_call
from fa4_cute.plan.masks.masks import CAUSAL, NULL, SlidingWindowMask
from fa4_cute.plan.spec.variant import Scheduler
from tests.host.request_cases import (
    DIM,
    HEADS,
    KEYS,
    PAGE,
    QUERIES,
    asked,
    dense,
    half,
    ints,
    paged,
    refused,
    varlen,
)


def test_features_of_plain_calls_are_plain() -> None:
    problem = asked(**dense(), causal=True).problem
    assert problem == Problem.from_tensors(**dense(), causal=True)
    assert problem.features == Features()
    assert problem.variant.mask == CAUSAL


@pytest.mark.parametrize(
    ("window", "causal", "mask"),
    [
        (None, False, NULL),
        ((None, None), False, NULL),
        ((-1, -1), True, CAUSAL),
        ((3, -1), False, SlidingWindowMask(3, None)),
        ((3, 7), True, SlidingWindowMask(3, 0)),
        ((None, 0), True, CAUSAL),
        ((0, 0), False, SlidingWindowMask(0, 0)),
    ],
)
def test_windows(window: Any, causal: bool, mask: Any) -> None:
    assert asked(**dense(), window_size=window, causal=causal).problem.variant.mask == mask


def test_short_forms_and_masks_meet() -> None:
    """Of five queries none sees a key that a right side of 4 would hide."""
    problem = asked(**dense(), mask=masks.chunked(8), window_size=(4, 4), causal=True).problem
    assert problem.variant.mask.name == "chunked_8_and_window_4_n_and_causal"
    assert asked(**dense(), mask=masks.causal(), causal=True).problem.variant.mask == CAUSAL


@pytest.mark.parametrize(
    ("window", "error", "words"),
    [
        ((-2, 0), ValueError, "-1 or more; nearest supported choice: left -1, for no limit"),
        ((0, -2), ValueError, "window_size right=-2"),
        (3, TypeError, "window_size=3: expected (left, right)"),
        ((1, 2, 3), TypeError, "window_size=(1, 2, 3)"),
        ("ab", TypeError, "window_size='ab'"),
        ((1.0, 0), TypeError, "window_size left=1.0: expected an integer, got float"),
    ],
)
def test_wrong_windows(window: Any, error: type[Exception], words: str) -> None:
    refused(dense(), error, words, window_size=window)


def test_shapes_of_ragged_calls() -> None:
    problem = asked(**varlen(), return_lse=True).problem
    assert (problem.batch, problem.seqlen_q, problem.seqlen_k) == (2, 5, 30)
    assert problem.features == Features(ragged_q=True, ragged_k=True)
    longer = asked(**varlen(), max_seqlen_q=9, max_seqlen_k=77).problem
    assert (longer.seqlen_q, longer.seqlen_k) == (9, 77)
    cached = asked(**{**varlen(), **{n: dense()[n] for n in "kv"}, "cu_seqlens_k": None}).problem
    assert (cached.batch, cached.seqlen_k, cached.features.ragged_k) == (2, KEYS, False)


def test_shapes_of_paged_calls() -> None:
    problem = asked(**paged()).problem
    assert (problem.batch, problem.seqlen_q, problem.seqlen_k) == (2, QUERIES, 3 * PAGE)
    assert problem.features == Features(used_k=True, page_size=PAGE)
    ragged = asked(**{**paged(), "q": half(7, HEADS, DIM), "cu_seqlens_q": ints(0, 6, 7)}).problem
    assert (ragged.seqlen_q, ragged.features.ragged_q) == (6, True)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (torch.zeros(3), ValueError, "sink: 3 weights for the 4 heads of q"),
        (torch.zeros(1, 4), ValueError, "(num_q_heads)"),
        (torch.zeros(4, dtype=torch.complex64), TypeError, "sink.dtype=torch.complex64"),
        (torch.zeros(4, dtype=torch.bool), TypeError, "sink.dtype=torch.bool"),
        (torch.tensor([0.0, math.nan, 0, 0]), ValueError, "sink[1]=nan"),
        (torch.tensor([0.0, 0, math.inf, 0]), ValueError, "sink[2]=inf"),
        (torch.zeros(4, requires_grad=True), NotImplementedError, "sink.requires_grad"),
        (torch.zeros(4).to("meta"), ValueError, "sink.device=meta"),
        ([0.0] * 4, TypeError, "sink: expected a torch.Tensor, got list"),
    ],
)
def test_wrong_sinks(value: Any, error: type[Exception], words: str) -> None:
    refused(dense(), error, words, sink=value)


def test_sinks_become_float32() -> None:
    sink = torch.tensor([0.5, -math.inf, 2, 3], dtype=torch.bfloat16)
    found = asked(**dense(), sink=sink).tensors.sink
    assert found.dtype == torch.float32
    assert found.tolist() == sink.tolist()


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 4, QUERIES, 39), ("bias: seqlen_k=39", "choice: 40")),
        ((2, 4, QUERIES, 1), ("bias: seqlen_k=1",)),
        ((2, 3, QUERIES, KEYS), ("bias: num_q_heads=3", "choice: 4 or 1")),
        ((3, 4, QUERIES, KEYS), ("bias: batch=3", "choice: 2 or 1")),
        ((2, 4, 4, KEYS), ("bias: seqlen_q=4", "choice: 5 or 1")),
        ((4, QUERIES, KEYS), ("(batch, num_q_heads, seqlen_q, seqlen_k)",)),
    ],
)
def test_wrong_biases(shape: tuple[int, ...], words: tuple[str, ...]) -> None:
    refused(dense(), ValueError, *words, mask=masks.bias(torch.zeros(shape)))


def test_boolean_masks_are_shown_how() -> None:
    mask = masks.bias(torch.ones(1, 1, QUERIES, KEYS, dtype=torch.bool))
    refused(dense(), TypeError, "bias.dtype=torch.bool", "masks.dense", mask=mask)


def test_wrong_padding() -> None:
    refused(
        dense(), ValueError, "padding lengths: 3 lengths for 2", mask=masks.padding(ints(1, 2, 3))
    )
    refused(dense(), ValueError, "padding lengths[0]=-1", mask=masks.padding(ints(-1, 2)))
    refused(dense(), TypeError, "expected int32", mask=masks.padding(ints(1, 2).float()))


def test_modifiers_that_do_not_fit() -> None:
    slopes = torch.zeros(HEADS)
    refused(dense(), ValueError, "no score_mod reads them", aux_tensors=(slopes,))
    refused(dense(), TypeError, "aux_tensors=torch.Tensor: expected a tuple", aux_tensors=slopes)
    refused(dense(), ValueError, "brings its own", aux_tensors=(slopes,),
            score_mod=score_mods.alibi(slopes))  # fmt: skip
    refused(dense(), ValueError, "alibi slopes: shape (3,) for 4 query heads", "choice: (4,)",
            score_mod=score_mods.alibi(torch.zeros(3)))  # fmt: skip
    refused(dense(), ValueError, "alibi slopes: shape (1, 4)", "choice: (2, 4)",
            score_mod=score_mods.alibi(torch.zeros(1, 4)))  # fmt: skip
    refused(dense(), TypeError, "score_mod=1", score_mod=1)
    refused(dense(), ValueError, "softcap=-1.0", softcap=-1.0)


def test_softcap_comes_last_and_zero_means_none() -> None:
    mod = asked(**dense(), score_mod=score_mods.alibi(torch.zeros(4)), softcap=2.0).problem
    assert mod.variant.score_mod is not None
    assert mod.variant.score_mod.name == "alibi_softcap_2_0"
    assert asked(**dense(), softcap=0.0).problem.features == Features()


def test_alibi_brings_its_slopes_alone() -> None:
    slopes = torch.zeros(HEADS)
    (aux,) = asked(**varlen(), score_mod=score_mods.alibi(slopes)).tensors.aux
    assert aux is slopes


@pytest.mark.parametrize(
    ("option", "error", "words"),
    [
        ({"num_splits": 0}, ValueError, "1 or more; nearest supported choice: num_splits=1"),
        ({"num_splits": 1.5}, TypeError, "num_splits=1.5"),
        ({"scheduler": "fast"}, ValueError, "scheduler='fast': nearest supported choice: tile or"),
        ({"scheduler": 3}, TypeError, "scheduler=3"),
    ],
)
def test_wrong_choices(option: dict[str, Any], error: type[Exception], words: str) -> None:
    refused(dense(), error, words, **option)


def test_choices() -> None:
    assert asked(**dense(), scheduler="tile").problem.features == Features(
        scheduler=Scheduler.TILE
    )
    assert asked(**dense()).problem.features.num_splits is None
    assert asked(**dense(), num_splits=1).problem.features == Features(num_splits=1)
    features = asked(**dense(), num_splits=3, scheduler="persistent").problem.features
    assert features == Features(num_splits=3, scheduler=Scheduler.PERSISTENT)


def test_every_parameter_gets_its_value() -> None:
    bias = torch.zeros(1, HEADS, 1, 48)
    table = torch.zeros(2, 3)
    mask = masks.bias(bias) & masks.padding(ints(1, 2))
    found = asked(
        **{**paged(), "q": half(7, HEADS, DIM), "cu_seqlens_q": ints(0, 6, 7)},
        mask=mask, sink=torch.zeros(HEADS), score_mod=lambda s, b, h, i, j, aux: s, causal=True,
        aux_tensors=(table.t(),), return_lse=True,
    )  # fmt: skip
    call = describe_call(found.problem, found.inputs, found.tensors)
    extras = dict(call.described.extras)
    assert tuple(extras) == found.problem.variant.extra_names
    assert (extras["o"], extras["total_q"]) == (call.out.data_ptr(), 7)
    assert extras["pages_per_row"] == 3
    assert [extras[f"bias0_{axis}"] for axis in ("batch", "head", "query")] == [0, 48 * 4, 0]
    assert [extras[f"aux0_stride{axis}"] for axis in range(2)] == [4, 3 * 4]
    assert call.described.o.layout.shape == (1, 7, HEADS, DIM)
    assert call.lse.shape == (HEADS, 7)
    assert call.described.sizes.seqlen_k == 3 * PAGE
    known = {buffer.address for buffer in call.host_buffers()}
    addresses = ("cu_seqlens_q", "seqused_k", "page_table", "sink", "padding0", "bias0", "aux0")
    assert known >= {extras[name] for name in addresses}


def test_questions_and_calls_agree() -> None:
    support = fa4_cute.can_implement(**{**paged(), "page_table": ints([9, 9], [9, 9])})
    assert not support
    assert "page_table" in support.reason
    assert fa4_cute.can_implement(**varlen(), causal=True, softcap=3.0)
    assert fa4_cute.can_implement(head_dim=64, page_size=64, ragged_q=True, sink=True)
    assert not fa4_cute.can_implement(head_dim=64, page_size=20)
    with pytest.raises(TypeError, match="dropout"):
        fa4_cute.can_implement(head_dim=64, dropout=0.1)
    text = fa4_cute.explain(head_dim=64, page_size=64, softcap=30.0)
    assert "scores are scaled before the softmax" in text
    assert "the last tile's values are cleaned" in text
    assert "page_table, pages_per_row" in text


def test_too_many_intervals() -> None:
    mask = masks.chunked(1)
    for size in range(2, 11):
        mask = mask | masks.chunked(size)
    support = fa4_cute.can_implement(head_dim=64, mask=mask)
    assert not support
    assert "a union of 10 intervals" in support.reason
    assert support.nearest == "at most 8"

"""Every wrong feature argument is refused with its name, its value and the nearest choice."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.host.features import Features
from fa4_cute.host.operands import describe_call
from fa4_cute.host.problem import Problem
from fa4_cute.host.questions import _arguments
from fa4_cute.host.request import Request, request
from fa4_cute.host.support import Choice, choose
from fa4_cute.plan.masks import CAUSAL, NULL, SlidingWindowMask
from fa4_cute.plan.variant import Scheduler

BATCH, HEADS, DIM = 2, 4, 64
QUERIES, KEYS, PAGE = 5, 40, 16


def ints(*values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def half(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def dense() -> dict[str, Any]:
    kv = half(BATCH, KEYS, 2, DIM)
    return {"q": half(BATCH, QUERIES, HEADS, DIM), "k": kv, "v": kv}


def varlen() -> dict[str, Any]:
    kv = half(50, 2, DIM)
    offsets = {"cu_seqlens_q": ints(0, 3, 8), "cu_seqlens_k": ints(0, 20, 50)}
    return {"q": half(8, HEADS, DIM), "k": kv, "v": kv, **offsets}


def paged() -> dict[str, Any]:
    kv = half(6, PAGE, 2, DIM)
    table = {"page_table": ints([0, 5, -7], [2, 99, 99]), "seqused_k": ints(32, 16)}
    return {"q": half(BATCH, QUERIES, HEADS, DIM), "k": kv, "v": kv, **table}


def asked(**arguments: Any) -> Request:
    q, k, v = (arguments.pop(name) for name in "qkv")
    return request((q, k, v), *_arguments(arguments))


def refused(call: dict[str, Any], error: type[Exception], *words: str, **changes: Any) -> None:
    with pytest.raises(error) as caught:
        asked(**{**call, **changes})
    for word in words:
        assert word in str(caught.value)


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
    problem = asked(**dense(), mask=masks.chunked(8), window_size=(4, 4), causal=True).problem
    assert problem.variant.mask.name == "chunked_8_and_window_4_4_and_causal"
    assert asked(**dense(), mask=masks.causal(), causal=True).problem.variant.mask == CAUSAL


@pytest.mark.parametrize(
    ("window", "error", "words"),
    [
        ((-2, 0), ValueError, "window_size left=-2: must be -1 or more"),
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


@pytest.mark.parametrize("name", ["cu_seqlens_q", "cu_seqlens_k"])
@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([0, 3, 8], TypeError, ": expected a torch.Tensor, got list"),
        (ints(0, 3, 8).float(), TypeError, ".dtype=torch.float32: expected int32"),
        (ints(0, 3, 8).reshape(3, 1), ValueError, "(batch + 1)"),
        (ints(0, 5, 3), ValueError, "[2]=3: less than"),
        (ints(1, 3, 8), ValueError, "[0]=1: must be 0"),
        (ints(0, 3, 80), ValueError, "[-1]=80: must be"),
        (ints(), ValueError, ": empty; expected batch + 1 offsets"),
        (ints(0, 3, 2**40, dtype=torch.int64), ValueError, "32-bit"),
        (ints(0, 3, 8).to("meta"), ValueError, ".device=meta differs from q.device=cpu"),
    ],
)
def test_wrong_offsets(name: str, value: Any, error: type[Exception], words: str) -> None:
    refused(varlen(), error, name, words, **{name: value})


def test_offsets_that_do_not_fit_together() -> None:
    refused(varlen(), ValueError, "cu_seqlens_q[-1]=7: must be 8", cu_seqlens_q=ints(0, 3, 7))
    refused(varlen(), ValueError, "cu_seqlens_k: 3 sequences", cu_seqlens_k=ints(0, 2, 30, 50))
    refused(varlen(), ValueError, "sequence 1 has 5 rows", "choice: 5", max_seqlen_q=4)
    refused(varlen(), ValueError, "sequence 1 has 30 rows", max_seqlen_k=29)
    refused(varlen(), TypeError, "max_seqlen_q=5.0: expected an integer", max_seqlen_q=5.0)
    refused(varlen(), TypeError, "max_seqlen_q=True", max_seqlen_q=True)
    refused(varlen(), ValueError, "q: shape", "(total, heads, head_dim)", q=half(1, 8, 4, 64))
    refused(varlen(), ValueError, "v: total=49", v=half(49, 2, DIM))


def test_keys_may_be_fewer_than_rows() -> None:
    assert asked(**{**varlen(), "cu_seqlens_k": ints(0, 20, 41)}).problem.seqlen_k == 21


@pytest.mark.parametrize(
    ("call", "value", "words"),
    [
        (dense, ints(1), ("seqused_k: 1 lengths for 2 sequences", "expected (2,)")),
        (dense, ints(1, KEYS + 1), ("seqused_k[1]=41: exceeds the 40 keys of the sequence",)),
        (dense, ints(-1, 3), ("seqused_k[0]=-1: must be 0 or more",)),
        (varlen, ints(21, 3), ("seqused_k[0]=21: exceeds the 20",)),
        (paged, ints(3 * PAGE + 1, 3), ("exceeds the 48 keys of the row's pages",)),
    ],
)
def test_wrong_cache_lengths(call: Any, value: torch.Tensor, words: tuple[str, ...]) -> None:
    refused(call(), ValueError, *words, seqused_k=value)


def test_wrong_pages() -> None:
    refused(paged(), ValueError, "page_table[0, 2]=-7: pages are numbered from 0 to 5",
            seqused_k=ints(33, 16))  # fmt: skip
    refused(paged(), ValueError, "page_table[1, 1]=99", seqused_k=ints(32, 17))
    refused(paged(), ValueError, "page_table: 3 sequences, but the queries have 2",
            page_table=ints([0], [1], [2]), seqused_k=ints(1, 1, 1))  # fmt: skip
    refused(paged(), ValueError, "needs seqused_k", seqused_k=None)
    refused(paged(), ValueError, "(batch, pages_per_row)", page_table=ints(1, 2))
    refused(paged(), ValueError, "no row offsets", cu_seqlens_k=ints(0, 1, 2))
    asked(**paged(), unchecked=True)


def test_pages_of_other_sizes_are_refused_with_the_nearest() -> None:
    kv = half(6, 24, 2, DIM)
    problem = asked(**{**paged(), "k": kv, "v": kv}).problem
    refusal = choose(problem)
    assert not isinstance(refusal, Choice)
    assert refusal.reason.startswith("page_size=24")
    assert refusal.nearest in ("16", "32")


def test_unchecked_needs_the_longest() -> None:
    refused(varlen(), ValueError, "max_seqlen_q=None", "give max_seqlen_q", unchecked=True)
    refused(varlen(), ValueError, "max_seqlen_k=None", unchecked=True, max_seqlen_q=5)
    found = asked(**varlen(), unchecked=True, max_seqlen_q=5, max_seqlen_k=30).problem
    assert found == asked(**varlen()).problem
    refused(dense(), TypeError, "unchecked=1: expected True or False", unchecked=1)


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
    refused(dense(), TypeError, "bias.dtype=torch.bool", "masked_fill", mask=mask)


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


def test_offsets_of_alibi() -> None:
    mod = score_mods.alibi(torch.zeros(HEADS))
    expected = {
        "dense": (dense(), [KEYS - QUERIES] * 2),
        "used": ({**dense(), "seqused_k": ints(3, 30)}, [3 - QUERIES, 30 - QUERIES]),
        "ragged": (varlen(), [20 - 3, 30 - 5]),
        "paged": (paged(), [32 - QUERIES, 16 - QUERIES]),
    }
    for call, offsets in expected.values():
        aux = asked(**call, score_mod=mod).tensors.aux
        assert aux[1].tolist() == offsets
        assert aux[1].dtype == torch.float32


@pytest.mark.parametrize(
    ("option", "error", "words"),
    [
        ({"num_splits": 0}, ValueError, "num_splits=0: must be 1 or more"),
        ({"num_splits": 1.5}, TypeError, "num_splits=1.5"),
        ({"scheduler": "fast"}, ValueError, "scheduler='fast': nearest supported choice: tile or"),
        ({"scheduler": 3}, TypeError, "scheduler=3"),
    ],
)
def test_wrong_choices(option: dict[str, Any], error: type[Exception], words: str) -> None:
    refused(dense(), error, words, **option)


def test_choices() -> None:
    assert asked(**dense(), num_splits=1, scheduler="tile").problem.features == Features()
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
    support = fa4_cute.can_implement(**{**paged(), "page_table": ints([9], [9])})
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


def test_what_torch_compile_cannot_carry() -> None:
    compiled = torch.compile(
        lambda q, k, v: fa4_cute.flash_attn(q, k, v, softcap=2.0), backend="eager"
    )
    with pytest.raises(NotImplementedError, match="torch.compile: the operator takes causal"):
        compiled(*(dense()[name] for name in "qkv"))

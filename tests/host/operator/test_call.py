"""Calls through the operator: the same results, the same refusals, tensors of the caller's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from tests.host.operator.cases import INPUTS, PACKED, SLOPES, STARTS, relative
from tests.host.operator.stand_in import StandIn, same

Q, K, V = INPUTS
WRONG: dict[str, dict[str, Any]] = {
    "flag": {"causal": 1},
    "scale": {"softmax_scale": True},
    "infinite scale": {"softmax_scale": float("inf")},
    "window": {"window_size": 5},
    "window side": {"window_size": (-2, 0)},
    "split": {"split": "tree", "num_splits": 2},
    "splits": {"num_splits": 0},
    "scheduler": {"scheduler": "random"},
    "mask": {"mask": SLOPES},
    "cap": {"softcap": -1.0},
    "sink": {"sink": SLOPES[:3]},
    "aux": {"aux_tensors": (SLOPES,)},
    "surplus": {"score_mod": score_mods.softcap(2.0), "aux_tensors": (SLOPES,)},
    "lengths": {"seqused_k": torch.tensor([3, 99], dtype=torch.int32)},
    "padding": {"mask": masks.padding(torch.tensor([1.0, 2.0]))},
    "scaled": {"q_scale": 2.0},
    "lse": {"lse": torch.empty(2, 4, 5)},
    "out": {"out": torch.empty(2, 5, 4, 15, dtype=torch.float16)},
}


def observed(**options: Any) -> Any:
    with torch.autograd.profiler.profile():
        return fa4_cute.flash_attn(Q, K, V, **options)


@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG)
def test_refusals_are_those_of_a_plain_call(options: dict[str, Any], stand_in: StandIn) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError)) as plain:
        fa4_cute.flash_attn(Q, K, V, **options)
    with pytest.raises(plain.type) as carried:
        observed(**options)
    if options.keys() not in ({"aux_tensors", "score_mod"}, {"softmax_scale"}):
        assert str(carried.value) == str(plain.value)


def test_plain_functions_are_carried_where_nothing_is_traced(stand_in: StandIn) -> None:
    options: dict[str, Any] = {"score_mod": relative, "aux_tensors": (SLOPES,)}
    assert same(observed(**options), fa4_cute.flash_attn(Q, K, V, **options))


@pytest.mark.parametrize("given", [("out",), ("lse",), ("out", "lse")])
def test_tensors_of_the_caller_are_written_and_returned(
    given: tuple[str, ...], stand_in: StandIn
) -> None:
    want = fa4_cute.flash_attn(Q, K, V, return_lse=True)
    made = {"out": torch.zeros_like(Q), "lse": torch.zeros(2, 4, 5)}
    options = {name: made[name] for name in given}
    got = observed(return_lse=True, **options)
    assert same(got, want)
    for name, tensor in zip(made, got, strict=True):
        assert (tensor is made[name]) == (name in given)


def test_out_without_lse(stand_in: StandIn) -> None:
    out = torch.zeros_like(Q)
    assert observed(out=out) is out
    assert same(out, fa4_cute.flash_attn(Q, K, V))


def test_packed_results_are_of_packed_shape(stand_in: StandIn) -> None:
    out = torch.zeros_like(PACKED[0])
    options: dict[str, Any] = {"cu_seqlens_q": STARTS[0], "cu_seqlens_k": STARTS[1]}
    with torch.autograd.profiler.profile():
        got, lse = fa4_cute.flash_attn_varlen(*PACKED, **options, out=out, return_lse=True)
    assert got is out
    assert same(lse, fa4_cute.flash_attn_varlen(*PACKED, **options, return_lse=True)[1])

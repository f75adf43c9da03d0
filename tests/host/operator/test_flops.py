"""Calls are counted as SDPA counts them."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.flop_counter import FlopCounterMode

import fa4_cute
from tests.host.operator.cases import CASES, DEPTH, HEADS, INPUTS, LENGTHS, QUERIES
from tests.host.operator.stand_in import StandIn


def counted(call: Any, *tensors: torch.Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        call(*tensors)
    return counter.get_total_flops()


def test_dense_calls_count_as_sdpa(stand_in: StandIn) -> None:
    q, k, v = (t.transpose(1, 2).to("meta") for t in INPUTS)
    want = counted(lambda: sdpa(q, k, v, enable_gqa=True))
    assert want > 0
    for options in ({}, {"causal": True}, {"window_size": (1, 0)}, {"return_lse": True}):
        assert counted(lambda o=options: fa4_cute.flash_attn(*INPUTS, **o)) == want


def test_written_tensors_change_nothing(stand_in: StandIn) -> None:
    out = torch.empty_like(INPUTS[0])
    plain = counted(fa4_cute.flash_attn, *INPUTS)
    assert counted(lambda: fa4_cute.flash_attn(*INPUTS, out=out)) == plain


def test_sequences_count_with_their_lengths(stand_in: StandIn) -> None:
    per_pair = 4 * HEADS * DEPTH
    assert counted(*_of("packed")) == per_pair * (3 * 5 + 4 * 6)
    for name in ("cache", "pages"):
        assert counted(*_of(name)) == per_pair * QUERIES * int(LENGTHS.sum())


def test_lengths_that_cannot_be_read_count_as_the_most(stand_in: StandIn) -> None:
    per_pair = 4 * HEADS * DEPTH

    def unread(name: str) -> int:
        call, *tensors = _of(name)
        with FakeTensorMode() as mode:
            return counted(call, *map(mode.from_tensor, tensors))

    assert unread("packed") == per_pair * 2 * 7 * 11
    assert unread("unchecked") == per_pair * 2 * 4 * 6
    assert unread("cache") == per_pair * QUERIES * 2 * 20
    assert unread("pages") == per_pair * QUERIES * 2 * 3 * 16


def test_rope_columns_count(stand_in: StandIn) -> None:
    call, *tensors = _of("rope")
    assert counted(call, *tensors) == 2 * 2 * HEADS * QUERIES * 20 * (2 * DEPTH + 8)


def _of(name: str) -> tuple[Any, ...]:
    return CASES[name].call, *CASES[name].tensors

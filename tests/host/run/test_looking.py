"""A repeated call looks at values as the first one did, and at nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.host.ask.lengths import longest_sequences
from fa4_cute.host.run import calls, looking
from testing.launches import no_launch
from tests.host.request_cases import half

Changed = Callable[[], Any]


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)



def packed(tensors: dict[str, torch.Tensor]) -> Any:
    q, k, v = half(96, 8, 64), half(99, 2, 64), half(99, 2, 64)
    return fa4_cute.flash_attn_varlen(q, k, v, **tensors)


def paged(tensors: dict[str, torch.Tensor]) -> Any:
    q, (k, v) = half(2, 1, 8, 64), (half(9, 64, 2, 64) for _ in "kv")
    return fa4_cute.flash_attn(q, k, v, **tensors)


def dense(tensors: dict[str, torch.Tensor]) -> Any:
    q, k, v = (half(2, 32, 8, 64) for _ in "qkv")
    mask = masks.padding(tensors["padding"])
    return fa4_cute.flash_attn(q, k, v, mask=mask, sink=tensors["sink"])


OFFSETS = {"cu_seqlens_q": ints([0, 32, 96]), "cu_seqlens_k": ints([0, 40, 96])}
PAGES = {"page_table": ints([[0, 1], [2, 3]]), "seqused_k": ints([100, 3])}
WEIGHTS = {"padding": ints([3, 32]), "sink": torch.zeros(8)}
CASES: list[tuple[Callable[..., Any], dict[str, torch.Tensor], str, Any, Any]] = [
    (packed, OFFSETS, "cu_seqlens_q", 0, 1),
    (packed, OFFSETS, "cu_seqlens_q", 1, 97),
    (packed, OFFSETS, "cu_seqlens_q", 2, 95),
    (packed, OFFSETS, "cu_seqlens_k", 2, 100),
    (paged, PAGES, "page_table", (0, 1), 9),
    (paged, PAGES, "page_table", (0, 1), -1),
    (paged, PAGES, "page_table", (1, 1), -(2**31)),
    (paged, PAGES, "seqused_k", 1, 129),
    (paged, PAGES, "seqused_k", 1, -1),
    (dense, WEIGHTS, "padding", 0, -1),
    (dense, WEIGHTS, "sink", 7, float("inf")),
    (dense, WEIGHTS, "sink", 7, float("nan")),
]
"""A call, its tensors, and the value that makes one of them wrong."""


def message(call: Changed) -> str:
    with pytest.raises(ValueError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(("call", "given", "name", "place", "value"), CASES)
def test_a_wrong_value_is_refused_as_by_a_first_call(
    call: Callable[..., Any], given: dict[str, torch.Tensor], name: str, place: Any, value: Any
) -> None:
    tensors = {name: tensor.clone() for name, tensor in given.items()}
    with no_launch():
        call(tensors)
        call(tensors)
        assert len(calls.kept) == 1
        tensors[name][place] = value
        again = message(lambda: call(tensors))
        calls.kept.clear()
        assert again == message(lambda: call(tensors))


def test_entries_of_a_page_table_that_nobody_reads_may_be_anything() -> None:
    tensors = {name: tensor.clone() for name, tensor in PAGES.items()}
    with no_launch():
        paged(tensors)
        tensors["page_table"][1, 1] = 99
        with mock.patch.object(calls, "carry_out") as long_way:
            paged(tensors)
        assert not long_way.called


@pytest.mark.parametrize(
    ("call", "given", "name", "place", "value", "others"),
    [
        (packed, OFFSETS, "cu_seqlens_q", 1, 48, 1),
        (packed, OFFSETS, "cu_seqlens_k", 1, 30, 1),
        (packed, OFFSETS, "cu_seqlens_q", 1, 64, 0),
        (paged, PAGES, "seqused_k", 1, 99, 0),
        (paged, PAGES, "seqused_k", 1, 128, 1),
        (dense, WEIGHTS, "padding", 0, 5, 0),
    ],
)
def test_other_longest_sequences_are_another_call(
    call: Callable[..., Any],
    given: dict[str, torch.Tensor],
    name: str,
    place: int,
    value: int,
    others: int,
) -> None:
    tensors = {name: tensor.clone() for name, tensor in given.items()}
    with no_launch():
        call(tensors)
        tensors[name][place] = value
        call(tensors)
        assert len(calls.kept) == 1 + others


def test_equal_values_are_checked_once() -> None:
    longest = mock.patch.object(looking, "longest_sequences", wraps=longest_sequences)
    tensors = {name: tensor.clone() for name, tensor in PAGES.items()}
    with no_launch():
        paged(tensors)
        with longest as check:
            paged({name: tensor.clone() for name, tensor in tensors.items()})
            assert not check.called
            tensors["seqused_k"][1] = 5
            paged(tensors)
            assert check.call_count == 1


def test_nothing_is_read_back_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    def capturing(name: str, _: Any) -> None:
        raise NotImplementedError(name)

    operands = [half(2, 1, 8, 64), half(9, 64, 2, 64), half(9, 64, 2, 64)]
    tensors = [*operands, *PAGES.values()]
    look = looking.Look([*"qkv", *PAGES], tensors, {})
    assert look(tensors) == (1, 128, 100)
    monkeypatch.setattr(looking, "check_readable", capturing)
    with pytest.raises(NotImplementedError, match="seqused_k"):
        look(tensors)

"""Wrong offsets, lengths and pages are refused with name, value and the nearest choice."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fa4_cute.host.choose.support import Choice, choose
from tests.host.request_cases import (
    DIM,
    KEYS,
    PAGE,
    asked,
    dense,
    half,
    ints,
    paged,
    refused,
    varlen,
)


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
            page_table=ints([0], [1], [2]), seqused_k=ints(1, 1))  # fmt: skip
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

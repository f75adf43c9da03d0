"""Sizes that stand for all where a problem leaves them open: each may have its own kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_LENGTHS: Final = tuple(length for power in range(4, 16) for length in (2**power, 3 * 2**power))
"""Queries and keys, from a part of a tile to many rounds of all SMs."""
_FEW_QUERIES: Final = (1, 64, 512)
"""Fewer queries than keys: a step of decoding, the tokens of a draft, and a chunk of a prompt."""
_BATCHES: Final = (1, 3, 5, 20, 80)
"""Also ones with which query tiles do not fill rounds of all SMs evenly."""


def open_sizes(problem: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``problem`` with sizes for those of ``seqlen_q``, ``seqlen_k`` and ``batch`` it lacks.

    A problem that names both lengths is whole: its batch is one sequence unless it says more.
    """
    if {"seqlen_q", "seqlen_k"} <= problem.keys():
        yield dict(problem)
        return
    batches = (problem["batch"],) if "batch" in problem else _BATCHES
    for queries, keys in dict.fromkeys(_pairs(problem.get("seqlen_q"), problem.get("seqlen_k"))):
        for batch in batches:
            yield {**problem, "seqlen_q": queries, "seqlen_k": keys, "batch": batch}


def mixes_of(problem: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a problem, and the same beside a step of decoding in every other packed sequence.

    Kernels of sequences that differ count query tiles by rows.
    """
    yield problem
    batch, queries = problem.get("batch", 1), problem.get("seqlen_q", 1)
    is_open = problem.get("ragged_q") and "total_q" not in problem
    if is_open and type(batch) is int and type(queries) is int and min(batch, queries) > 1:
        yield {**problem, "total_q": queries + batch - 1}


def _pairs(queries: int | None, keys: int | None) -> Iterator[tuple[int, int]]:
    """Yield numbers of queries and keys; what is given is kept."""
    if queries is not None:
        yield from ((queries, length) for length in (queries, *_LENGTHS))
    elif keys is not None:
        yield from ((length, keys) for length in (*_FEW_QUERIES, *_LENGTHS))
    else:
        yield from ((length, length) for length in _LENGTHS)
        yield from ((few, length) for few in _FEW_QUERIES for length in _LENGTHS)

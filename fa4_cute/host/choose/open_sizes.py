"""Sizes that stand for all where a problem leaves them open: each may have its own kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_LENGTHS: Final = tuple(length for power in range(4, 16) for length in (2**power, 3 * 2**power))
"""Queries and keys, from a part of a tile to many rounds of all SMs."""
_FEW_QUERIES: Final = (1, 4, 8, 16, 32, 64, 512)
"""Fewer queries than keys: a step of decoding, the tokens of a draft, of which lanes hold copies by
their number, and a chunk of a prompt."""
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


def may_differ(problem: Mapping[str, Any], positions: int) -> bool:
    """Return whether packed sequences of ``problem`` may need more than one of the query tiles of
    ``positions`` queries, and others fewer, so that these may be counted by rows."""
    if not problem.get("ragged_q") or problem.get("total_q") or problem.get("batch") == 1:
        return False
    return "seqlen_q" not in problem or int(problem["seqlen_q"]) > positions


def _pairs(queries: int | None, keys: int | None) -> Iterator[tuple[int, int]]:
    """Yield numbers of queries and keys; what is given is kept."""
    if queries is not None:
        yield from ((queries, length) for length in (queries, *_LENGTHS))
    elif keys is not None:
        yield from ((length, keys) for length in (*_FEW_QUERIES, *_LENGTHS))
    else:
        yield from ((length, length) for length in _LENGTHS)
        yield from ((few, length) for few in _FEW_QUERIES for length in _LENGTHS)

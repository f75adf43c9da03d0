"""``ContextPlan``: what every rank computes and sends, step by step, for both methods.

*Ring*: in step ``s`` rank ``r`` holds the keys of rank ``r - s``, its *source*. It computes what
its queries see of them, and meanwhile passes them on to rank ``r + 1``, if anyone from there on
needs them.
*All-gather*: every rank gets all keys first, in the order of the sequences.

Sequences are aligned to the bottom right, as everywhere: query ``i`` stands at key
``i + seqlen_k - seqlen_q`` of its sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from .band import CAUSAL, FULL, Band, Piece, Span, cover
from .shards import Run, Shards


@dataclass(frozen=True)
class Part:
    """One sequence's part of a call.

    Attributes:
        rows: of the rank's shard of q.
        keys: of the block of keys that is there.
    """

    rows: Span
    keys: Span


@dataclass(frozen=True)
class Call:
    """One call of attention: parts of different sequences under the same band."""

    band: Band
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Step:
    """One step of the ring.

    Attributes:
        source: the rank whose keys are there.
        calls: what is computed with them.
        sends: whether they go to the next rank meanwhile.
        receives: the rank whose keys come from the previous rank meanwhile, or None.
    """

    source: int
    calls: tuple[Call, ...]
    sends: bool
    receives: int | None


@dataclass(frozen=True)
class ContextPlan:
    """Attention over several ranks.

    Attributes:
        queries, keys: who holds which rows of q, and of k and v; as many sequences, ranks the same.
        band: which keys a row sees.
    """

    queries: Shards
    keys: Shards
    band: Band

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.queries.ranks

    def calls(self, rank: int, source: int) -> tuple[Call, ...]:
        """Return what ``rank`` computes with the keys that ``source`` holds."""
        return self._calls(rank, self.keys.runs(source))

    def whole_calls(self, rank: int) -> tuple[Call, ...]:
        """Return what ``rank`` computes with the keys of all ranks, in order."""
        starts = self.keys.starts()
        whole = [
            (Run(rank, n, 0, length, starts[n]),) if length else ()
            for n, length in enumerate(self.keys.lengths)
        ]
        return self._calls(rank, whole)

    def ring(self, rank: int) -> tuple[Step, ...]:
        """Return the steps of ``rank``; ranks may take part in a different number of them."""
        return _ring(self, rank)

    def last_step(self, source: int) -> int:
        """Return the last step in which any rank computes with the keys of ``source``."""
        return _last_step(self, source)

    def needs(self, rank: int, source: int) -> bool:
        """Return whether any query of ``rank`` sees any key that ``source`` holds."""
        pairs = zip(self.queries.runs(rank), self.keys.runs(source), strict=True)
        return any(
            self.band.meets(self._places(of_q), (of_k.start, of_k.stop))
            for queries, keys in pairs
            for of_q in queries
            for of_k in keys
        )

    def _places(self, run: Run) -> Span:
        """Return at which keys the queries of ``run`` stand."""
        offset = self.keys.lengths[run.sequence] - self.queries.lengths[run.sequence]
        return run.start + offset, run.stop + offset

    def _calls(self, rank: int, keys: Sequence[Iterable[Run]]) -> tuple[Call, ...]:
        """Return the calls for blocks of keys by sequence.

        What one sequence needs twice under the same band are two calls, so no call has a row twice.
        """
        calls: dict[tuple[Band, int], list[Part]] = {}
        for queries, of_sequence in zip(self.queries.runs(rank), keys, strict=True):
            blocks = tuple(of_sequence)
            pieces = [p for q in queries for k in blocks for p in self._pieces(q, k)]
            count: dict[Band, int] = {}
            for piece in joined(pieces):
                turn = count[piece.band] = count.get(piece.band, -1) + 1
                calls.setdefault((piece.band, turn), []).append(Part(piece.rows, piece.keys))
        return tuple(Call(band, tuple(parts)) for (band, _), parts in calls.items())

    def _pieces(self, queries: Run, keys: Run) -> list[Piece]:
        """Return what ``queries`` see of ``keys``, in rows of the shard and of the block."""
        rows = self._places(queries)
        to_row, to_key = queries.local - rows[0], keys.local - keys.start
        return [
            Piece(_moved(piece.rows, to_row), _moved(piece.keys, to_key), piece.band)
            for piece in cover(rows, (keys.start, keys.stop), self.band)
        ]


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the same pairs in fewer pieces, where neighbours make up a call of their own."""
    found: list[Piece] = []
    for piece in pieces:
        found.append(piece)
        while (fewer := _last_joined(found)) is not None:
            found = fewer
    return found


def _last_joined(found: list[Piece]) -> list[Piece] | None:
    """Return ``found`` with its last pieces as one, or None."""
    if len(found) > 1:
        first, last = found[-2:]
        if first.band == last.band == FULL:
            if first.rows == last.rows and first.keys[1] == last.keys[0]:
                return [*found[:-2], replace(first, keys=(first.keys[0], last.keys[1]))]
            if first.keys == last.keys and first.rows[1] == last.rows[0]:
                return [*found[:-2], replace(first, rows=(first.rows[0], last.rows[1]))]
    if len(found) > 2 and _is_stair(*found[-3:]):
        first, _, last = found[-3:]
        rows, keys = (first.rows[0], last.rows[1]), (first.keys[0], last.keys[1])
        return [*found[:-3], Piece(rows, keys, CAUSAL)]
    return None


def _is_stair(upper: Piece, below: Piece, last: Piece) -> bool:
    """Return whether a triangle, what is below it and the next triangle are one triangle."""
    return (
        (upper.band, below.band, last.band) == (CAUSAL, FULL, CAUSAL)
        and (upper.keys, upper.rows[1]) == (below.keys, below.rows[0])
        and (last.rows, last.keys[0]) == (below.rows, below.keys[1])
        and last.rows[1] - last.rows[0] == last.keys[1] - last.keys[0]
    )


@lru_cache(maxsize=256)
def _last_step(plan: ContextPlan, source: int) -> int:
    steps = range(plan.ranks - 1, 0, -1)
    return next((s for s in steps if plan.needs((source + s) % plan.ranks, source)), 0)


@lru_cache(maxsize=64)
def _ring(plan: ContextPlan, rank: int) -> tuple[Step, ...]:
    found: list[Step] = []
    for number in range(plan.ranks):
        source, coming = (rank - number) % plan.ranks, (rank - number - 1) % plan.ranks
        found.append(
            Step(
                source=source,
                calls=plan.calls(rank, source),
                sends=number < plan.last_step(source),
                receives=coming if number < plan.last_step(coming) else None,
            )
        )
    while found and not (found[-1].calls or found[-1].sends or found[-1].receives is not None):
        found.pop()
    return tuple(found)

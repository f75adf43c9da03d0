"""``Shards``: which rows of every sequence each rank holds.

*Contiguous*: a sequence is cut into as many chunks as there are ranks, and rank ``r`` holds chunk
``r``. *Zigzag*: it is cut into twice as many, and rank ``r`` of ``n`` holds the chunks ``r`` and
``2 n - 1 - r``, an early one and a late one. Under a causal mask a late row sees many keys and an
early one few, so all ranks then have the same work. Chunks differ by one row at most.

A rank's shard holds sequence after sequence, of each the earlier chunk first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import accumulate


class Layout(Enum):
    """How the rows of a sequence are dealt out to the ranks."""

    ZIGZAG = "zigzag"
    CONTIGUOUS = "contiguous"

    def chunks(self, ranks: int) -> int:
        """Return into how many chunks a sequence is cut."""
        return ranks if self is Layout.CONTIGUOUS else 2 * ranks

    def holder(self, chunk: int, ranks: int) -> int:
        """Return the rank that holds ``chunk``."""
        return chunk if self is Layout.CONTIGUOUS else min(chunk, 2 * ranks - 1 - chunk)


@dataclass(frozen=True)
class Run:
    """Consecutive rows of one sequence that lie together in a shard; never empty.

    Attributes:
        rank: who holds them.
        sequence: whose rows.
        start, stop: their positions in the sequence.
        local: where the first one lies in the shard.
    """

    rank: int
    sequence: int
    start: int
    stop: int
    local: int

    @property
    def local_stop(self) -> int:
        """Where the shard goes on after them."""
        return self.local + self.stop - self.start


@dataclass(frozen=True)
class Shards:
    """The rows of all sequences, dealt out to ranks.

    Attributes:
        lengths: rows of every sequence. The equally long sequences of a dense batch count as one.
        ranks: how many ranks there are.
        layout: how rows are dealt out.
    """

    lengths: tuple[int, ...]
    ranks: int
    layout: Layout

    def runs(self, rank: int) -> tuple[tuple[Run, ...], ...]:
        """Return what ``rank`` holds of every sequence, in the order of its shard."""
        return _runs(self, rank)

    def rows(self, rank: int) -> int:
        """Return how many rows ``rank`` holds."""
        return sum(run.stop - run.start for runs in self.runs(rank) for run in runs)

    def most_rows(self) -> int:
        """Return how many rows the rank with the most of them holds."""
        return max(self.rows(rank) for rank in range(self.ranks))

    def starts(self) -> tuple[int, ...]:
        """Return the first row of every sequence where all are packed whole, and their end."""
        return (0, *accumulate(self.lengths))

    def in_order(self) -> list[Run]:
        """Return the runs of all ranks in the order of the whole sequences."""
        found = [run for rank in range(self.ranks) for runs in self.runs(rank) for run in runs]
        return sorted(found, key=lambda run: (run.sequence, run.start))


@lru_cache(maxsize=256)
def _runs(shards: Shards, rank: int) -> tuple[tuple[Run, ...], ...]:
    held, local = [], 0
    for sequence, length in enumerate(shards.lengths):
        runs = []
        for start, stop in _chunks(shards, rank, length):
            if start < stop:
                runs.append(Run(rank, sequence, start, stop, local))
                local += stop - start
        held.append(tuple(runs))
    return tuple(held)


def _chunks(shards: Shards, rank: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the chunks of ``rank`` of a sequence of ``length`` rows, the earlier one first."""
    count = shards.layout.chunks(shards.ranks)
    for chunk in range(count):
        if shards.layout.holder(chunk, shards.ranks) == rank:
            yield chunk * length // count, (chunk + 1) * length // count

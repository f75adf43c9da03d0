"""What launches of a kernel are predicted to cost: start, query tiles and keys of a CTA.

Which costs a kernel has is looked up in ``plan.config.predicted``, which
``python -m benchmarks.tune.costs`` writes from executed CTAs on a model of a B200.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

from ..barriers.chains import NUM_CHAINS
from ..facts.dtypes import DType
from ..facts.hardware import WARPS_PER_GROUP
from .tuning import holds

ROWS_AT_ONCE: Final = NUM_CHAINS * WARPS_PER_GROUP
"""Rows that the warps of a CTA put together at the same time."""
COUNTED_KEYS: Final = 1024
"""Keys whose cycles a row counts."""
EXCHANGED: Final = (2, 4, 8)
"""CTAs of the clusters whose exchange is predicted."""


class Costs(NamedTuple):
    """Cycles of a CTA: once, for each query tile, and for 1,024 keys of one."""

    first: int
    tile: int
    per_keys: int

    def keys(self, count: int) -> int:
        """Return what ``count`` keys take."""
        return self.per_keys * count // COUNTED_KEYS

    def with_dear_keys(self, times: int) -> Costs:
        """Return the costs where keys take so many ``times`` as long."""
        return self._replace(per_keys=times * self.per_keys)

    def query_tile(self, keys: int) -> int:
        """Return what a query tile of ``keys`` keys takes, but for what comes once."""
        return self.tile + self.keys(keys)

    def no_sooner_than(self, cycles: int, keys: int) -> Costs:
        """Return the costs where ``keys`` keys take so many cycles at least."""
        return self._replace(per_keys=max(self.per_keys, cycles * COUNTED_KEYS // keys))

    def of(self, tiles: int, keys: int) -> int:
        """Return what a CTA takes with ``tiles`` query tiles of ``keys`` keys together."""
        return self.first + tiles * self.tile + self.keys(keys)


class PredictedRow(NamedTuple):
    """Costs of a kind of kernel up to these head dims, by who takes the query tiles.

    ``dynamic`` is None where they are not known. ``kernel`` is "2q" or "1q", or "pair" for the CTA
    pair of wide heads; the others are those of ``TunedRow``. ``causal`` rows are of launches with
    that mask, whose masked key tiles count with their query tiles; where there is none a row
    without one holds both. Rows of few keys hold up to ``most_keys``; others have 0 there.
    """

    kernel: str
    element_bytes: int
    depth: int
    ov_depth: int
    tile: Costs
    persistent: Costs
    dynamic: Costs | None = None
    causal: bool = False
    most_keys: int = 0

    def with_dear_keys(self, times: int) -> PredictedRow:
        """Return the row where keys take so many ``times`` as long."""
        dynamic = self.dynamic.with_dear_keys(times) if self.dynamic else None
        tile, persistent = (costs.with_dear_keys(times) for costs in (self.tile, self.persistent))
        return self._replace(tile=tile, persistent=persistent, dynamic=dynamic)


class ChunkRow(NamedTuple):
    """Costs of causal chunks of prompts over a paged cache up to these head dims, by scheduler.

    ``empty`` are cycles of a query tile past its sequence, with a CTA for each and with dynamic
    ones. The others are those of ``PredictedRow``.
    """

    kernel: str
    element_bytes: int
    depth: int
    ov_depth: int
    tile: Costs
    dynamic: Costs
    empty: tuple[int, int]

    def with_dear_keys(self, times: int) -> ChunkRow:
        """Return the row where keys take so many ``times`` as long."""
        tile, dynamic = (costs.with_dear_keys(times) for costs in (self.tile, self.dynamic))
        return self._replace(tile=tile, dynamic=dynamic)


class DecodingRow(NamedTuple):
    """Costs of one Q tile to a CTA, or of a pair, up to these head dims, whose keys may be split.

    ``kernel`` is "few" for one Q tile with copies of its few rows, "1q" without, "few pair" and
    "pair" for pairs.
    ``tile`` are those of a CTA with a query tile, of a step of decoding; ``combine`` those of the
    launch that puts splits together: ``first`` once, ``tile`` for each further round of loads
    (``plan.spec.combine_spec.rounds_of_loads``) and ``per_keys`` for 1,024 rows of O.
    ``exchange`` are cycles that CTAs of clusters of ``EXCHANGED`` take more. ``last`` are those
    that the last CTA of a query tile takes more to put splits together itself: ``first`` once,
    ``tile`` for each further round of loads of ``ROWS_AT_ONCE`` rows, ``per_keys`` for 1,024 times
    as many rows. Pairs have no such ways to put splits together. The others are those of
    ``TunedRow``.
    """

    kernel: str
    element_bytes: int
    depth: int
    ov_depth: int
    tile: Costs
    combine: Costs
    exchange: tuple[int, ...] = ()
    last: Costs | None = None

    def exchange_of(self, size: int) -> int:
        """Return what CTAs of a cluster of ``size``, which is one of ``EXCHANGED``, take more."""
        return self.exchange[EXCHANGED.index(size)]


Row = TypeVar("Row", PredictedRow, ChunkRow, DecodingRow)


def predicted_of(
    rows: Iterable[Row], kernel: str, dtype: DType, depth: int, ov_depth: int
) -> Row | None:
    """Return the first row that holds a kernel, or None."""
    return next((row for row in rows if holds(row, kernel, dtype, depth, ov_depth)), None)

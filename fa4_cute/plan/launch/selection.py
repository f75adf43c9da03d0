"""One or two Q tiles per CTA: the rules of dispatch as a table, tried from the top.

They decide where nothing is predicted, or predictions are close (``sm100_selection``), and where
one Q tile holds all queries of many keys. With few keys it may not: two Q tiles keep both softmax
groups at work where one has a single key tile for them, even if a tile holds no query.

Two Q tiles share every K and V tile that is loaded, and their softmax warp groups run during each
other's MMAs. A single Q tile overlaps them the same way, by halving the keys instead of the
queries, but loads K and V for 128 rows only. So it is taken where a second tile would hold no
query, or where the grid leaves SMs without work and twice as many CTAs finish sooner.
Source: ``docs/sources.md`` section 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from ..config.config import FA4Config
from ..config.copies import KEYS_OF_COPIES, ROW_COPIES
from ..config.depth512_config import Depth512Config
from ..facts.hardware import SM_COUNT
from ..spec import depth512_limits
from ..spec.limits import supported, unsupported_reason
from .tiles import AttentionSizes, TileShape

RING_TILES: Final = 2
"""Key tiles for which the ring of a pair needs room besides what copies of rows leave of O."""
FEW_KEYS: Final = 1024
"""Keys with which start and end of a query tile count most; fewer have costs of their own."""


@dataclass(frozen=True)
class Workload:
    """A problem as the rules see it.

    Attributes:
        config: its configuration with two Q tiles, or with one where there is none of two.
        sizes: its sizes; of packed sequences, the longest.
        asked: the number of Q tiles that the caller insists on, or None.
    """

    config: FA4Config
    sizes: AttentionSizes
    asked: int | None = None

    @property
    def one(self) -> FA4Config:
        """The configuration with one Q tile."""
        return with_one_tile(self.config)

    @property
    def two(self) -> FA4Config:
        """The configuration with two Q tiles."""
        return with_two_tiles(self.config)

    @property
    def positions(self) -> int:
        """Queries that one Q tile takes: fewer than its rows when a group's heads share it."""
        return self.one.BM_eff()

    @property
    def is_short(self) -> bool:
        """Whether one Q tile takes all queries."""
        return self.sizes.seqlen_q <= self.positions

    @property
    def num_ctas(self) -> int:
        """CTAs of the grid with two Q tiles each."""
        return self.sizes.query_tiles(TileShape.of(self.config)) * self.config.cta_group()


@lru_cache(maxsize=1024)
def with_one_tile(config: FA4Config) -> FA4Config:
    """Return a configuration with one Q tile per CTA."""
    return config.with_num_qo(1)


@lru_cache(maxsize=1024)
def with_two_tiles(config: FA4Config) -> FA4Config:
    """Return a configuration with two Q tiles per CTA."""
    return config.with_num_qo(2)


@lru_cache(maxsize=1024)
def _refusal(config: FA4Config) -> str | None:
    """Return why a configuration is impossible, or None; asked anew in every problem."""
    reason = None if supported(config) else unsupported_reason(config)
    return reason and reason.partition("; nearest supported choice")[0]


@dataclass(frozen=True)
class QueryTileRule:
    """A row of the table.

    Attributes:
        name: what the rule looks at.
        num_qo: Q tiles per CTA that it chooses.
        applies: whether it decides a problem.
        reason: says why, in a sentence.
        is_final: whether no prediction may say otherwise.
    """

    name: str
    num_qo: int
    applies: Callable[[Workload], bool]
    reason: Callable[[Workload], str]
    is_final: bool = False


QUERY_TILE_RULES: Final = (
    QueryTileRule("one on request", 1, lambda w: w.asked == 1, lambda _: "as asked for", True),
    QueryTileRule("two on request", 2, lambda w: w.asked == 2, lambda _: "as asked for", True),
    QueryTileRule(
        "pair on request",
        2,
        lambda work: work.config.pair_cta,
        lambda _: "CTAs that share an MMA, as pair_cta=True asks for, have two each",
        True,
    ),
    QueryTileRule(
        "plan",
        2,
        lambda work: _refusal(work.one) is not None,
        lambda work: f"one Q tile per CTA is not possible: {_refusal(work.one)}",
        is_final=True,
    ),
    QueryTileRule(
        "plan of one",
        1,
        lambda work: _refusal(work.two) is not None,
        lambda work: f"two Q tiles per CTA are not possible: {_refusal(work.two)}",
        is_final=True,
    ),
    QueryTileRule(
        "short prompt",
        1,
        lambda work: work.is_short and work.sizes.seqlen_k >= FEW_KEYS,
        lambda work: (
            f"seqlen_q={work.sizes.seqlen_q} fits one Q tile of {work.positions} positions"
        ),
        is_final=True,
    ),
    QueryTileRule(
        "short prompt, few keys",
        1,
        lambda work: work.is_short,
        lambda work: (
            f"seqlen_q={work.sizes.seqlen_q} fits one Q tile of {work.positions} positions"
        ),
    ),
    QueryTileRule(
        "small grid",
        1,
        lambda work: work.num_ctas <= SM_COUNT // 2,
        lambda work: (
            f"{work.num_ctas} CTAs of two Q tiles would leave half of {SM_COUNT} SMs without work"
        ),
    ),
    QueryTileRule(
        "full grid",
        2,
        lambda _: True,
        lambda work: f"{work.num_ctas} CTAs of two Q tiles occupy more than half of {SM_COUNT} SMs",
    ),
)
"""The first rule that applies decides."""


@dataclass(frozen=True)
class QueryTiles:
    """The decision: Q tiles per CTA, why, and whether no prediction may say otherwise.

    ``row_copies`` are those of the rows of a single Q tile.
    """

    num_qo: int
    reason: str
    is_final: bool = False
    row_copies: int = 1

    @property
    def text(self) -> str:
        """The decision in words."""
        count = "one Q tile" if self.num_qo == 1 else "two Q tiles"
        copies = f", with {self.row_copies} copies of its few rows" if self.row_copies > 1 else ""
        return f"{count} per CTA{copies}: {self.reason}"


def choose_query_tiles(
    config: FA4Config, sizes: AttentionSizes, asked: int | None = None
) -> QueryTiles:
    """Return how many Q tiles a CTA takes by the rules; arguments as :class:`Workload`'s."""
    work = Workload(config, sizes, asked)
    rule = next(rule for rule in QUERY_TILE_RULES if rule.applies(work))
    return QueryTiles(rule.num_qo, rule.reason(work), rule.is_final)


def with_row_copies(
    tiles: QueryTiles, config: FA4Config, seqlen_q: int, seqlen_k: int
) -> QueryTiles:
    """Return ``tiles`` with as many copies of the rows of a single Q tile as hold all queries.

    Args:
        tiles: how many Q tiles a CTA takes. config: the kernel's. seqlen_q, seqlen_k: most queries
            and keys.
    """
    return replace(tiles, row_copies=row_copies_of(config, tiles.num_qo, seqlen_q, seqlen_k))


def with_fitting_copies(tiles: QueryTiles, config: FA4Config) -> QueryTiles:
    """Return ``tiles`` with no more copies of the rows than a kernel holds.

    What is chosen after the copies may leave a key tile fewer keys: stream-K beside a large
    function of scores, persistent CTAs that split keys beside a bias.

    Args:
        tiles: how many Q tiles a CTA takes. config: the kernel's, with everything chosen.
    """
    if tiles.row_copies == 1:
        return tiles
    return replace(tiles, row_copies=_fitting_copies(config, tiles.row_copies))


@lru_cache(maxsize=1024)
def _fitting_copies(config: FA4Config, most: int) -> int:
    fewer = (copies for copies in sorted(ROW_COPIES, reverse=True) if copies <= most)
    return next((copies for copies in fewer if supported(config.with_num_qo(1, copies))), 1)


def _most_copies(holds: Callable[[int], bool], seqlen_k: int) -> int:
    """Return the most copies of rows that do: one, and with fewer keys than a tile no more."""
    if seqlen_k < KEYS_OF_COPIES:
        return 1
    return next((copies for copies in sorted(ROW_COPIES, reverse=True) if holds(copies)), 1)


@lru_cache(maxsize=1024)
def row_copies_of(config: FA4Config, num_qo: int, seqlen_q: int, seqlen_k: int) -> int:
    """Return the most copies of the rows of a single Q tile that hold ``seqlen_q`` positions.

    Keys of less than a tile leave some of them none: 1.04 to 1.16 of the cycles with 32 or 64.
    """

    def holds(copies: int) -> bool:
        few = config.with_num_qo(1, copies)
        return seqlen_q <= few.BM_eff() and supported(few)

    return _most_copies(holds, seqlen_k) if num_qo == 1 else 1


@lru_cache(maxsize=1024)
def row_copies_of_pair(config: Depth512Config, seqlen_q: int, seqlen_k: int) -> int:
    """Return the most copies of the rows of both CTAs of a pair that hold ``seqlen_q`` positions,
    as :func:`row_copies_of`.

    Those of 16-bit operands leave the ring too little memory, and are bound by theirs without.
    """

    def holds(copies: int) -> bool:
        few = replace(config, row_copies=copies)
        fits = seqlen_q <= few.PairBM_eff() and depth512_limits.supported(few)
        return fits and few.num_kv_stages >= RING_TILES * few.slots_per_tile

    return _most_copies(holds, seqlen_k)

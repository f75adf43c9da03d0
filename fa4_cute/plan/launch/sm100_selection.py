"""The Blackwell kernels' choices by predicted times: query tiles of a CTA, and their order.

Two Q tiles in a CTA share the keys they load, and take less than twice one. One Q tile has twice
the CTAs, which fill SMs that would have none, or leave fewer idle at the end.

A CTA for every query tile pays for its start and its end each time, and an SM that is free takes
the next one. A persistent CTA loads the keys of the next query tile while the one before ends; the
order of its query tiles is fixed, so with a mask the longest one may come last. A dynamic one does
both, and pays for its questions.

All cycles are predictions for a B200 (``plan.config.predicted``), means over what is not known of
it, so that sums of their parts are means, too. Where they are equal a CTA has one query tile. Sizes
are those that the host knows: of a cache, the room in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heapreplace
from typing import Final

from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..config.predicted import LAUNCH_CYCLES, PREDICTED, SHORT
from ..config.prediction import Costs, PredictedRow, predicted_of
from ..facts.hardware import align_up, ceil_div
from ..masks.masks import CAUSAL, NULL
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from ..spec.register_tuning import is_plain
from ..spec.variant import Scheduler, Variant
from .chunks import are_handed_out, is_in_chunks, row_of_chunks
from .handed import HandedOrder
from .launch import AttentionSizes
from .selection import FEW_KEYS, QueryTiles, choose_query_tiles, with_one_tile
from .tiles import TileShape
from .turns import unevenness

BlackwellSpec = KernelSpec | Depth512Spec
CLEAR: Final = 0.9
"""Predictions say otherwise than a rule where they differ by more than this share."""
CLEAR_EXACTLY: Final = 0.95
"""That share where both were made of launches like it: with a mask, so that masked key tiles count,
or with few keys."""
AHEAD: Final = 0.97
"""Packed query tiles are handed out where a key is predicted to take no more than others over this.
What it costs differs by so much between kernels whose loops are the same."""
AHEAD_OF_TURNS: Final = 0.99
"""Query tiles that differ are handed out where that is predicted to take less than this share of a
fixed order: start and query tile of persistent CTAs are told apart by a fit that is off by about a
hundredth."""
SEVERAL: Final = 3
"""Query tiles of a place, by the longest sequence, from which on packed ones are handed out."""
SEVERAL_OF_ROWS: Final = 2
"""The same where the rows of all sequences are known, so that these have as many indeed."""
PLACED: Final = 8
"""Query tiles of a place up to which their order is followed."""
UNMASKED: Final = tuple(row for row in PREDICTED if not row.causal)
"""Rows of kernels without a mask."""


@dataclass(frozen=True)
class SchedulerChoice:
    """The decision: who takes query tiles, and what each costs; 0 where that is not predicted."""

    scheduler: Scheduler
    tile_cycles: int = 0
    persistent_cycles: int = 0
    dynamic_cycles: int = 0

    @property
    def text(self) -> str:
        """The decision in words."""
        taken = _WHO[self.scheduler]
        if not self.tile_cycles:
            return f"{taken}: only the device knows how long each sequence is"
        told = (
            f"{taken}: predicted for a B200 are {self.tile_cycles:,} cycles with a CTA for every "
            f"query tile, {self.persistent_cycles:,} with persistent ones"
        )
        dynamic = f", {self.dynamic_cycles:,} with dynamic ones" if self.dynamic_cycles else ""
        return told + dynamic


_WHO: Final = {
    Scheduler.TILE: "a CTA for every query tile",
    Scheduler.PERSISTENT: "persistent CTAs",
    Scheduler.DYNAMIC: "dynamic CTAs",
    Scheduler.STREAM_K: "stream-K, CTAs that take as many keys each",
}


@dataclass(frozen=True)
class QueryTileLoad:
    """The query tiles of a launch as their cost depends on them.

    Attributes:
        units: how many. places: how many are computed at the same time. of_head: those of a head.
        longest: keys of the longest one. mean: keys of one on average.
        is_even: whether all have as many.
    """

    units: int
    places: int
    longest: int
    mean: int
    is_even: bool
    of_head: int = 1

    @classmethod
    def of(
        cls,
        config: FA4Config | Depth512Config,
        sizes: AttentionSizes,
        num_sms: int,
        *,
        causal: bool,
    ) -> QueryTileLoad:
        """Return the load of a kernel whose mask is none or causal."""
        shape = TileShape.of(config)
        keys = align_up(sizes.seqlen_k, config.BN)
        first = keys
        if causal:
            seen = max(0, sizes.seqlen_k - sizes.seqlen_q + shape.positions)
            first = min(keys, align_up(seen, config.BN))
        size = config.cta_group()
        places = max(1, num_sms // size)
        units, mean = sizes.query_tiles(shape), (first + keys) // 2
        return cls(units, places, keys, mean, first == keys, sizes.blocks(shape)[0] // size)

    def cycles(self, costs: Costs, *, in_order: bool) -> int:
        """Return what the launch takes; ``in_order`` is the fixed one of persistent CTAs."""
        if self.is_even:
            rounds = ceil_div(self.units, self.places)
            return LAUNCH_CYCLES + costs.of(rounds, rounds * self.longest)
        all_tiles = costs.of(self.units, self.units * self.mean) - costs.first
        last = costs.keys(self.longest) if in_order else 0
        return LAUNCH_CYCLES + costs.first + all_tiles // self.places + last

    def best_cycles(self, row: PredictedRow) -> int:
        """Return what the launch takes with the better scheduler, where there is a choice."""
        tile = self.placed_cycles(row.tile)
        if self.units <= self.places:
            return tile
        return min(tile, self.persistent_cycles(row))

    def placed_cycles(self, costs: Costs) -> int:
        """Return what the launch takes with a CTA for every query tile, the longest first.

        Where few of them come to a place, each is put where it can start soonest.
        """
        if self.is_even or self.units > PLACED * self.places:
            return self.cycles(costs, in_order=False)
        shorter = 2 * (self.longest - self.mean)
        ends = [0] * self.places
        for unit in range(self.units):
            keys = self.longest - shorter * unit // self.units
            heapreplace(ends, ends[0] + costs.tile + costs.keys(keys))
        return LAUNCH_CYCLES + costs.first + max(ends)

    def persistent_cycles(self, row: PredictedRow) -> int:
        """Return what persistent CTAs take.

        Costs of launches with a mask are exact there, so that their order is taken as it is. Those
        without one leave out what masked key tiles take more, and a longest query tile stands for
        both.
        """
        if row.causal and not self.is_even:
            return self.turns_cycles(row.persistent)
        return self.cycles(row.persistent, in_order=True)

    def turns_cycles(self, costs: Costs) -> int:
        """Return what persistent CTAs take that go head by head, back and forth, as they are.

        That order may meet the places by luck; :meth:`cycles` charges a longest query tile for it.
        """
        loads, heads = self.loads(costs), self.units // self.of_head
        busiest = unevenness(loads, heads, 1, self.places)
        return LAUNCH_CYCLES + costs.first + int(sum(loads) * heads * busiest) // self.places

    def handed_cycles(self, costs: Costs, order: HandedOrder) -> int:
        """Return what a launch with a mask takes whose query tiles go to whoever is free."""
        if self.is_even:
            return self.cycles(costs, in_order=False)
        return LAUNCH_CYCLES + costs.first + order.busiest(self.loads(costs), self.places)

    def loads(self, costs: Costs) -> tuple[int, ...]:
        """Return what each query tile of a head takes, the longest first."""
        shorter, last = 2 * (self.longest - self.mean), max(1, self.of_head - 1)
        keys = (self.longest - shorter * tile // last for tile in range(self.of_head))
        return tuple(costs.tile + costs.keys(count) for count in keys)


def choose_blackwell_query_tiles(
    spec: KernelSpec, sizes: AttentionSizes, num_sms: int, asked: int | None = None
) -> QueryTiles:
    """Return how many Q tiles a CTA takes: as predicted, or by the rules where both take about
    as long, or nothing is predicted: with few keys and a mask, too.

    Args:
        spec: the kernel with two Q tiles. sizes, num_sms: of the call.
        asked: the number that the caller insists on, or None.
    """
    ruled = choose_query_tiles(spec.config, sizes, asked)
    config, causal = spec.config, spec.variant.causal
    rows = _comparable_rows(spec, sizes)
    if ruled.is_final or None in rows or is_empty(sizes):
        return ruled
    one, two = (
        QueryTileLoad.of(of, sizes, num_sms, causal=causal).best_cycles(row)
        for of, row in zip((with_one_tile(config), config), rows, strict=True)
        if row is not None
    )
    predicted = f"predicted for a B200 are {one:,} cycles with one Q tile, {two:,} with two"
    best = 1 if one < two else 2
    are_exact = all(row and (row.causal or row.most_keys) for row in rows)
    clear = CLEAR_EXACTLY if are_exact else CLEAR
    if best == ruled.num_qo or min(one, two) > clear * max(one, two):
        return QueryTiles(ruled.num_qo, f"{ruled.reason}; {predicted}")
    return QueryTiles(best, predicted)


def choose_blackwell_scheduler(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> SchedulerChoice | None:
    """Return who takes the query tiles of a call that leaves it open; None: a CTA for each.

    Only plain kernels have predictions, and only launches of more query tiles than places a choice.
    With a mask dynamic CTAs are one too. Of packed sequences only the longest is known here: with a
    mask they are handed out, the longest query tiles first; over pages a sequence after the other.
    """
    if is_in_chunks(spec.variant):
        return _choice_of_chunks(spec, sizes, num_sms)
    packed = _is_packed(spec.variant)
    kernel = f"{spec.config.num_qo}q" if isinstance(spec, KernelSpec) else "pair"
    row = _row_of_depths(spec, kernel, UNMASKED) if packed else _row_of(spec, kernel)
    if sizes.seqlen_k < FEW_KEYS and not packed and (short := _short_rows(spec, sizes)):
        row = _row_of(spec, kernel, short) or row
    if row is None or is_empty(sizes):
        return None
    load = QueryTileLoad.of(spec.config, sizes, num_sms, causal=spec.variant.causal)
    if load.units <= load.places:
        return None
    if packed:
        return SchedulerChoice(Scheduler.DYNAMIC) if _hands_out(row, load, sizes) else None
    if not row.causal or load.is_even:
        tile, persistent = load.placed_cycles(row.tile), load.persistent_cycles(row)
        best = Scheduler.PERSISTENT if persistent < tile else Scheduler.TILE
        return SchedulerChoice(best, tile, persistent)
    return _choice_with_a_mask(row, load, spec, sizes)


def _choice_with_a_mask(
    row: PredictedRow, load: QueryTileLoad, spec: BlackwellSpec, sizes: AttentionSizes
) -> SchedulerChoice:
    """Return who takes query tiles that differ, by costs of launches with a mask, in the order of
    each scheduler as it is."""
    order = HandedOrder.of(spec, sizes, keeps_short=False)
    tile, persistent = load.handed_cycles(row.tile, order), load.turns_cycles(row.persistent)
    best = Scheduler.PERSISTENT if persistent < tile else Scheduler.TILE
    if row.dynamic is None:
        return SchedulerChoice(best, tile, persistent)
    order = HandedOrder.of(spec, sizes, keeps_short=True)
    dynamic = load.handed_cycles(row.dynamic, order)
    if dynamic < min(tile, AHEAD_OF_TURNS * persistent):
        best = Scheduler.DYNAMIC
    return SchedulerChoice(best, tile, persistent, dynamic)


def is_empty(sizes: AttentionSizes) -> bool:
    """Return whether there is nothing to compute."""
    return 0 in (sizes.batch, sizes.seqlen_q, sizes.seqlen_k, sizes.num_q_heads)


def _are_several(load: QueryTileLoad, sizes: AttentionSizes) -> bool:
    """Whether several packed query tiles come to a place, by what is known of them."""
    return load.units >= (SEVERAL_OF_ROWS if sizes.total_q else SEVERAL) * load.places


def _hands_out(row: PredictedRow, load: QueryTileLoad, sizes: AttentionSizes) -> bool:
    """Whether packed sequences are handed out: there are several query tiles to a place, and a key
    costs no more than elsewhere."""
    if row.dynamic is None or not _are_several(load, sizes):
        return False
    return AHEAD * row.dynamic.per_keys <= row.tile.per_keys


def _choice_of_chunks(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> SchedulerChoice | None:
    """Return dynamic CTAs for causal chunks over pages, where several query tiles come to a place
    and those that have rows take less than in a CTA of their own."""
    row = row_of_chunks(spec)
    if row is None or is_empty(sizes):
        return None
    load = QueryTileLoad.of(spec.config, sizes, num_sms, causal=True)
    full = sizes.full_query_tiles(TileShape.of(spec.config))
    empty = max(load.units - full, 0)
    pays = _are_several(load, sizes) and are_handed_out(row, load.longest, full, empty)
    return SchedulerChoice(Scheduler.DYNAMIC) if pays else None


def _is_packed(variant: Variant) -> bool:
    """Return whether a kernel is plain but for packed queries and keys, with a causal mask."""
    dense = replace(variant, ragged_q=False, by_rows=False, ragged_k=False)
    return variant.ragged_q and variant.ragged_k and variant.mask == CAUSAL and is_plain(dense)


def _comparable_rows(spec: BlackwellSpec, sizes: AttentionSizes) -> list[PredictedRow | None]:
    """Return the predictions for one and for two Q tiles: of launches with a mask, or of both
    without one, or of few keys."""
    if sizes.seqlen_k < FEW_KEYS:
        short = _short_rows(spec, sizes)
        return [_row_of(spec, kernel, short) if short else None for kernel in ("1q", "2q")]
    rows = [_row_of(spec, kernel) for kernel in ("1q", "2q")]
    if all(row is None or row.causal for row in rows):
        return rows
    return [_row_of(spec, kernel, UNMASKED) for kernel in ("1q", "2q")]


def _short_rows(spec: BlackwellSpec, sizes: AttentionSizes) -> tuple[PredictedRow, ...]:
    """Return the rows of as few keys as a call has; none with a mask."""
    if spec.variant.causal:
        return ()
    return tuple(row for row in SHORT if sizes.seqlen_k <= row.most_keys)


def _row_of(
    spec: BlackwellSpec, kernel: str, rows: tuple[PredictedRow, ...] = ()
) -> PredictedRow | None:
    """Return the predictions for ``kernel`` on a kernel's problem, or None.

    Of ``rows``, or of those that are for its mask.
    """
    variant = spec.variant
    plain = is_plain(variant) and variant.mask in (NULL, CAUSAL) and not variant.splits_keys
    rows = rows or (PREDICTED if variant.causal else UNMASKED)
    return _row_of_depths(spec, kernel, rows) if plain else None


def _row_of_depths(
    spec: BlackwellSpec, kernel: str, rows: tuple[PredictedRow, ...]
) -> PredictedRow | None:
    """Return the predictions for plain kernels of its element type and head dims, or None."""
    config = spec.config
    if isinstance(config, FA4Config) and config.pair_cta:
        return None
    return predicted_of(rows, kernel, config.qkv_dtype, config.depth, spec.output_depth)

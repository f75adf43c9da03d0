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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ..config.config import FA4Config
from ..config.predicted import PREDICTED, SHORT
from ..config.prediction import PredictedRow, predicted_of
from ..masks.key_tiles import most_visited
from ..masks.masks import CAUSAL, NULL
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from ..spec.register_tuning import is_plain
from ..spec.variant import Scheduler, Variant
from .chunks import are_handed_out, ends_at_row, is_in_chunks, row_of_chunks
from .handed import HandedOrder
from .key_splits import percent_less
from .loads import IntervalLoad, QueryTileLoad, is_interval, kernel_of, reading_cycles, told
from .selection import FEW_KEYS, QueryTiles, choose_query_tiles, with_one_tile
from .tiles import AttentionSizes, TileShape

BlackwellSpec = KernelSpec | Depth512Spec
CLEAR: Final = 0.9
"""Predictions say otherwise than a rule where they differ by more than this share."""
CLEAR_EXACTLY: Final = 0.95
"""That share where both were made of launches like it: with a mask, so that masked key tiles count,
or with few keys."""
AHEAD: Final = 0.97
"""Packed query tiles are handed out where one is predicted to take no more than others over this.
What a key costs differs by so much between kernels whose loops are the same."""
AHEAD_OF_TURNS: Final = 0.99
"""Query tiles that differ are handed out where that is predicted to take less than this share of a
fixed order: start and query tile of persistent CTAs are told apart by a fit that is off by about a
hundredth."""
SEVERAL: Final = 3
"""Query tiles of a place, by the longest sequence, from which on packed ones are handed out."""
SEVERAL_OF_ROWS: Final = 2
"""The same where the rows of all sequences are known, so that these have as many indeed."""
DEAREST: Final = 4
"""How many times as much as without it a key may cost with a function of scores."""
UNMASKED: Final = tuple(row for row in PREDICTED if not row.causal)
"""Rows of kernels without a mask."""


@dataclass(frozen=True)
class SchedulerChoice:
    """The decision: who takes query tiles, and what each costs; 0 where that is not predicted.

    Of a function of scores nothing is. In ``reading_cycles`` memory gives keys and values; from the
    share ``worth`` of the others on the last wins; what ``has_copies`` counts as rows held once.
    """

    scheduler: Scheduler
    tile_cycles: int = 0
    persistent_cycles: int = 0
    dynamic_cycles: int = 0
    has_function: bool = False
    reading_cycles: int = 0
    worth: float = 1
    has_copies: bool = False

    @property
    def by_whom(self) -> dict[Scheduler, int]:
        """What is predicted, by who takes the query tiles."""
        counts = self.tile_cycles, self.persistent_cycles, self.dynamic_cycles
        return {by: count for by, count in zip(_WHO, counts, strict=False) if count}

    @property
    def text(self) -> str:
        """The decision in words."""
        taken = _WHO[self.scheduler]
        if self.has_function:
            dear = f"as well with keys that cost {DEAREST} times as much"
            return f"{taken}: predicted for a B200 without the function of scores, and {dear}"
        if not self.tile_cycles:
            return f"{taken}: only the device knows how long each sequence is"
        by_whom = self.by_whom
        names = {by: _WHO[by].replace(" CTAs", " ones") for by in by_whom}
        words = told({names[by]: count for by, count in by_whom.items()}, self.reading_cycles)
        least, why = min(by_whom, key=by_whom.__getitem__), ""
        if self.worth < 1 and by_whom[least] < by_whom[self.scheduler]:
            why = f"; {names[least]} win only by more than {percent_less(self.worth)} %"
        told_of = "means of draws, with rows held once" if self.has_copies else "means of draws"
        return f"{taken}: predicted for a B200 are {words}{why} (of {told_of})"


_WHO: Final = {
    Scheduler.TILE: "a CTA for every query tile",
    Scheduler.PERSISTENT: "persistent CTAs",
    Scheduler.DYNAMIC: "dynamic CTAs",
    Scheduler.STREAM_K: "stream-K, CTAs that take as many keys each",
}


def choose_blackwell_query_tiles(
    spec: KernelSpec, sizes: AttentionSizes, num_sms: int, asked: int | None = None
) -> QueryTiles:
    """Return how many Q tiles a CTA takes: as predicted, or by the rules where both take about
    as long, or nothing is predicted: with few keys and a mask, too.

    Args:
        spec: the kernel with two Q tiles, or with one where there is none of two.
        sizes, num_sms: of the call. asked: the number that the caller insists on, or None.
    """
    ruled = choose_query_tiles(spec.config, sizes, asked)
    if asked is None and ruled.num_qo > 1 and (spec.variant.in_cluster or spec.variant.last_joins):
        return QueryTiles(1, "CTAs that join the splits of a query tile have one", is_final=True)
    config, causal = spec.config, spec.variant.causal
    rows = _comparable_rows(spec, sizes)
    if ruled.is_final or None in rows or is_empty(sizes):
        return ruled
    one, two = (
        QueryTileLoad.of(of, sizes, num_sms, causal=causal).best_cycles(row)
        for of, row in zip((with_one_tile(config), config), rows, strict=True)
        if row is not None
    )
    counts = told({"one Q tile": one, "two": two}, reading_cycles(spec, sizes))
    predicted = f"predicted for a B200 are {counts}{_what_counts(rows, causal=causal)}"
    best = 1 if one < two else 2
    are_exact = all(row and (row.causal or row.most_keys) for row in rows)
    clear = CLEAR_EXACTLY if are_exact else CLEAR
    if best == ruled.num_qo:
        return QueryTiles(best, f"{ruled.reason}; {predicted}")
    if min(one, two) > clear * max(one, two):
        why = f"within {percent_less(clear)} % the rule decides"
        return QueryTiles(ruled.num_qo, f"{ruled.reason}; {predicted}; {why}")
    return QueryTiles(best, predicted)


def _what_counts(rows: Iterable[PredictedRow | None], *, causal: bool) -> str:
    """Say what predictions of one and two Q tiles are, and what others count besides."""
    told_of = " (of means of draws"
    if causal:
        masked = all(row and row.causal for row in rows)
        told_of += ", without dynamic CTAs" + ("" if masked else ", and by unmasked keys")
    return f"{told_of})"


def choose_blackwell_scheduler(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> SchedulerChoice | None:
    """Return who takes the query tiles of a call that leaves it open; None: a CTA for each.

    Only plain kernels have predictions, and those whose only additions are a sink, which costs as
    much whoever takes a query tile, and a function of scores. What that costs is not known: who
    takes query tiles has to be the same with keys as cheap as without it and ``DEAREST`` times as
    dear.
    """
    if spec.variant.sink:
        if not _may_have_sink(spec):
            return None
        spec = replace(spec, variant=replace(spec.variant, sink=False))
    if spec.variant.score_mod is None:
        found = _choice(spec, sizes, num_sms)
        return found and replace(found, has_copies=spec.config.row_copies > 1)
    spec = replace(spec, variant=replace(spec.variant, score_mod=None))
    cheap, dear = (_choice(spec, sizes, num_sms, times) for times in (1, DEAREST))
    if cheap is None or dear is None or cheap.scheduler is not dear.scheduler:
        return None
    return SchedulerChoice(cheap.scheduler, has_function=True)


def _choice(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int, times: int = 1
) -> SchedulerChoice | None:
    """Return the choice where keys cost so many ``times`` as much as predicted.

    Only launches of more query tiles than places are one. With a causal mask dynamic CTAs are one
    too. Of packed sequences only the longest is known here: with a mask they are handed out, the
    longest query tiles first; over pages a sequence after the other.
    """
    if is_in_chunks(spec.variant):
        return _choice_of_chunks(spec, sizes, num_sms, times)
    if is_interval(spec.variant):
        return _choice_of_intervals(spec, sizes, num_sms, times)
    packed, kernel = _is_packed(spec.variant), kernel_of(spec)
    if kernel is None:
        return None
    row = _row_of_depths(spec, kernel, UNMASKED) if packed else _row_of(spec, kernel)
    if sizes.seqlen_k < FEW_KEYS and not packed and (short := _short_rows(spec, sizes)):
        row = _row_of(spec, kernel, short) or row
    if row is None or is_empty(sizes):
        return None
    row = row.with_dear_keys(times)
    load = QueryTileLoad.of(spec.config, sizes, num_sms, causal=spec.variant.causal)
    if load.units <= load.places:
        return None
    if packed:
        handed = _are_several(load, sizes) and _hands_out(row, spec, sizes)
        return SchedulerChoice(Scheduler.DYNAMIC) if handed else None
    if not row.causal or load.is_even:
        tile, persistent = load.placed_cycles(row.tile), load.persistent_cycles(row)
        best = Scheduler.PERSISTENT if persistent < tile else Scheduler.TILE
        return SchedulerChoice(best, tile, persistent, reading_cycles=reading_cycles(spec, sizes))
    return _choice_with_a_mask(row, load, spec, sizes)


def _may_have_sink(spec: BlackwellSpec) -> bool:
    """Return whether a persistent kernel hands O over to the correction role with a sink, too."""
    return isinstance(spec, KernelSpec) and spec.config.crosses


def _choice_of_intervals(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int, times: int
) -> SchedulerChoice | None:
    """Return persistent CTAs for a window, whose query tiles have about as many keys each.

    Costs are those of causal launches. All key tiles of a narrow window are masked and so cost
    more, whoever takes them.
    """
    kernel = kernel_of(spec)
    row = _row_of_depths(spec, kernel, PREDICTED) if kernel in ("2q", "pair") else None
    if row is None or is_empty(sizes):
        return None
    row = row.with_dear_keys(times)
    load = IntervalLoad.of(spec, sizes, num_sms)
    if load.units <= load.places:
        return None
    tile, persistent = load.tile_cycles(row.tile), load.persistent_cycles(row.persistent)
    best = Scheduler.PERSISTENT if persistent < CLEAR_EXACTLY * tile else Scheduler.TILE
    reading = reading_cycles(spec, sizes, min(max(load.keys), sizes.seqlen_k))
    return SchedulerChoice(best, tile, persistent, reading_cycles=reading, worth=CLEAR_EXACTLY)


def _choice_with_a_mask(
    row: PredictedRow, load: QueryTileLoad, spec: BlackwellSpec, sizes: AttentionSizes
) -> SchedulerChoice:
    """Return who takes query tiles that differ, by costs of launches with a mask, in the order of
    each scheduler as it is."""
    order = HandedOrder.of(spec, sizes, keeps_short=False)
    tile, persistent = load.handed_cycles(row.tile, order), load.turns_cycles(row.persistent)
    best = Scheduler.PERSISTENT if persistent < tile else Scheduler.TILE
    reading = reading_cycles(spec, sizes)
    if row.dynamic is None:
        return SchedulerChoice(best, tile, persistent, reading_cycles=reading)
    order = HandedOrder.of(spec, sizes, keeps_short=True)
    dynamic = load.handed_cycles(row.dynamic, order)
    if dynamic < min(tile, AHEAD_OF_TURNS * persistent):
        best = Scheduler.DYNAMIC
    return SchedulerChoice(
        best, tile, persistent, dynamic, reading_cycles=reading, worth=AHEAD_OF_TURNS
    )


def is_empty(sizes: AttentionSizes) -> bool:
    """Return whether there is nothing to compute."""
    return 0 in (sizes.batch, sizes.seqlen_q, sizes.seqlen_k, sizes.num_q_heads)


def _are_several(load: QueryTileLoad, sizes: AttentionSizes) -> bool:
    """Whether several packed query tiles come to a place, by what is known of them."""
    return load.units >= (SEVERAL_OF_ROWS if sizes.total_q else SEVERAL) * load.places


def _hands_out(row: PredictedRow, spec: BlackwellSpec, sizes: AttentionSizes) -> bool:
    """Whether packed query tiles are better handed out: one with as many keys as any may have takes
    no more than in a CTA of its own."""
    if row.dynamic is None:
        return False
    keys = _most_visited(spec, sizes)
    alone, handed = (costs.query_tile(keys) for costs in (row.tile, row.dynamic))
    return AHEAD * handed <= alone


def _most_visited(spec: BlackwellSpec, sizes: AttentionSizes) -> int:
    """Return how many keys a query tile of packed sequences visits at most."""
    positions = TileShape.of(spec.config).positions
    return most_visited(spec.variant.mask, positions, sizes.seqlen_k, spec.config.BN)


def _choice_of_chunks(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int, times: int
) -> SchedulerChoice | None:
    """Return dynamic CTAs for causal chunks over pages, where several query tiles come to a place
    and those that have rows take less than in a CTA of their own."""
    row = row_of_chunks(spec)
    if row is None or is_empty(sizes):
        return None
    row = row.with_dear_keys(times)
    load = QueryTileLoad.of(spec.config, sizes, num_sms, causal=True)
    full = sizes.full_query_tiles(TileShape.of(spec.config))
    empty = max(load.units - full, 0)
    most = _most_visited(spec, sizes)
    pays = _are_several(load, sizes) and are_handed_out(row, most, full, empty)
    return SchedulerChoice(Scheduler.DYNAMIC) if pays else None


def _is_packed(variant: Variant) -> bool:
    """Return whether a kernel is plain but for packed queries and keys, with a mask that is causal
    and may be a window."""
    dense = replace(variant, ragged_q=False, by_rows=False, ragged_k=False)
    return variant.ragged_q and variant.ragged_k and ends_at_row(variant.mask) and is_plain(dense)


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

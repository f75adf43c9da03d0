"""Into how many splits the keys of the Blackwell kernels fall, and where their results meet.

A step of decoding has a CTA for every key/value head, a prompt of few heads one for every query
tile: often fewer than SMs. Then keys are split until CTAs fill the device, as long as putting the
partial results together costs less than that saves. How many Q tiles the CTAs of a prompt have then
is chosen with the splits (``prompt_splits``). The CTAs of a cluster exchange them through
shared memory, but start together, in one GPC: of clusters of four or eight fewer run at once than
SMs would hold (``plan.facts.clusters``). Any number goes through a workspace, from where the last
CTA of a query tile reads them, or a launch that combines, which takes longer the more rows there
are. CTA pairs, and CTAs with two Q tiles, have that launch only.

All cycles are predictions for a B200 (``plan.config.predicted.DECODING``), medians over what is not
known of it, where those of query tiles are means. Sizes are those that the host knows: of a cache,
the room in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from ..config.config import FA4Config
from ..config.predicted import (
    BOX_CYCLES,
    DECODING,
    LAUNCH_CYCLES,
    PREDICTED,
)
from ..config.prediction import EXCHANGED, ROWS_AT_ONCE, Costs, DecodingRow, predicted_of
from ..config.reduce_scatter import ReduceScatterPlan
from ..facts.clusters import EXCHANGE_BYTES_PER_CYCLE, clusters_at_once
from ..facts.dtypes import DType
from ..facts.hardware import TMEM_LANES, align_up, ceil_div
from ..masks.masks import CAUSAL, NULL
from ..memory.chunks import boxes_of_tile
from ..spec.combine_spec import MAX_SPLITS, rounds_of_loads
from ..spec.variant import Partition, Variant
from .key_splits import (
    MOST_ROUNDS,
    WORTH,
    ChoiceWords,
    KeySplits,
    percent_less,
    split_candidates,
    tiles_in_line,
)
from .loads import QueryTileLoad, kernel_of, reading_cycles
from .sm100_selection import CLEAR, UNMASKED, BlackwellSpec, is_empty
from .split_selection import CLUSTER_DEPTHS, PLACES, SplitChoice
from .tiles import AttentionSizes, TileShape

CLUSTERED: Final = WORTH
"""A cluster is taken where that is predicted to take less than this share of both others. Of
executed launches those that the table had at 0.94 and less took 0.85 to 0.95, with bands up to
1.01; one that it had at 0.995 up to 1.04."""
MANY_KEYS: Final = 1024
"""Keys of a CTA down to which numbers of splits are tried that give all SMs as many CTAs; with
fewer, those that give a CTA as many key tiles as any other. Costs are a line through CTAs of this
many keys and of sixteen times as many: one of 128 to 896 takes 0.91 to 0.99 of it, of head
dimension 64 0.69 to 0.89, a pair of 512 columns 0.96 to 1.19."""
FEW_QUERIES: Final = TMEM_LANES
"""Queries up to which keys of kernels with rope columns are split like those of a step of decoding,
also where the heads of a group make several query tiles of them, and more than places."""
LOADED_ROWS: Final = 2
"""By how much more a row of a combining launch costs with each further round of loads: executed
launches of 8,192 rows take 1.6 to 1.7 times as much more, those of pairs 0.9."""
FEW_SPLITS: Final = 8
"""Splits up to which every number is tried, not only those that give all SMs as many CTAs."""


class BlackwellSplits(NamedTuple):
    """The decision: how many splits, and where they meet; None: the rules say that.

    ``cycles`` are what the launch is predicted to take.
    """

    key_splits: KeySplits
    joined: SplitChoice | None
    cycles: int = 0


@dataclass(frozen=True)
class SplitLoad:
    """A launch with one query tile to a CTA or pair, whose keys may be split.

    Attributes:
        tiles: its query tiles when keys are not split. rows: of O, over all heads.
        tile_rows: those of a query tile.
        memory_cycles: in which the device reads all keys and values. row: what its parts cost.
        ov_depth: columns of O. key_tile: keys that a CTA takes at once.
    """

    tiles: QueryTileLoad
    rows: int
    tile_rows: int
    memory_cycles: int
    row: DecodingRow
    ov_depth: int
    key_tile: int = 1

    @classmethod
    def of(
        cls, spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int, row: DecodingRow
    ) -> SplitLoad:
        """Return the load of a kernel with one Q tile per CTA, or of pairs."""
        config = spec.config
        tiles = QueryTileLoad.of(config, sizes, num_sms, causal=spec.variant.causal)
        rows = sizes.num_queries * sizes.num_q_heads
        of_tile = min(spec.tile_positions, sizes.seqlen_q) * spec.rows_per_position
        moving = reading_cycles(spec, sizes)
        return cls(tiles, rows, of_tile, moving, row, spec.output_depth, config.BN)

    def candidates(self, keys: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return numbers of splits that give all SMs as many CTAs, each with many keys, and 1; and
        others, which have to be clearly sooner: few, and those whose CTAs have a few key tiles,
        each the smallest number that gives none more."""
        units, places = self.tiles.units, self.tiles.places
        even = split_candidates(units, places, min(keys // MANY_KEYS, MAX_SPLITS))
        tiles = ceil_div(keys, self.key_tile)
        most = min(tiles, MAX_SPLITS, max(FEW_SPLITS, MOST_ROUNDS * places // units))
        shorter = (ceil_div(tiles, of_cta) for of_cta in range(1, MANY_KEYS // self.key_tile + 1))
        few = range(2, min(FEW_SPLITS, most) + 1)
        return even, tuple({*few, *(count for count in shorter if 1 < count <= most)})

    def cycles(self, num_splits: int) -> dict[Partition, int]:
        """Return what the launch takes with what comes after it, by where the splits meet: the
        CTAs of a cluster or the last CTA put them together, or a launch that combines them."""
        units, places = self.tiles.units, self.tiles.places
        apart = self._placed_cycles(num_splits, units * num_splits, places, self.row.tile)
        found = {}
        for where in self.places_of(num_splits):
            joining = self.joining_cycles(num_splits, where)
            work = apart + joining
            if where is Partition.CLUSTER:
                costs = self.row.tile._replace(tile=self.row.tile.tile + joining)
                at_once = clusters_at_once(places, num_splits)
                work = self._placed_cycles(num_splits, units, at_once, costs)
            found[where] = max(work, LAUNCH_CYCLES + self.memory_cycles + joining)
        return found

    def _placed_cycles(self, num_splits: int, units: int, places: int, costs: Costs) -> int:
        """Return what ``units`` CTAs or clusters take, of which ``places`` run at once.

        Splits differ by a key tile at most, so that a place has one more in one of its rounds.
        """
        parts = replace(
            self.tiles,
            units=units,
            places=places,
            longest=ceil_div(self.tiles.longest, num_splits),
            mean=ceil_div(self.tiles.mean, num_splits),
        )
        more = align_up(parts.longest, self.key_tile) - parts.longest
        return parts.placed_cycles(costs) + costs.keys(more)

    def joining_cycles(self, num_splits: int, partition: Partition) -> int:
        """Return what it takes to put the splits together when all are there: of a query tile in
        a cluster, else of all."""
        if num_splits == 1:
            return 0
        if partition is Partition.CLUSTER:
            return self.row.exchange_of(num_splits) + _moving_cycles(num_splits, self.ov_depth)
        rounds = rounds_of_loads(num_splits)
        if partition is Partition.LAST and self.row.last:
            turns = ceil_div(self.tile_rows, ROWS_AT_ONCE)
            return self.row.last.of(turns * rounds, turns)
        return self.row.combine.of(rounds, self.rows * (1 + LOADED_ROWS * rounds))

    def places_of(self, num_splits: int) -> tuple[Partition, ...]:
        """Return where so many partial results may meet: in a cluster where what it costs, and
        how many run at once, are known."""
        if self.row.last is None:
            return (Partition.WORKSPACE,)
        shallow, deep = CLUSTER_DEPTHS
        known = num_splits in EXCHANGED and shallow <= self.ov_depth <= deep
        if known and clusters_at_once(self.tiles.places, num_splits):
            return tuple(PLACES)
        return Partition.LAST, Partition.WORKSPACE

    def joined(self, num_splits: int, cycles: dict[Partition, int]) -> SplitChoice | None:
        """Return where so many partial results meet, by ``cycles``; None: keys are not split."""
        if num_splits == 1:
            return None
        best = place_of(cycles)
        first, *others = (f"{count:,}{{}} {PLACES[place]}" for place, count in cycles.items())
        if Partition.CLUSTER in cycles:
            first += f" ({clusters_at_once(self.tiles.places, num_splits)} at once)"
        told = ", ".join((first.format(" cycles"), *(other.format("") for other in others)))
        if cycles[best] > min(cycles.values()):
            told += f"; a cluster wins only by more than {percent_less(CLUSTERED)} %"
        told += " (of medians of draws)"
        return SplitChoice(best, num_splits, f"predicted for a B200 are {told}")


def place_of(cycles: Mapping[Partition, int]) -> Partition:
    """Return where partial results meet, by predicted cycles of each place."""
    apart = {place: count for place, count in cycles.items() if place is not Partition.CLUSTER}
    best = min(apart, key=apart.__getitem__)
    clustered = cycles.get(Partition.CLUSTER, apart[best])
    return Partition.CLUSTER if clustered < CLUSTERED * apart[best] else best


def choose_blackwell_splits(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> BlackwellSplits | None:
    """Return into how many splits the keys of a call fall that leaves it open; None: no choice.

    Two kinds of launches have predictions. Steps of decoding have all rows of a head in one query
    tile, or, beside rope columns, few queries, and a mask that shows whole sequences.
    Prompts, whole or in chunks over a cache, have fewer query tiles than places. They are split
    where predictions differ clearly, since those with a mask are not exact.

    Keys whose scores are changed cost no less than others, and nothing else of a step does: splits
    that pay for others pay for them, too, and more of them than are chosen might.
    """
    row = decoding_row_of(spec, spec.variant)
    if row is None or is_empty(sizes):
        return None
    load = SplitLoad.of(spec, sizes, num_sms, row)
    units, worth = load.tiles.units, WORTH
    if sizes.seqlen_q > _queries_of_step(spec):
        if units > load.tiles.places:
            return None
        worth = CLEAR
    even, others = load.candidates(sizes.seqlen_k)
    if not others:
        return None
    found = {count: load.cycles(count) for count in {*even, *others}}
    cycles = {count: by_place[place_of(by_place)] for count, by_place in found.items()}
    best, least = (min(counts, key=cycles.__getitem__) for counts in (even, others))
    if cycles[least] < WORTH * cycles[best]:
        best = least
    words = ChoiceWords(_changes_scores(spec.variant), spec.cluster_size * units)
    if cycles[best] > worth * cycles[1]:
        return BlackwellSplits(KeySplits(1, words.of_whole(cycles, worth)), None, cycles[1])
    reason = words.of_split(cycles, best, gives_all_as_many=best in even)
    return BlackwellSplits(KeySplits(best, reason), load.joined(best, found[best]), cycles[best])


def predicted_for_asked(
    spec: BlackwellSpec, sizes: AttentionSizes, num_splits: int, num_sms: int
) -> KeySplits | None:
    """Return a number of splits that a caller asks for, with what it is predicted to take; None:
    nothing is predicted."""
    row = decoding_row_of(spec, spec.variant)
    if row is None or is_empty(sizes):
        return None
    load = SplitLoad.of(spec, sizes, num_sms, row)
    units = load.tiles.units
    if sizes.seqlen_q > _queries_of_step(spec) and units > load.tiles.places:
        return None
    cycles, where = {1: min(load.cycles(1).values())}, spec.variant.partition
    if num_splits > 1:
        split = load.cycles(num_splits)
        if where not in split:
            return None
        cycles[num_splits] = split[where]
    words = ChoiceWords(_changes_scores(spec.variant), spec.config.cta_group() * units)
    return KeySplits(num_splits, words.of_asked(cycles, num_splits))


def cycles_of_last(
    spec: BlackwellSpec,
    sizes: AttentionSizes,
    num_splits: int,
    num_sms: int,
    lengths: Sequence[int] = (),
) -> int:
    """Return how long the last CTA of a query tile joins splits when all keys have been read.

    It is 0 where it joins none, or nothing is predicted. With stream-K query tiles have parts of
    their own, of which the most count; ``lengths`` are keys of sequences that differ.
    """
    variant = spec.variant
    if variant.streams_keys:
        variant = replace(variant, scheduler=Variant().scheduler)
        num_splits = _most_parts(spec, sizes, num_sms, lengths or [sizes.seqlen_k] * sizes.batch)
    row = decoding_row_of(spec, variant)
    if row is None or row.last is None or not spec.variant.last_joins:
        return 0
    load = SplitLoad.of(spec, sizes, num_sms, row)
    return load.joining_cycles(num_splits, Partition.LAST)


def _most_parts(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int, lengths: Sequence[int]
) -> int:
    """Return how many parts a query tile of a stream-K launch has at most, without a mask."""
    tiles = tiles_in_line(spec, sizes, lengths, num_sms)
    return max(int(tile.part(0).num_parts) for tile in tiles)


@lru_cache(maxsize=64)
def _moving_cycles(size: int, depth: int) -> int:
    """Return how long it takes at most until a CTA has what it reads of its cluster's others.

    The timing model has a latency for it and no rate: it comes on top, at the lower published one.
    """
    plan = ReduceScatterPlan(size, TMEM_LANES, depth, DType.BF16)
    return plan.remote_bytes // min(EXCHANGE_BYTES_PER_CYCLE)


def _queries_of_step(spec: BlackwellSpec) -> int:
    """Return how many queries a step of decoding has at most."""
    positions = TileShape.of(spec.config).positions
    has_rope = isinstance(spec.config, FA4Config) and spec.config.rope_depth() > 0
    return max(positions, FEW_QUERIES) if has_rope else positions


def _changes_scores(variant: Variant) -> bool:
    """Whether something is done to scores besides the scale."""
    return variant.score_mod is not None or variant.sink or variant.token_scales


def decoding_row_of(spec: BlackwellSpec, variant: Variant) -> DecodingRow | None:
    """Return the predictions for a kernel with a CTA or pair for every query tile, or None.

    ``variant`` is its own, or what counts as it.
    """
    config = spec.config
    whole = replace(variant, partition=Partition.NONE, num_partitions=Variant().num_partitions)
    dense = replace(whole, ragged_q=False, by_rows=False)
    cache = replace(dense, mask=NULL, return_lse=False, used_k=False, page_size=0)
    known = replace(cache, score_mod=None, sink=False, token_scales=False) == Variant()
    if not known or variant.mask not in (NULL, CAUSAL) or kernel_of(spec) is None:
        return None
    kernel = "1q" if isinstance(config, FA4Config) else "pair"
    if config.row_copies > 1:
        kernel = "few" if isinstance(config, FA4Config) else "few pair"
    of = config.qkv_dtype, config.depth, spec.output_depth
    row = predicted_of(DECODING, kernel, *of)
    if row is not None and isinstance(config, FA4Config) and config.num_qo > 1:
        # Two Q tiles take part in prompts only, and only a launch puts their splits together.
        taken = predicted_of(PREDICTED if variant.causal else UNMASKED, "2q", *of)
        row = row._replace(kernel="2q", tile=taken.tile, exchange=(), last=None) if taken else None
    if row is None:
        return None
    # Tables are of launches without pages, whose boxes are as large as they can be.
    asked_for = BOX_CYCLES * boxes_of_tile(config)
    return row._replace(tile=row.tile.no_sooner_than(asked_for, config.BN))

"""The Blackwell kernels' choices by predicted times: query tiles of a CTA and their order, splits.

Two Q tiles in a CTA share the keys they load, and take less than twice one. One Q tile has twice
the CTAs, which fill SMs that would have none, or leave fewer idle at the end.

A CTA for every query tile pays for its start and its end each time, and an SM that is free takes
the next one. A persistent CTA loads the keys of the next query tile while the one before ends; the
order of its query tiles is fixed, so with a mask the longest one may come last.

A decoding step has a CTA for every key/value head, often fewer than SMs: its keys are split until
CTAs fill the device, as long as the launch that combines the partial results costs less than that
saves.

All cycles are predictions for a B200 (``plan.config.predicted``), medians over what is not known
of it. Sizes are those that the host knows: of a cache, the room in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heapreplace
from math import prod
from typing import Final

from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..config.predicted import DECODING, LAUNCH_CYCLES, MEMORY_BYTES_PER_CYCLE, PREDICTED
from ..config.prediction import Costs, DecodingRow, PredictedRow, predicted_of
from ..facts.hardware import align_up, ceil_div
from ..masks.masks import CAUSAL, NULL
from ..spec.combine_spec import MAX_SPLITS
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from ..spec.register_tuning import is_plain
from ..spec.variant import Partition, Scheduler, Variant
from .key_splits import WORTH, KeySplits, split_candidates
from .launch import AttentionSizes
from .selection import LONG_PROMPT, QueryTiles, choose_query_tiles, with_one_tile
from .split_selection import CLUSTER_DEPTHS, CLUSTER_SIZES, SplitChoice
from .tiles import TileShape

BlackwellSpec = KernelSpec | Depth512Spec
FEW_KEYS: Final = 1024
"""Keys with which start and end of a query tile count most; the fewest of a prediction."""
MANY_ROUNDS: Final = 4 * LONG_PROMPT
"""Queries with which every SM takes many query tiles."""
CLEAR: Final = 0.9
"""Predictions say otherwise than a rule where they differ by more than this share."""
PLACED: Final = 8
"""Query tiles of a place up to which their order is followed."""
LEAST_KEYS: Final = 1024
"""Fewer keys than this are not worth a CTA of their own."""
FEW_SPLITS: Final = 8
"""Splits up to which every number is tried, not only those that give all SMs as many CTAs."""


@dataclass(frozen=True)
class SchedulerChoice:
    """The decision: who takes query tiles, and what both cost."""

    scheduler: Scheduler
    tile_cycles: int
    persistent_cycles: int

    @property
    def text(self) -> str:
        """The decision in words."""
        is_persistent = self.scheduler is Scheduler.PERSISTENT
        taken = "persistent CTAs" if is_persistent else "a CTA for every query tile"
        return (
            f"{taken}: predicted for a B200 are {self.tile_cycles:,} cycles with a CTA for every "
            f"query tile, {self.persistent_cycles:,} with persistent ones"
        )


@dataclass(frozen=True)
class QueryTileLoad:
    """The query tiles of a launch as their cost depends on them.

    Attributes:
        units: how many. places: how many are computed at the same time.
        longest: keys of the longest one. mean: keys of one on average.
        is_even: whether all have as many.
    """

    units: int
    places: int
    longest: int
    mean: int
    is_even: bool

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
        units = prod(sizes.blocks(shape)) // size
        return cls(units, places, keys, (first + keys) // 2, first == keys)

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
        return min(tile, self.cycles(row.persistent, in_order=True))

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


def choose_blackwell_query_tiles(
    spec: KernelSpec, sizes: AttentionSizes, num_sms: int, asked: int | None = None
) -> QueryTiles:
    """Return how many Q tiles a CTA takes: as predicted, or by the rules where both take about
    as long, or nothing is predicted: with fewer keys than the tables were made of, too.

    Args:
        spec: the kernel with two Q tiles. sizes, num_sms: of the call.
        asked: the number that the caller insists on, or None.
    """
    ruled = choose_query_tiles(spec.config, sizes, asked)
    config, causal = spec.config, spec.variant.causal
    rows = [_row_of(spec, kernel) for kernel in ("1q", "2q")]
    if ruled.is_final or None in rows or sizes.seqlen_k < FEW_KEYS or _is_empty(sizes):
        return ruled
    one, two = (
        QueryTileLoad.of(of, sizes, num_sms, causal=causal).best_cycles(row)
        for of, row in zip((with_one_tile(config), config), rows, strict=True)
        if row is not None
    )
    predicted = f"predicted for a B200 are {one:,} cycles with one Q tile, {two:,} with two"
    best = 1 if one < two else 2
    if best == ruled.num_qo or min(one, two) > CLEAR * max(one, two):
        return QueryTiles(ruled.num_qo, f"{ruled.reason}; {predicted}")
    return QueryTiles(best, predicted)


def choose_blackwell_scheduler(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> SchedulerChoice | None:
    """Return who takes the query tiles of a call that leaves it open; None: a CTA for each.

    Only plain kernels have predictions, and only launches of more query tiles than places a choice.
    """
    row = _row_of(spec, f"{spec.config.num_qo}q" if isinstance(spec, KernelSpec) else "pair")
    if row is None or _is_empty(sizes):
        return None
    load = QueryTileLoad.of(spec.config, sizes, num_sms, causal=spec.variant.causal)
    if load.units <= load.places:
        return None
    tile = load.placed_cycles(row.tile)
    persistent = load.cycles(row.persistent, in_order=True)
    best = Scheduler.PERSISTENT if persistent < tile else Scheduler.TILE
    return SchedulerChoice(best, tile, persistent)


def _is_empty(sizes: AttentionSizes) -> bool:
    return 0 in (sizes.batch, sizes.seqlen_q, sizes.seqlen_k, sizes.num_q_heads)


def _row_of(spec: BlackwellSpec, kernel: str) -> PredictedRow | None:
    """Return the predictions for ``kernel`` on a kernel's problem, or None."""
    config, variant = spec.config, spec.variant
    plain = is_plain(variant) and variant.mask in (NULL, CAUSAL) and not variant.splits_keys
    if not plain or (isinstance(config, FA4Config) and config.pair_cta):
        return None
    return predicted_of(PREDICTED, kernel, config.qkv_dtype, config.depth, spec.output_depth)


@dataclass(frozen=True)
class DecodingLoad:
    """A launch with one query tile to each key/value head, whose keys may be split.

    Attributes:
        units: CTAs when keys are not split. num_sms: SMs of the device. keys: of a sequence.
        memory_cycles: in which the device reads all keys and values. row: what its parts cost.
        ov_depth: columns of O.
    """

    units: int
    num_sms: int
    keys: int
    memory_cycles: int
    row: DecodingRow
    ov_depth: int

    @classmethod
    def of(
        cls, spec: KernelSpec, sizes: AttentionSizes, num_sms: int, row: DecodingRow
    ) -> DecodingLoad:
        """Return the load of a kernel with one Q tile per CTA."""
        config = spec.config
        heads = sizes.num_q_heads // (config.group if config.fuse_gqa else 1)
        key_bytes = (config.depth + spec.output_depth) * config.qkv_dtype_size
        moved = sizes.batch * sizes.num_kv_heads * sizes.seqlen_k * key_bytes
        keys = align_up(sizes.seqlen_k, config.BN)
        memory = moved // MEMORY_BYTES_PER_CYCLE
        return cls(sizes.batch * heads, num_sms, keys, memory, row, spec.output_depth)

    def cycles(self, num_splits: int, partition: Partition = Partition.WORKSPACE) -> int:
        """Return what the launch takes, and the one that combines splits in a workspace."""
        rounds = ceil_div(self.units * num_splits, self.num_sms)
        costs = self.row.tile
        if partition is Partition.CLUSTER:
            costs = costs._replace(tile=costs.tile + self.row.exchange)
        busiest = costs.of(rounds, rounds * ceil_div(self.keys, num_splits))
        combines = num_splits > 1 and partition is Partition.WORKSPACE
        joined = self.row.combine.of(num_splits, 0) if combines else 0
        return LAUNCH_CYCLES + max(busiest, self.memory_cycles) + joined

    def best_cycles(self, num_splits: int) -> int:
        """Return what the launch takes with the better place for partial results to meet."""
        return min(self.cycles(num_splits, where) for where in self.places_of(num_splits))

    def places_of(self, num_splits: int) -> tuple[Partition, ...]:
        """Return where so many partial results may meet without leaving SMs idle."""
        shallow, deep = CLUSTER_DEPTHS
        if num_splits in CLUSTER_SIZES and shallow <= self.ov_depth <= deep:
            return Partition.CLUSTER, Partition.WORKSPACE
        return (Partition.WORKSPACE,)


def choose_blackwell_splits(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> KeySplits | None:
    """Return into how many splits the keys of a call fall that leaves it open; None: no choice.

    Only steps of decoding have predictions: all rows of a head in one query tile, a mask that shows
    whole sequences, and no change of scores.
    """
    row = _decoding_row_of(spec)
    if row is None or _is_empty(sizes):
        return None
    assert isinstance(spec, KernelSpec)
    most = min(sizes.seqlen_k // LEAST_KEYS, MAX_SPLITS)
    if sizes.seqlen_q > spec.config.BM_eff() or most < 2:
        return None
    load = DecodingLoad.of(spec, sizes, num_sms, row)
    best = min(split_candidates(load.units, num_sms, most), key=load.best_cycles)
    other = min(range(2, min(FEW_SPLITS, most) + 1), key=load.best_cycles)
    if load.best_cycles(other) < WORTH * load.best_cycles(best):
        best = other
    ctas = f"predicted for a B200 are {load.cycles(1):,} cycles with {load.units} CTAs"
    if load.best_cycles(best) > WORTH * load.cycles(1):
        return KeySplits(1, f"{ctas}, and no fewer with more")
    return KeySplits(best, f"{ctas}, {load.best_cycles(best):,} with {best} times as many")


def choose_blackwell_partition(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int, num_splits: int
) -> SplitChoice | None:
    """Return where the partial results of so many splits meet; None: nothing is predicted.

    Args:
        spec: the kernel. sizes, num_sms: of the call.
        num_splits: as many as clusters have CTAs that fill the device evenly.
    """
    row = _decoding_row_of(spec)
    if row is None or _is_empty(sizes) or sizes.seqlen_q > spec.config.BM_eff():
        return None
    assert isinstance(spec, KernelSpec)
    load = DecodingLoad.of(spec, sizes, num_sms, row)
    if len(load.places_of(num_splits)) == 1:
        return None
    cluster, workspace = (load.cycles(num_splits, p) for p in load.places_of(num_splits))
    best = Partition.CLUSTER if cluster <= workspace else Partition.WORKSPACE
    told = f"{cluster:,} cycles in a cluster, {workspace:,} in a workspace"
    return SplitChoice(best, num_splits, f"predicted for a B200 are {told}")


def _decoding_row_of(spec: BlackwellSpec) -> DecodingRow | None:
    """Return the predictions for a step of decoding, or None."""
    config, variant = spec.config, spec.variant
    whole = replace(variant, partition=Partition.NONE, num_partitions=Variant().num_partitions)
    cache = replace(whole, mask=NULL, return_lse=False, used_k=False, page_size=0, ragged_q=False)
    plain = cache == Variant() and variant.mask in (NULL, CAUSAL)
    if not plain or not isinstance(config, FA4Config) or config.num_qo != 1:
        return None
    return predicted_of(DECODING, "1q", config.qkv_dtype, config.depth, spec.output_depth)

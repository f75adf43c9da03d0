"""The Blackwell kernels' choices by predicted times: who takes the query tiles, splits of the keys.

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
from math import prod
from typing import Final

from ..config.config import FA4Config
from ..config.predicted import DECODING, LAUNCH_CYCLES, MEMORY_BYTES_PER_CYCLE, PREDICTED
from ..config.prediction import Costs, DecodingRow, PredictedRow, predicted_of
from ..facts.hardware import align_up, ceil_div
from ..masks.masks import CAUSAL, NULL
from ..spec.combine_spec import MAX_SPLITS
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from ..spec.register_tuning import is_plain
from ..spec.variant import Scheduler, Variant
from .key_splits import WORTH, KeySplits, split_candidates
from .launch import AttentionSizes
from .selection import LONG_PROMPT
from .tiles import TileShape

BlackwellSpec = KernelSpec | Depth512Spec
FEW_KEYS: Final = 1024
"""Keys with which start and end of a query tile count most."""
MANY_ROUNDS: Final = 16 * LONG_PROMPT
"""Queries with which every SM takes many query tiles."""
LEAST_KEYS: Final = 1024
"""Fewer keys than this are not worth a CTA of their own."""


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
    def of(cls, spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int) -> QueryTileLoad:
        """Return the load of a kernel whose mask is none or causal."""
        config = spec.config
        shape = TileShape.of(config)
        keys = align_up(sizes.seqlen_k, config.BN)
        first = keys
        if spec.variant.causal:
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


def choose_blackwell_scheduler(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> SchedulerChoice | None:
    """Return who takes the query tiles of a call that leaves it open; None: a CTA for each.

    Only plain kernels have predictions, and only launches of more query tiles than places a choice.
    """
    row = _row_of(spec)
    if row is None or 0 in (sizes.batch, sizes.seqlen_q, sizes.seqlen_k, sizes.num_q_heads):
        return None
    load = QueryTileLoad.of(spec, sizes, num_sms)
    if load.units <= load.places:
        return None
    tile = load.cycles(row.tile, in_order=False)
    persistent = load.cycles(row.persistent, in_order=True)
    best = Scheduler.PERSISTENT if persistent < tile else Scheduler.TILE
    return SchedulerChoice(best, tile, persistent)


def _row_of(spec: BlackwellSpec) -> PredictedRow | None:
    """Return the predictions for a kernel, or None."""
    config, variant = spec.config, spec.variant
    plain = is_plain(variant) and variant.mask in (NULL, CAUSAL) and not variant.splits_keys
    if not plain or (isinstance(config, FA4Config) and (config.pair_cta or config.num_qo != 2)):
        return None
    kernel = "2q" if isinstance(config, FA4Config) else "pair"
    return predicted_of(PREDICTED, kernel, config.qkv_dtype, config.depth, spec.output_depth)


@dataclass(frozen=True)
class DecodingLoad:
    """A launch with one query tile to each key/value head, whose keys may be split.

    Attributes:
        units: CTAs when keys are not split. num_sms: SMs of the device. keys: of a sequence.
        memory_cycles: in which the device reads all keys and values. row: what its parts cost.
    """

    units: int
    num_sms: int
    keys: int
    memory_cycles: int
    row: DecodingRow

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
        return cls(sizes.batch * heads, num_sms, keys, memory, row)

    def cycles(self, num_splits: int) -> int:
        """Return what the launch takes, and the one that combines the splits."""
        rounds = ceil_div(self.units * num_splits, self.num_sms)
        busiest = self.row.tile.of(rounds, rounds * ceil_div(self.keys, num_splits))
        joined = self.row.combine.of(num_splits, 0) if num_splits > 1 else 0
        return LAUNCH_CYCLES + max(busiest, self.memory_cycles) + joined


def choose_blackwell_splits(
    spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int
) -> KeySplits | None:
    """Return into how many splits the keys of a call fall that leaves it open; None: no choice.

    Only steps of decoding have predictions: all rows of a head in one query tile, a mask that shows
    whole sequences, and no change of scores.
    """
    row = _decoding_row_of(spec)
    if row is None or 0 in (sizes.batch, sizes.seqlen_q, sizes.seqlen_k, sizes.num_q_heads):
        return None
    assert isinstance(spec, KernelSpec)
    most = min(sizes.seqlen_k // LEAST_KEYS, MAX_SPLITS)
    if sizes.seqlen_q > spec.config.BM_eff() or most < 2:
        return None
    load = DecodingLoad.of(spec, sizes, num_sms, row)
    best = min(split_candidates(load.units, num_sms, most), key=load.cycles)
    ctas = f"predicted for a B200 are {load.cycles(1):,} cycles with {load.units} CTAs"
    if load.cycles(best) > WORTH * load.cycles(1):
        return KeySplits(1, f"{ctas}, and no fewer with more")
    return KeySplits(best, f"{ctas}, {load.cycles(best):,} with {best} times as many")


def _decoding_row_of(spec: BlackwellSpec) -> DecodingRow | None:
    """Return the predictions for a step of decoding, or None."""
    config, variant = spec.config, spec.variant
    cache = replace(
        variant, mask=NULL, return_lse=False, used_k=False, page_size=0, ragged_q=False
    )
    plain = cache == Variant() and variant.mask in (NULL, CAUSAL)
    if not plain or not isinstance(config, FA4Config) or config.num_qo != 1:
        return None
    return predicted_of(DECODING, "1q", config.qkv_dtype, config.depth, spec.output_depth)

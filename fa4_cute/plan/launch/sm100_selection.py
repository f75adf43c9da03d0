"""The Blackwell kernels' choice by sizes: who takes the query tiles, by predicted times.

A CTA for every query tile pays for its start and its end each time, and an SM that is free takes
the next one. A persistent CTA loads the keys of the next query tile while the one before ends; the
order of its query tiles is fixed, so with a mask the longest one may come last.

All cycles are predictions for a B200 (``plan.config.predicted``), medians over what is not known
of it. Sizes are those that the host knows: of a cache, the room in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from ..config.config import FA4Config
from ..config.predicted import LAUNCH_CYCLES, PREDICTED
from ..config.prediction import Costs, PredictedRow, predicted_of
from ..facts.hardware import align_up, ceil_div
from ..masks.masks import CAUSAL, NULL
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from ..spec.register_tuning import is_plain
from ..spec.variant import Scheduler
from .launch import AttentionSizes
from .selection import LONG_PROMPT
from .tiles import TileShape, grid

BlackwellSpec = KernelSpec | Depth512Spec
FEW_KEYS: Final = 1024
"""Keys with which start and end of a query tile count most."""
MANY_ROUNDS: Final = 16 * LONG_PROMPT
"""Queries with which every SM takes many query tiles."""


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
        blocks = grid(
            shape,
            max_seqlen_q=sizes.seqlen_q, num_q_heads=sizes.num_q_heads, batch=sizes.batch,
        )  # fmt: skip
        keys = align_up(sizes.seqlen_k, config.BN)
        first = keys
        if spec.variant.causal:
            seen = max(0, sizes.seqlen_k - sizes.seqlen_q + shape.positions)
            first = min(keys, align_up(seen, config.BN))
        size = config.cta_group()
        places = max(1, num_sms // size)
        return cls(prod(blocks) // size, places, keys, (first + keys) // 2, first == keys)

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

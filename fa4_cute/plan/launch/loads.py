"""What a launch of the Blackwell kernels takes, by the keys of its query tiles and their costs.

Cycles are predictions for a B200 (``plan.config.predicted``). Those of query tiles and keys are of
operands that come in time; a launch takes no less than memory needs for what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapreplace
from typing import Final

from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..config.predicted import LAUNCH_CYCLES, MEMORY_BYTES_PER_CYCLE
from ..config.prediction import Costs, PredictedRow
from ..facts.hardware import align_up, ceil_div
from ..masks.key_tiles import visited_keys
from ..masks.masks import CAUSAL, NULL
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from ..spec.register_tuning import is_plain
from ..spec.variant import Variant
from .handed import HandedOrder
from .launch import bytes_of_key
from .tiles import AttentionSizes, TileShape
from .turns import choose_section, unevenness

PLACED: Final = 8
"""Query tiles of a place up to which their order is followed."""


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
        units, mean = sizes.query_tiles(shape), (first + keys) // 2
        of_head = sizes.blocks(shape)[0] // config.cta_group()
        return cls(units, places_of(config, num_sms), keys, mean, first == keys, of_head)

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
            heapreplace(ends, ends[0] + costs.query_tile(keys))
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
        return tuple(costs.query_tile(count) for count in keys)


def reading_cycles(
    spec: KernelSpec | Depth512Spec, sizes: AttentionSizes, keys: int | None = None
) -> int:
    """Return in how many cycles memory gives every key and its value once.

    ``keys`` are those of a sequence that are read; None: all.
    """
    row_bytes = (spec.config.depth + spec.output_depth) * spec.config.qkv_dtype_size
    rows = sizes.batch * sizes.num_kv_heads * (sizes.seqlen_k if keys is None else keys)
    return rows * row_bytes // MEMORY_BYTES_PER_CYCLE


def told(cycles: Mapping[str, int], reading: int) -> str:
    """Return predicted cycles in words, none below what memory needs.

    Args:
        cycles: what each way takes if operands come in time, by its name. reading: what memory
            takes to give all that is read.
    """
    least = LAUNCH_CYCLES + reading
    first, *others = (f"{max(count, least):,}{{}} with {name}" for name, count in cycles.items())
    words = ", ".join((first.format(" cycles"), *(other.format("") for other in others)))
    if least <= min(cycles.values()):
        return words
    counts = [f"{count:,}" for count in cycles.values()]
    listed = f"{', '.join(counts[:-1])} and {counts[-1]}"
    return f"{words}, of which memory needs {least:,} for keys and values; else they were {listed}"


def places_of(config: FA4Config | Depth512Config, num_sms: int) -> int:
    """Return how many query tiles are computed at the same time: a CTA, or a pair, has each."""
    return max(1, num_sms // config.cta_group())


def kernel_of(spec: KernelSpec | Depth512Spec) -> str | None:
    """Return what rows of predictions call a kernel; a pair of narrow heads has none."""
    config = spec.config
    if isinstance(config, Depth512Config):
        return "pair"
    return None if config.pair_cta else f"{config.num_qo}q"


def is_interval(variant: Variant) -> bool:
    """Return whether a kernel of dense sequences shows every row one interval of keys, by a mask
    that is not the causal one, and has nothing else."""
    plain = is_plain(variant) and not variant.splits_keys
    return plain and variant.mask not in (NULL, CAUSAL)


@dataclass(frozen=True)
class IntervalLoad:
    """The query tiles of a launch whose mask shows every row an interval of keys.

    Attributes:
        keys: what each query tile of a head visits, in their order.
        heads: of all sequences. places: query tiles that are computed at the same time.
        section: heads whose query tiles a grid has side by side. turns: those of persistent CTAs.
    """

    keys: tuple[int, ...]
    heads: int
    places: int
    section: int = 1
    turns: int = 1

    @classmethod
    def of(
        cls, spec: KernelSpec | Depth512Spec, sizes: AttentionSizes, num_sms: int
    ) -> IntervalLoad:
        """Return the load of a kernel."""
        shape, variant = TileShape.of(spec.config), spec.variant
        keys = visited_keys(
            variant.mask, sizes.seqlen_q, sizes.seqlen_k, shape.positions, spec.config.BN
        )
        in_order = tuple(reversed(keys)) if variant.longest_first else keys
        order = HandedOrder.of(spec, sizes, keeps_short=False)
        heads, places = order.heads, places_of(spec.config, num_sms)
        section, turns = order.section if spec.heads_first else 1, 1
        if variant.starts_by_row:
            of_key = bytes_of_key(spec, sizes)
            turns = choose_section(spec, sizes, heads, places, of_key).heads
        return cls(in_order, heads, places, section, turns)

    @property
    def units(self) -> int:
        """How many query tiles there are."""
        return len(self.keys) * self.heads

    def tile_cycles(self, costs: Costs) -> int:
        """Return what the launch takes with a CTA for every query tile."""
        loads = tuple(costs.query_tile(keys) for keys in self.keys)
        if self.units > PLACED * self.places:
            last = sum(loads) * self.heads // self.places
        else:
            last = HandedOrder(self.heads, self.section).busiest(loads, self.places)
        return LAUNCH_CYCLES + costs.first + last

    def persistent_cycles(self, costs: Costs) -> int:
        """Return what persistent CTAs take that go by sections of heads, back and forth."""
        loads = tuple(costs.query_tile(keys) for keys in self.keys)
        busiest = unevenness(loads, self.heads, self.turns, self.places)
        return LAUNCH_CYCLES + costs.first + int(sum(loads) * self.heads * busiest) // self.places

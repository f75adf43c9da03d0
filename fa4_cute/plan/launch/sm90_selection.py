"""The Hopper kernel's choices by sizes: a CTA's tile, who takes query tiles, splits of the keys.

One or the other decides whether all SMs load. A decoding step has one CTA per key/value head, far
fewer than SMs, and its time is that of reading the cache: keys are split until the CTAs fill the
device, as long as the launch that combines the partial results costs less than it saves.

The lengths of keys are those that the host knows: of a cache, the room in it.
Source: the rates are those of an H200, ``docs/hopper_times.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Final, NamedTuple

from ..config.sm90_tiles import MOST_CONSUMERS
from ..facts.hardware import ceil_div
from ..facts.numbers import MAX_SEQLEN
from ..facts.wgmma import WGMMA_ROWS
from ..masks.key_tiles import KeyTileMap, Rows
from ..masks.masks import CAUSAL, NULL, Mask, SlidingWindowMask
from ..spec.combine_spec import MAX_SPLITS
from ..spec.sm90_spec import SM90Spec
from ..spec.variant import Scheduler
from .key_splits import SPLITS_OF_ALL, WORTH, KeySplits, split_candidates, splits_alike
from .launch import bytes_of_key
from .tiles import AttentionSizes, TileShape
from .turns import choose_section, is_in_turns, key_loads, unevenness

MEMORY_BYTES_PER_NS: Final = 4200
"""What all SMs together read."""
SM_FLOPS_PER_NS: Final = 5000
"""What the consumers of one SM compute."""
START_NS: Final = 2000
"""From the start of a CTA to its first product, and from its last one to its end."""
SOFTMAX_NS_PER_KEY: Final = 4
"""What a key of a tile takes besides, where no second consumer multiplies meanwhile."""
BOX_NS: Final = 140
"""From the look-up of a page to the next one: a tile is loaded box by box."""
COMBINE_NS: Final = 5000
"""A second launch, and the latency of what it reads."""
SPLIT_NS: Final = 165
"""What each split adds to that."""
MANY_KEYS: Final = 2048
"""From here on the tile for many keys pays; at 1024 it does not (``docs/hopper.md``)."""
NARROW_DEPTH: Final = 96
"""Up to here, and above the narrowest, fewer keys pay with fp8 and a causal mask."""
WIDE_WINDOW: Final = 1536
"""Keys of a window for which it pays, too, and for persistent CTAs: at 1024 neither is so."""
LEAST_KEYS: Final = 512
"""Fewer keys than this are not worth a CTA of their own."""


class PersistentKeys(NamedTuple):
    """Most keys of a query tile with which CTAs of such head dims are persistent.

    With more, the ends of a query tile that they hide count for little, and an SM that takes the
    next query tile when it is free evens out more than a fixed order.

    Attributes:
        depth, ov_depth: the largest head dims of the row.
        all_keys, causal: of sequences that the host knows, with all keys or a mask that is causal
            or a window.
        other: of other masks, and of packed sequences, caches and pages.
        window: as ``causal``, of windows alone; 0 for as many.
    """

    depth: int
    ov_depth: int
    all_keys: int
    causal: int
    other: int = 0
    window: int = 0

    def most(self, spec: SM90Spec) -> int:
        """Return the number for a kernel."""
        if not is_in_turns(spec):
            return self.other
        if spec.variant.starts_by_row and self.window:
            return self.window
        return self.all_keys if spec.variant.mask == NULL else self.causal


ANY: Final = MAX_SEQLEN
"""However many keys."""
PERSISTENT: Final = (PersistentKeys(64, 64, ANY, ANY, 4096),
                     PersistentKeys(96, 96, 4096, 4096),
                     PersistentKeys(128, 128, 2047, 2047),
                     PersistentKeys(192, 128, 16384, 2048),
                     PersistentKeys(192, 192, 0, 0),
                     PersistentKeys(256, 256, 16384, 4096))  # fmt: skip
"""Ascending; the first that holds the head dims counts. Measured on an H100 and an H200
(``docs/hopper.md``); 192 columns of V were not."""
FP8_PERSISTENT: Final = (PersistentKeys(64, 64, 2048, 2048, 1024),
                         PersistentKeys(96, 96, 8192, 4096, 4096),
                         PersistentKeys(128, 128, 8192, 8192, 4096),
                         PersistentKeys(192, 128, 8192, 4096),
                         PersistentKeys(192, 192, 16384, 2048),
                         PersistentKeys(256, 256, 8192, 4096))  # fmt: skip
"""The same of fp8 operands."""
LONG_PERSISTENT: Final = (PersistentKeys(128, 128, 4096, 4096, window=ANY),)
"""Of tiles for many keys."""
FP8_LONG_PERSISTENT: Final = (PersistentKeys(64, 64, ANY, ANY),
                              PersistentKeys(96, 96, 8192, 4096),
                              PersistentKeys(128, 128, 4096, 4096),
                              PersistentKeys(192, 128, 8192, 0))  # fmt: skip
PERSISTENT_ROWS: Final = {
    (False, False): PERSISTENT, (False, True): FP8_PERSISTENT,
    (True, False): LONG_PERSISTENT, (True, True): FP8_LONG_PERSISTENT,
}  # fmt: skip
"""Those that count, by whether the tile is one for many keys, and operands are fp8."""
MOST_UNEVEN: Final = 1.13
"""Keys of the busiest persistent CTA over the mean that what it hides makes up for."""
SHORT_ENOUGH: Final = 4096
"""Keys of a query tile up to which that holds."""
MOST_UNEVEN_LONG: Final = 1.04
"""The same of longer query tiles, whose ends count for less."""


class TileKind(Enum):
    """The tiles that a CTA may have."""

    TABLE = "all Q tiles of the table"
    FEW_ROWS = f"one Q tile of {WGMMA_ROWS} rows"
    LONG_KEYS = f"{MOST_CONSUMERS} Q tiles of many keys"

    def applied(self, spec: SM90Spec) -> SM90Spec:
        """Return ``spec``, which has the tile of the table, with this one."""
        if self is TileKind.FEW_ROWS:
            return spec.with_few_rows()
        return spec.with_long_keys() if self is TileKind.LONG_KEYS else spec


@dataclass(frozen=True)
class TileChoice:
    """The decision for a tile, and why."""

    kind: TileKind
    reason: str

    @property
    def text(self) -> str:
        """The decision in words."""
        return f"{self.kind.value} per CTA: {self.reason}"


def choose_tile(
    spec: SM90Spec,
    sizes: AttentionSizes,
    num_sms: int,
    *,
    asked: int | None,
    is_persistent: bool,
) -> TileChoice:
    """Return which tile a CTA has.

    Args:
        spec: the kernel with the tile of the table.
        sizes: of the call; of packed sequences, the longest.
        num_sms: SMs of the device.
        asked: Q tiles per CTA that the caller insists on, 1 or 2, or None. A row's bits do not
            depend on other sequences then.
        is_persistent: whether the caller insists on CTAs that take one query tile after the other.
    """
    config, keys = spec.config, sizes.seqlen_k
    if asked is not None:
        kind = TileKind.FEW_ROWS if asked == 1 else TileKind.TABLE
        return TileChoice(kind, "as asked for")
    alone = config.with_few_rows()
    rows = sizes.seqlen_q * (config.group if alone.fuse_gqa else 1)
    if is_persistent:
        return TileChoice(TileKind.TABLE, "persistent CTAs have an SM for themselves")
    if rows <= WGMMA_ROWS:
        return TileChoice(TileKind.FEW_ROWS, f"{rows} rows fit it")
    has_rows = rows > MOST_CONSUMERS * WGMMA_ROWS and spec.may_take_long_keys
    is_fp8 = config.transposes_values
    if has_rows and is_wide_window(spec.variant.mask) and not is_fp8:
        return TileChoice(TileKind.LONG_KEYS, f"rows see {WIDE_WINDOW} keys or more, of a window")
    is_long = has_rows and keys >= least_long_keys(spec) and spec.variant.mask in (NULL, CAUSAL)
    in_turns = choose_scheduler(spec, sizes, num_sms, TileKind.TABLE) is Scheduler.PERSISTENT
    if is_long and (is_fp8 or not in_turns):
        return TileChoice(TileKind.LONG_KEYS, f"rows see {keys} keys, all or causal")
    return TileChoice(TileKind.TABLE, f"{rows} rows of a key/value head need several")


def least_long_keys(spec: SM90Spec) -> int:
    """Return from how many keys on their tile pays: with fp8 and a causal mask from any, where its
    rows are few columns but not the fewest."""
    is_fp8, mask = spec.config.transposes_values, spec.variant.mask
    any_pay = is_fp8 and mask == CAUSAL and not spec.has_narrow_heads
    return 0 if any_pay and spec.config.depth <= NARROW_DEPTH else MANY_KEYS


def is_wide_window(mask: Mask) -> bool:
    """Return whether a mask is a window of many keys, with both its sides."""
    if not isinstance(mask, SlidingWindowMask) or mask.left is None or mask.right is None:
        return False
    return mask.left + 1 + mask.right >= WIDE_WINDOW


@dataclass(frozen=True)
class GridLoad:
    """How long a grid takes, by a model of two limits.

    Args:
        units: CTAs when keys are not split.
        slots: CTAs that it runs at the same time.
        key_tiles: key tiles that the longest query tile visits.
        tile_ns: time of one of them in a CTA.
        memory_ns: time in which the device reads all keys and values.
        partial_ns: time in which it writes and reads the partial results of one split.
    """

    units: int
    slots: int
    key_tiles: int
    tile_ns: int
    memory_ns: int
    partial_ns: int

    @classmethod
    def of(cls, spec: SM90Spec, sizes: AttentionSizes, num_sms: int) -> GridLoad:
        """Return the load of a kernel's grid on ``num_sms`` SMs."""
        config = spec.config
        columns = config.depth + spec.output_depth
        key_tiles = visited_key_tiles(spec, sizes)
        tile_bytes = config.BN * columns * config.qkv_dtype_size
        all_bytes = sizes.batch * sizes.num_kv_heads * key_tiles * tile_bytes
        rows = sizes.num_queries * sizes.num_q_heads
        partial_bytes = 2 * rows * (spec.output_depth + 1) * 4
        return cls(
            units=sizes.query_tiles(TileShape.of(config)),
            slots=num_sms * config.ctas_per_sm,
            key_tiles=key_tiles,
            tile_ns=tile_ns(spec),
            memory_ns=all_bytes // MEMORY_BYTES_PER_NS,
            partial_ns=partial_bytes // MEMORY_BYTES_PER_NS,
        )

    def duration(self, num_splits: int) -> int:
        """Return how long the grid takes, in nanoseconds."""
        rounds = ceil_div(self.units * num_splits, self.slots)
        busiest = rounds * (START_NS + ceil_div(self.key_tiles, num_splits) * self.tile_ns)
        joined = COMBINE_NS + num_splits * (SPLIT_NS + self.partial_ns) if num_splits > 1 else 0
        return max(busiest, self.memory_ns) + joined


def tile_ns(spec: SM90Spec) -> int:
    """Return the time of a key tile in a CTA that has its SM to itself, in nanoseconds.

    That of its products and what they do not hide, or of the loads of its pages, if that is longer.
    """
    config, page_size = spec.config, spec.variant.page_size
    columns = config.depth + spec.output_depth
    multiplied = 2 * config.BM * config.BN * columns // SM_FLOPS_PER_NS
    if config.num_consumers == 1:
        multiplied += SOFTMAX_NS_PER_KEY * config.BN
    boxes = 2 * ceil_div(config.BN, page_size) if page_size else 0
    return max(multiplied, boxes * BOX_NS)


def visited_key_tiles(spec: SM90Spec, sizes: AttentionSizes) -> int:
    """Return how many key tiles the last query tile of a sequence visits: no other visits more."""
    keys = sizes.seqlen_k
    first = max(keys - sizes.seqlen_q, keys - spec.config.PairBM_eff())
    lengths = dict.fromkeys(spec.variant.padding_slots, keys)
    rows = Rows(first, keys - 1, keys, lengths)
    return int(KeyTileMap.of(spec.variant.terms, rows, spec.config.BN).count)


def choose_scheduler(
    spec: SM90Spec, sizes: AttentionSizes, num_sms: int, kind: TileKind
) -> Scheduler:
    """Return who takes query tiles: persistent CTAs where the ends of a query tile count."""
    if kind is TileKind.FEW_ROWS or 0 in (sizes.batch, sizes.seqlen_q, sizes.seqlen_k):
        return Scheduler.TILE
    spec = kind.applied(spec)
    is_long, is_fp8 = kind is TileKind.LONG_KEYS, spec.config.transposes_values
    rows = PERSISTENT_ROWS[is_long, is_fp8]
    depths = spec.config.depth, spec.config.ov_depth
    row = next(r for r in rows if depths[0] <= r.depth and depths[1] <= r.ov_depth)
    most = row.most(spec)
    keys = min(visited_key_tiles(spec, sizes) * spec.config.BN, sizes.seqlen_k) if most else 0
    if not most or keys > most or not evens_out(spec, sizes, num_sms, keys):
        return Scheduler.TILE
    return Scheduler.PERSISTENT


def evens_out(spec: SM90Spec, sizes: AttentionSizes, num_sms: int, keys: int) -> bool:
    """Return whether the fixed order of persistent CTAs gives each about the same work.

    One query tile each gains nothing. Those of all keys are alike, so that no order is better than
    another. ``keys`` are those of the longest query tile.
    """
    if not is_in_turns(spec):
        return True
    shape = TileShape.of(spec.config)
    tiles, *others = sizes.blocks(shape)
    heads = prod(others)
    if tiles * heads <= num_sms or spec.variant.mask == NULL:
        return tiles * heads > num_sms
    if spec.in_sections:
        of_key = bytes_of_key(spec, sizes)
        uneven = choose_section(spec, sizes, heads, num_sms, of_key).unevenness
    else:
        loads = key_loads(spec, sizes.seqlen_q, sizes.seqlen_k, keys)
        uneven = unevenness(loads, heads, 1, num_sms)
    return uneven <= (MOST_UNEVEN if keys <= SHORT_ENOUGH else MOST_UNEVEN_LONG)


def choose_key_splits(spec: SM90Spec, sizes: AttentionSizes, num_sms: int) -> KeySplits:
    """Return into how many splits the keys of a call fall that leaves it open.

    Args:
        spec: the kernel, whether its keys are split or not.
        sizes: of the call; of packed sequences, the longest.
        num_sms: SMs of the device.
    """
    if 0 in (sizes.batch, sizes.seqlen_q, sizes.num_q_heads, sizes.seqlen_k):
        return KeySplits(1, "there is nothing to compute")
    load = GridLoad.of(spec, sizes, num_sms)
    most = min(load.key_tiles * spec.config.BN // LEAST_KEYS, MAX_SPLITS)
    if most < 2:
        return KeySplits(1, f"they are fewer than {2 * LEAST_KEYS}")
    if splits_alike(spec, sizes, num_sms):
        why = "heads share cache lines of the L2, and read them together"
        return KeySplits(min(SPLITS_OF_ALL, most), why)
    best = min(split_candidates(load.units, num_sms, most), key=load.duration)
    ctas = f"{load.units} CTAs of {load.key_tiles} key tiles on {num_sms} SMs"
    if load.duration(best) > WORTH * load.duration(1):
        return KeySplits(1, f"{ctas}, more would end no sooner")
    return KeySplits(
        best,
        f"{ctas} would take {load.duration(1) // 1000} us, {best} times as many take "
        f"{load.duration(best) // 1000} us",
    )

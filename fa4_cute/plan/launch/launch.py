"""Launch arithmetic: problem sizes and a kernel specification give grid, block and scalars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..facts.hardware import SM_COUNT, are_whole_cache_lines, ceil_div
from ..facts.numbers import LOG2_E, MAX_SEQLEN, SMALLEST_NORMAL_FLOAT32
from ..spec.attention_spec import AttentionSpec
from ..spec.combine_spec import MAX_SPLITS, CombineSpec
from ..spec.variant import FIRST_STEP, KEPT, WORK_COUNTS
from .packed_rows import first_step
from .stream_k import (
    ALONE_PLACES,
    MAX_PLACES,
    Lines,
    num_ctas_of,
    num_lines_of,
    num_parts_of,
    places_of_tile,
)
from .tiles import AttentionSizes, TileShape, heads_of_section, kept_tiles
from .turns import choose_section, is_in_turns

MAX_GRID_X: Final = 2**31 - 1
MAX_GRID_YZ: Final = 65535
FEWER_BY_ROWS: Final = 1.25
"""Query tiles of a launch, over those counted by rows, from which on rows are counted."""
FEWER_THAN_LONGEST_FIRST: Final = 2.0
"""The same where the longest query tiles of all sequences would come first otherwise: of drawn
batches those with fewer to spare lost as often as they won (``docs/experiments.md``)."""
SMALLEST_SCALE: Final = SMALLEST_NORMAL_FLOAT32
"""A scale of 0 becomes this: the scores still vanish, and masked scores (minus infinity) stay minus
infinity instead of becoming NaN."""


@dataclass(frozen=True)
class LaunchPlan:
    """What a launch needs besides addresses: grid, block, cluster (CTAs), bytes and scalars."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    smem_bytes: int
    scalars: dict[str, int | float]

    @property
    def is_empty(self) -> bool:
        """Whether there is no output, and so nothing to launch."""
        return 0 in self.grid


def plan_launch(
    spec: AttentionSpec,
    sizes: AttentionSizes,
    softmax_scale: float,
    num_splits: int = 1,
    num_sms: int = SM_COUNT,
) -> LaunchPlan:
    """Return the launch of ``spec`` for ``sizes``; ``grid`` is (Q tiles, heads, batch).

    Counted by rows, query tiles of all sequences and heads lie along x.
    The splits of a query tile are neighbours along x. A persistent kernel gets one CTA per SM, or
    per query tile where there are fewer; a pair of CTAs counts for two SMs, and one is started
    however few there are. A dynamic one gets a CTA or pair for every query tile: those that run
    take over the others. Where it takes sections of heads (``turns``), the counts are those of a
    section's heads and of sections.

    Raises:
        ValueError: when the sizes do not belong to ``spec`` or exceed a grid, or the scale is not
            finite.
    """
    _refuse(spec, sizes, softmax_scale, num_splits)
    blocks = _query_tile_blocks(spec, sizes, 1 if spec.variant.streams_keys else num_splits)
    scalars: dict[str, int | float] = {
        "seqlen_q": sizes.seqlen_q,
        "seqlen_k": sizes.seqlen_k,
        "num_q_heads": sizes.num_q_heads,
        "scale_log2": kernel_scale(softmax_scale),
    }
    if spec.variant.by_rows:
        scalars |= {"num_sequences": sizes.batch, FIRST_STEP: first_step(sizes.batch)}
    if spec.variant.streams_keys:
        lines = lines_of_launch(spec, sizes, num_sms)
        scalars |= {"num_heads": lines.heads, "num_sequences": sizes.batch}
        blocks = (lines.stretches * spec.config.cta_group(), lines.num_lines, 1)
    elif spec.variant.is_persistent:
        num_work = _num_work(spec, sizes, blocks)
        num_ctas = num_sms * spec.schedule.ctas_per_sm
        counts = _turns(spec, sizes, blocks, num_ctas)
        scalars |= zip(WORK_COUNTS, (num_work, *counts), strict=True)
        if spec.variant.keeps_short:
            scalars[KEPT] = _kept(spec, sizes, math.prod(counts))
        at_once = _ctas_or_pairs(spec, num_ctas)
        started = num_work if spec.variant.is_dynamic else min(num_work, at_once)
        blocks = (started * spec.config.cta_group(), 1, 1)
    return LaunchPlan(
        grid=blocks,
        block=(spec.schedule.num_threads, 1, 1),
        cluster=(spec.cluster_size, 1, 1),
        smem_bytes=spec.config.smem_used,
        scalars=scalars,
    )


def counts_rows(spec: AttentionSpec, sizes: AttentionSizes) -> bool:
    """Return whether a launch of packed queries counts query tiles by rows: there are far fewer.

    An empty one costs a CTA of its own some 3,300 cycles and a dynamic one 1,400 to 3,500
    (``plan.config.predicted.CHUNKS``), a full one 5,000 or more besides its keys, and to find the
    sequence of one a few hundred. Rows are counted one sequence after the other, whose order is
    the caller's.
    """
    if not (spec.variant.ragged_q and sizes.total_q and sizes.batch and spec.may_count_rows):
        return False
    shape = TileShape.of(spec.config)
    counted, each = (math.prod(sizes.blocks(shape, by_rows=rows)) for rows in (True, False))
    fewer = FEWER_THAN_LONGEST_FIRST if spec.place_by_place else FEWER_BY_ROWS
    return fewer * counted <= each and counted * MAX_SPLITS <= MAX_GRID_X


def lines_of_launch(spec: AttentionSpec, sizes: AttentionSizes, num_sms: int) -> Lines:
    """Return the lines of a stream-K launch, with a stretch for every CTA or pair that runs at
    once, where keys may be that many: several where heads share cache lines."""
    places, per_sm = most_places(spec, sizes), spec.schedule.ctas_per_sm
    if spec.may_read_alone and places <= num_sms * ALONE_PLACES:
        per_sm = 1
    at_once = _ctas_or_pairs(spec, num_sms * per_sm)
    heads = sizes.blocks(TileShape.of(spec.config))[1]
    count = num_lines_of(heads, at_once) if shares_cache_lines(spec) else 1
    stretches = num_ctas_of(ceil_div(places, count), at_once // count, spec.config.BN)
    return Lines(count, heads // count, stretches)


def shares_cache_lines(spec: AttentionSpec) -> bool:
    """Return whether heads share cache lines, so that a stream-K launch may have several lines."""
    return not are_whole_cache_lines(row_bytes(spec))


def row_bytes(spec: AttentionSpec) -> tuple[int, int]:
    """Return the bytes of a row of K and of V."""
    size = spec.config.qkv_dtype_size
    return spec.config.depth * size, spec.output_depth * size


def _ctas_or_pairs(spec: AttentionSpec, num_ctas: int) -> int:
    """Return how many CTAs or pairs run at once, where so many CTAs do: one however few."""
    return max(1, num_ctas // spec.config.cta_group())


def most_places(spec: AttentionSpec, sizes: AttentionSizes) -> int:
    """Return the places of a stream-K launch where all sequences have as many keys as the longest
    may have."""
    shape = TileShape.of(spec.config)
    tiles = math.prod(sizes.blocks(shape)) // shape.cluster_size
    key_tiles = ceil_div(sizes.seqlen_k, spec.config.BN)
    return tiles * int(places_of_tile(key_tiles, spec.start_tiles))


class Workspace(NamedTuple):
    """Memory that a launch with split keys needs besides its results.

    Attributes:
        parts: partial results of so many splits, or parts of query tiles, are kept.
        rows: of each.
        counters: one for every CTA of a query tile whose last CTA, or those of whose last pair,
            join them.
    """

    parts: int = 0
    rows: int = 0
    counters: int = 0

    @classmethod
    def of(
        cls, spec: AttentionSpec, sizes: AttentionSizes, num_splits: int, num_sms: int = SM_COUNT
    ) -> Workspace:
        """Return that of a launch; arguments as of :func:`plan_launch`."""
        variant = spec.variant
        if not variant.is_split:
            return cls()
        by_rows = variant.by_rows
        shape = TileShape.of(spec.config)
        ctas = math.prod(sizes.blocks(shape, by_rows=by_rows))
        counters = ctas if variant.last_joins else 0
        if variant.streams_keys:
            lines = lines_of_launch(spec, sizes, num_sms)
            parts = num_parts_of(ctas // shape.cluster_size, lines.num_lines * lines.stretches)
            return cls(parts, sizes.seqlen_q * spec.rows_per_position, counters)
        return cls(num_splits, sizes.num_queries * sizes.num_q_heads, counters)


def _refuse(
    spec: AttentionSpec, sizes: AttentionSizes, softmax_scale: float, num_splits: int
) -> None:
    """Raise ValueError for what does not belong to ``spec``, or is more than a kernel counts."""
    group, variant = spec.config.group, spec.variant
    if sizes.num_q_heads != sizes.num_kv_heads * group:
        raise ValueError(
            f"num_q_heads={sizes.num_q_heads}, num_kv_heads={sizes.num_kv_heads}: the kernel was "
            f"compiled for {group} query heads per key/value head"
        )
    if variant.in_cluster and num_splits != variant.num_partitions:
        raise ValueError(
            f"num_splits={num_splits}: the kernel was compiled for a cluster of "
            f"{variant.num_partitions} CTAs"
        )
    positions = TileShape.of(spec.config).positions
    if variant.streams_keys and sizes.seqlen_q > positions:
        raise ValueError(
            f"scheduler='stream_k', seqlen_q={sizes.seqlen_q}: the queries of a sequence have to "
            f"fit a query tile, of {positions} here; nearest supported choice: "
            "scheduler='persistent'"
        )
    if variant.streams_keys and most_places(spec, sizes) > MAX_PLACES:
        raise ValueError(
            f"scheduler='stream_k', seqlen_k={sizes.seqlen_k}: key tiles of all heads and "
            f"sequences are counted up to {MAX_PLACES}; nearest supported choice: scheduler='tile'"
        )
    if not math.isfinite(softmax_scale):
        raise ValueError(f"softmax_scale={softmax_scale}: it must be finite")
    for name, length in (("seqlen_q", sizes.seqlen_q), ("seqlen_k", sizes.seqlen_k)):
        if length > MAX_SEQLEN:
            raise ValueError(f"{name}={length}: the kernel counts positions up to {MAX_SEQLEN}")


def _query_tile_blocks(
    spec: AttentionSpec, sizes: AttentionSizes, num_splits: int
) -> tuple[int, int, int]:
    """Return the grid in which every split of every query tile has CTAs of its own."""
    x, y, z = sizes.blocks(TileShape.of(spec.config), by_rows=spec.variant.by_rows)
    if spec.heads_first:
        return _sections(spec, sizes, (x, y, z))
    _check_grid("heads_k" if sizes.num_q_heads > y else "heads_q", y)
    _check_grid("batch", z)
    return x * num_splits, y, z


def _check_grid(name: str, count: int) -> None:
    """Refuse more than a grid holds of what ``name`` counts."""
    if count > MAX_GRID_YZ:
        raise ValueError(
            f"{name}={count}: a launch grid holds at most {MAX_GRID_YZ}; nearest supported choice: "
            f"{name}={MAX_GRID_YZ}"
        )


def _sections(
    spec: AttentionSpec, sizes: AttentionSizes, blocks: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Return the grid of ``blocks`` with the heads of a section along x, query tiles along y.

    Each head has the CTAs that share a query tile.
    """
    ctas, heads, batch = blocks
    tiles = ctas // spec.config.cta_group()
    together = heads_of_section(heads, bytes_of_head(spec, sizes))
    sections = heads // together * batch
    _check_grid("batch", batch)
    for name, count, what in (
        (f"seqlen_q={sizes.seqlen_q}", tiles, "query tiles"),
        (f"batch={batch}, heads_q={sizes.num_q_heads}", sections, "heads and sequences"),
    ):
        if count > MAX_GRID_YZ:
            raise ValueError(
                f"{name}: {count} {what}, of which a launch grid holds at most {MAX_GRID_YZ}; "
                "nearest supported choice: scheduler='persistent'"
            )
    return together * spec.config.cta_group(), tiles, sections


def bytes_of_head(spec: AttentionSpec, sizes: AttentionSizes) -> int:
    """Return the bytes of K and V that a scheduled head has, one of several for a K/V head."""
    return sizes.mean_keys * bytes_of_key(spec, sizes)


def bytes_of_key(spec: AttentionSpec, sizes: AttentionSizes) -> int:
    """Return how many of them each of its keys has."""
    config = spec.config
    heads = sizes.num_q_heads // TileShape.of(config).group
    row = (config.depth + spec.output_depth) * config.qkv_dtype_size
    return row * sizes.num_kv_heads // max(heads, 1)


def _turns(
    spec: AttentionSpec, sizes: AttentionSizes, blocks: tuple[int, int, int], num_ctas: int
) -> tuple[int, int]:
    """Return scheduled heads and sequences, or heads of a section and their sections."""
    _, heads, batch = blocks
    if spec.variant.by_rows:
        return sizes.num_q_heads // TileShape.of(spec.config).group, sizes.batch
    if not spec.in_sections:
        return heads, batch
    every, together = heads * batch, 1
    if spec.variant.is_dynamic:
        together = heads_of_section(every, bytes_of_head(spec, sizes))
    elif is_in_turns(spec):
        places, of_key = _ctas_or_pairs(spec, num_ctas), bytes_of_key(spec, sizes)
        together = choose_section(spec, sizes, every, places, of_key).heads
    return together, every // together


def _kept(spec: AttentionSpec, sizes: AttentionSizes, heads: int) -> int:
    """Return how many of the shortest query tiles of each of all ``heads`` come last."""
    positions, of_key = TileShape.of(spec.config).positions, bytes_of_key(spec, sizes)
    return kept_tiles(sizes.seqlen_q, sizes.seqlen_k, positions, heads, of_key)


def _num_work(
    spec: AttentionSpec, sizes: AttentionSizes, blocks: tuple[int, int, int]
) -> int:
    """Return the query tiles that the CTAs or pairs of a persistent kernel take in turn."""
    num_work = math.prod(blocks) // spec.config.cta_group()
    if num_work > MAX_SEQLEN:
        raise ValueError(
            f"batch={sizes.batch}, heads_q={sizes.num_q_heads}, seqlen_q={sizes.seqlen_q}: "
            f"{num_work} query tiles, of which a persistent grid counts {MAX_SEQLEN}; nearest "
            "supported choice: scheduler='tile'"
        )
    return num_work


def plan_combine(spec: CombineSpec, num_rows: int) -> LaunchPlan:
    """Return the launch that combines the splits of ``num_rows`` rows."""
    return LaunchPlan(
        grid=(spec.num_blocks(num_rows), 1, 1),
        block=(spec.num_threads, 1, 1),
        cluster=(spec.cluster_size, 1, 1),
        smem_bytes=spec.smem_bytes,
        scalars={},
    )


def kernel_scale(softmax_scale: float) -> float:
    """Return the scale in powers of two, kept away from 0; its sign survives."""
    scale = softmax_scale * LOG2_E
    return math.copysign(max(abs(scale), SMALLEST_SCALE), scale)

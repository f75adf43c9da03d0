"""``SM90Spec``: everything one compiled Hopper kernel is specialised on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from ..config.sm90_config import SM90Config
from ..config.sm90_tiles import (
    FEWEST_CONSUMERS,
    MIN_KV_STAGES,
    MOST_CONSUMERS,
    PERSISTENT_MASKED,
    TILES,
    Turns,
)
from ..facts.bias_tile import GRANULE_BYTES
from ..facts.dtypes import DType
from ..facts.hardware import SM90A
from ..facts.wgmma import WGMMA_ROWS, LaneColumns
from ..masks.masks import CAUSAL, NULL, SlidingWindowMask
from .common_spec import CommonSpec, refuse, variant_of, with_features
from .issue_order import OneChain
from .limits import sm90_depth_reason
from .register_tuning import (
    WIDER_DEPTH,
    ScoreLoads,
    decodes_again,
    most_columns,
    most_consumers,
    most_few_rows_keys,
    most_sm90_keys,
    splits_many_tiles,
)
from .schedule import (
    SM90_FEW_ROWS_SCHEDULES,
    SM90_LENDING_SCHEDULE,
    SM90_SCHEDULES,
    SM90_TRANSPOSING_SCHEDULE,
    WarpSchedule,
)
from .variant import Variant

FIRST_DEPTH = TILES[0].depth
_NO_TAKING_OVER: Final = (
    "scheduler='dynamic': Hopper has no cluster launch control, by which a CTA takes over another; "
    "nearest supported choice: scheduler='persistent'"
)


@dataclass(frozen=True)
class SM90Spec(CommonSpec):
    """Static choices of one compile; lengths, batch, heads and scale stay run-time values.

    Args:
        config: tiles, rings and memory.
        variant: mask and the other features.
        schedule: warps and registers of the roles.
    """

    arch: ClassVar[str] = SM90A

    config: SM90Config
    variant: Variant = field(default=Variant())
    schedule: WarpSchedule = field(default=SM90_SCHEDULES[2])

    @classmethod
    def for_attention(
        cls,
        dtype: DType,
        head_dim: int,
        *,
        group: int = 1,
        causal: bool = False,
        return_lse: bool = False,
        variant: Variant | None = None,
        head_dim_v: int = 0,
    ) -> SM90Spec:
        """Return the Hopper kernel for one element type, head dimension and group size.

        ``causal`` and ``return_lse`` are short forms for a ``variant`` that has only these;
        ``head_dim_v`` is that of V and O where it is smaller.

        Raises:
            ValueError: naming the limit, when no such kernel exists.
        """
        variant = variant_of(variant, causal=causal, return_lse=return_lse)
        refuse(_NO_TAKING_OVER if variant.is_dynamic else None)
        ov_depth = head_dim_v or head_dim
        for name, depth in (("depth", head_dim), ("ov_depth", ov_depth)):
            refuse(sm90_depth_reason(dtype, name, depth))
        is_fp8 = dtype is DType.FP8_E4M3
        config = SM90Config.for_attention(
            dtype,
            head_dim,
            group=group,
            ov_depth=ov_depth,
            page_size=variant.page_size,
            bn_cap=most_sm90_keys(variant, ov_depth, is_fp8=is_fp8),
            column_cap=most_columns(variant, ov_depth) if is_fp8 else 0,
            most_consumers=most_consumers(variant, ov_depth, is_fp8=is_fp8),
        )
        config = replace(with_features(config, variant), streams_keys=variant.streams_keys)
        config = with_staged_biases(config, variant)
        made = cls(config, variant, sm90_schedule(config, variant))
        if not (variant.is_persistent and made.has_other_keys_in_turns):
            return made
        return replace(made, config=replace(config, keys=PERSISTENT_MASKED.keys))

    @property
    def has_other_keys_in_turns(self) -> bool:
        """Whether a persistent CTA's tile has other keys than that of the table."""
        config = self.config
        row = next(tile for tile in TILES if config.depth <= tile.depth)
        masked = self.variant.mask != NULL and not config.transposes_values
        return masked and row.depth == PERSISTENT_MASKED.depth

    def with_few_rows(self) -> SM90Spec:
        """Return the kernel for queries that fit one Q tile."""
        is_fp8, columns = self.config.transposes_values, 0
        most = most_few_rows_keys(self.variant, self.config.depth, is_fp8=is_fp8)
        if is_fp8:
            columns = most_columns(self.variant, self.config.ov_depth, few_rows=True)
            most = max(most, self.config.qkv_dtype.mma_k) if most else 0
        config = replace(
            self.config.with_few_rows(), bn_cap=most, column_cap=columns, stages_biases=False
        )
        return replace(self, config=config, schedule=sm90_schedule(config, self.variant))

    @property
    def may_take_long_keys(self) -> bool:
        """Whether there is a tile for many keys, and registers for it: with fp8 not for scales per
        token, splits of each of many query tiles, or packed heads of a group at 192/128."""
        config, variant = self.config, self.variant
        scarce = variant.token_scales or splits_many_tiles(variant)
        scarce |= variant.ragged_q and config.fuse_gqa and config.depth > config.ov_depth
        scarce &= config.transposes_values
        return config.long_tile not in (None, config.tile) and not scarce

    def with_long_keys(self) -> SM90Spec:
        """Return the kernel for many keys; persistent CTAs have registers for its consumers."""
        config = replace(self.config, long_keys=True, most_consumers=MOST_CONSUMERS)
        return replace(self, config=config, schedule=sm90_schedule(config, self.variant))

    @property
    def name(self) -> str:
        """Entry name of the kernel, legal in PTX, that says what it is specialised on."""
        config = self.config
        depth = f"d{config.depth}"
        depth += f"v{config.ov_depth}" if config.ov_depth != config.depth else ""
        parts = ["fa4_sm90", config.qkv_dtype.value, depth, f"g{config.group}"]
        parts += ["few"] * config.few_rows + ["long"] * config.long_keys
        parts += [f"k{config.keys}"] if config.keys else []
        return "_".join([*parts, *self.variant.name_parts])

    @property
    def orders_heads(self) -> bool:
        """Always: the load warps, which decode the order, have registers to spare."""
        return True

    @property
    def head_by_head(self) -> bool:
        """With all keys or a causal mask: a head's keys and values stay in the L2 meanwhile.

        With a window, too, where sections cannot be counted; but narrow heads gain nothing from it.
        """
        mask = self.variant.mask
        if mask in (NULL, CAUSAL):
            return True
        is_window = isinstance(mask, SlidingWindowMask) and not self.in_sections
        return is_window and not self.has_narrow_heads

    @property
    def has_narrow_heads(self) -> bool:
        """Whether K and V have the fewest columns of all tiles, or less: up to 64."""
        return self.config.depth <= FIRST_DEPTH

    @property
    def ends_apart(self) -> bool:
        """Whether each consumer ends with the last key tile that its own rows see.

        Three have 192 rows: with a causal mask, or at a sequence's end, the CTA visits key tiles
        for some of them alone. All consumers clean a last V together, so that they end together
        where values may be partial.
        """
        variant = self.variant
        if self.config.num_consumers < 3 or variant.mask not in (NULL, CAUSAL):
            return False
        return not (variant.splits_keys or variant.partial_values)

    @property
    def takes_turns(self) -> bool:
        """Whether consumers start products in turn: one multiplies, the others exponentiate."""
        config = self.config
        turns = config.tile.turns
        by_tile = turns is Turns.ALWAYS or (turns is Turns.PERSISTENT and config.persistent)
        return config.num_consumers > 1 and (by_tile if config.in_turn is None else config.in_turn)

    @property
    def in_sections(self) -> bool:
        """With a causal mask, or a window: query tiles of several heads fall more evenly than those
        of one."""
        return self.causal or (self.variant.is_dense and self.variant.starts_by_row)

    @property
    def reads_pages_ahead(self) -> bool:
        """With pages: reads and copies of small ones take longer than their products."""
        return self.variant.page_size > 0

    @property
    def ends_with_queries(self) -> bool:
        """With three consumers and a causal mask, to the Q tile: idle consumers then come with the
        shortest query tile, and all see fewer keys. Rows keep their key tiles, and so their bits.
        """
        return self.ends_apart and self.causal and not self.variant.ragged_q

    @property
    def adds_slopes(self) -> bool:
        """Whether ALiBi is added to raw scores, where nothing else changes them; not with fp8: with
        a V of more than 128 columns the assembler then waits for every product."""
        return super().adds_slopes and not self.config.transposes_values

    @property
    def adds_biases(self) -> bool:
        """Whether biases are added to scores in natural units; not with fp8, as for slopes."""
        return super().adds_biases and not self.config.transposes_values

    @property
    def starts_biases(self) -> bool:
        """Whether biases are asked of memory before scores are waited for, not staged either."""
        return super().starts_biases and not self.config.stages_biases

    @property
    def score_loads(self) -> ScoreLoads:
        """When what changes the scores is loaded."""
        loads, ov_depth = super().score_loads, self.config.ov_depth
        if self.config.few_rows and self.config.transposes_values:
            return loads.for_few_rows(self.variant, ov_depth)
        lends = self.schedule is SM90_TRANSPOSING_SCHEDULE
        return loads.for_lent_registers(ov_depth) if lends else loads

    @property
    def decodes_again(self) -> bool:
        """Whether consumers decode their query tile anew for the output: registers are scarce."""
        return self.config.transposes_values or decodes_again(self.variant)

    @property
    def joins_maxima_late(self) -> bool:
        """Whether a row's maxima are joined only where one has grown: with windows some spill."""
        return not decodes_again(self.variant)

    @property
    def may_count_rows(self) -> bool:
        """Not with fp8 and changed scores of several intervals: in some such kernels ptxas then
        waits for each product (``tests/kernel/code/test_sm90_spills.py``)."""
        variant = self.variant
        is_laden = variant.modifies_scores and len(variant.terms) > 1
        return super().may_count_rows and not (self.config.transposes_values and is_laden)

    @property
    def may_stream_keys(self) -> bool:
        """With one Q tile: the consumers of others would have to wait for one another.

        Beside the widest V, scales per token, a function and biases that differ between terms leave
        no registers for parts of query tiles.
        """
        variant, config = self.variant, self.config
        changes = variant.score_mod is not None and variant.has_biases_of_terms
        is_widest = config.transposes_values and config.ov_depth > WIDER_DEPTH
        return config.few_rows and not (changes and is_widest and variant.token_scales)

    @property
    def may_read_alone(self) -> bool:
        """16-bit operands: fp8 ones come faster than one CTA multiplies them."""
        return self.config.qkv_dtype_size > 1

    def positions_before(self, seqlen_q: Any) -> Any:
        """Return how many positions before a sequence its first query tile begins: Q tiles."""
        if not self.ends_with_queries:
            return 0
        consumers, size = self.config.num_consumers, self.tile_positions
        used = (seqlen_q + (size - 1)) // size
        return used * (consumers - 1) % consumers * size

    @property
    def output_depth(self) -> int:
        """Columns of O."""
        return self.config.ov_depth

    @property
    def score_columns(self) -> LaneColumns:
        """The columns of S that a thread has of each of its rows."""
        return LaneColumns(0, self.config.BN)

    @property
    def tile_positions(self) -> int:
        """Sequence positions of the Q tile of one consumer."""
        return self.config.BM_eff() // self.config.num_consumers

    @property
    def query_rows(self) -> int:
        """Rows of the memory of one Q tile; the last ones may hold no query."""
        return WGMMA_ROWS

    @property
    def key_rows(self) -> int:
        """Keys of one slot of V."""
        return self.config.BN

    @property
    def issue_order(self) -> OneChain:
        """Every consumer takes every key tile."""
        return OneChain()


def with_staged_biases(config: SM90Config, variant: Variant) -> SM90Config:
    """Return the configuration whose biases come through shared memory, where that is to be.

    Lanes that load what a row of theirs needs ask the L1 for a line every 16 bytes, which takes
    longer than the products (``docs/hopper.md``). Staged are those of 16 bits and one array, alone,
    of granules that lie so in memory, where two slots of K, V and biases fit. Rows that are counted
    over sequences are no neighbours in memory.
    """
    biases = variant.changes.biases
    alone = variant.changes.only_halves and len(biases) == 1 and not config.transposes_values
    if not alone or variant.by_rows or config.few_rows:
        return config
    staged = replace(config, stages_biases=True)
    whole = biases[0].at_once * biases[0].dtype.size % GRANULE_BYTES == 0
    fits = staged.num_kv_stages >= MIN_KV_STAGES and staged.num_consumers == FEWEST_CONSUMERS
    return staged if whole and fits else config


def sm90_schedule(config: SM90Config, variant: Variant) -> WarpSchedule:
    """Return warps and registers of the Hopper kernel's roles."""
    has_two = config.num_consumers == FEWEST_CONSUMERS
    if config.few_rows:
        schedule = SM90_FEW_ROWS_SCHEDULES[config.ctas_per_sm]
    elif has_two and config.transposes_values and splits_many_tiles(variant):
        return SM90_TRANSPOSING_SCHEDULE
    elif config.stages_biases or (config.loads_values_apart and variant.bias_slots):
        # Load warps that look up pages have too few registers besides.
        schedule = SM90_LENDING_SCHEDULE
    else:
        schedule = SM90_SCHEDULES[config.num_consumers]
    if config.loads_values_apart:
        schedule = schedule.apart()
    if config.stages_biases:
        return schedule.copying_biases()
    return schedule.transposing() if config.transposes_values else schedule

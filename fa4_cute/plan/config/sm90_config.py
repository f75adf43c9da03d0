"""``SM90Config``: numbers of the Hopper kernel, for head dims up to 256.

Each of its consumer warp groups holds 64 query rows. It multiplies S = Q K' from shared memory into
its registers, turns S into P there, and multiplies O += P V with P from registers. One more warp
group loads, and transposes V where that is needed. Tiles: ``sm90_tiles``.

V and O may have fewer columns than Q and K (192/128). A head dim is padded to whole chunks of 64
columns in shared memory; nothing but its own columns is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ..facts.dtypes import DType
from ..facts.hardware import (
    SwizzleMode,
    align_up,
)
from ..facts.wgmma import WGMMA_ROWS
from .sm90_memory import SM90Memory
from .sm90_tiles import (
    FEWEST_CONSUMERS,
    MOST_CONSUMERS,
    SM90Tile,
    long_keys_tile,
    operand_swizzle,
    refuse_depths,
    refuse_fp8_keys,
    tiles_of,
)

HOLDING_DEPTH: Final = 96
"""Columns of O that leave three consumers registers for what follows from a maximum."""


@dataclass(frozen=True)
class SM90Config(SM90Memory):
    """Tile sizes, rings and shared-memory use of ``SM90MHA``.

    Args:
        num_q_heads: query heads.
        group: query heads per key/value head.
        depth: head dim of Q and K, before padding.
        ov_depth: head dim of V and O, before padding.
        swizzle_mode: swizzle of all operand tiles.
        page_size: keys per page of a paged cache, 0 when K and V are dense.
        bn_cap: most keys per tile, 0 for as many as fit.
        column_cap: most columns of an fp8 V multiplied together, 0 for those of the tile.
        keys: keys per tile where they are not to be those of the table, 0 for these.
        most_consumers: most warp groups that multiply: two have more registers each than three.
        qkv_dtype: element type of Q, K and V.
        persistent: a CTA takes one query tile after the other.
        streams_keys: it takes parts of query tiles, as many key tiles as any other.
        in_turn: whether consumers start their products in turn, or None for what the tile says.
        scale_dtype: element type of per-token scales, ``INVALID`` when there are none.
        few_rows: a CTA has one Q tile.
        long_keys: all rows see many keys.
        stages_biases: biases, of 16 bits, come through shared memory, to a slot beside each of K.

    Raises:
        ValueError: for values that describe no problem at all, a head dim above 256, or a V that
            is wider than K.
    """

    num_q_heads: int
    group: int
    depth: int
    ov_depth: int
    swizzle_mode: SwizzleMode = SwizzleMode.B128
    page_size: int = 0
    bn_cap: int = 0
    column_cap: int = 0
    keys: int = 0
    most_consumers: int = MOST_CONSUMERS
    qkv_dtype: DType = DType.BF16
    persistent: bool = False
    streams_keys: bool = False
    in_turn: bool | None = None
    scale_dtype: DType = DType.INVALID
    few_rows: bool = False
    long_keys: bool = False
    stages_biases: bool = False

    def __post_init__(self) -> None:
        """Refuse inputs outside their domain."""
        self.refuse_values(depth=self.depth, ov_depth=self.ov_depth)
        refuse_depths(self.depth, self.ov_depth)
        if self.transposes_values:
            refuse_fp8_keys(self.BN)

    # Tile sizes ------------------------------------------------------------------------------

    @property
    def tile(self) -> SM90Tile:
        """The row of the table."""
        long = self.long_tile if self.long_keys else None
        if long is not None:
            return long
        tiles = tiles_of(
            is_fp8=self.transposes_values,
            few_rows=self.few_rows,
            has_three=self.most_consumers > FEWEST_CONSUMERS,
            is_persistent=self.persistent,
        )
        found = next(tile for tile in tiles if tile.holds(self.depth, self.ov_depth))
        return found.narrowed(self.column_cap)

    @property
    def long_tile(self) -> SM90Tile | None:
        """The row for many keys, if there is one: without pages, and where no feature caps them."""
        if self.bn_cap or self.page_size:
            return None
        return long_keys_tile(self.depth, self.ov_depth, is_fp8=self.transposes_values)

    @property
    def ctas_per_sm(self) -> int:
        """CTAs that share the registers and the memory of an SM."""
        return self.tile.ctas

    @property
    def num_consumers(self) -> int:
        """Warp groups that multiply, each with a Q tile of its own."""
        return min(self.tile.consumers, self.most_consumers)

    @property
    def BM(self) -> int:
        """Q rows per CTA."""
        return WGMMA_ROWS * self.num_consumers

    @property
    def BN(self) -> int:
        """Keys per tile."""
        keys = self.keys or self.tile.keys
        return self.whole_pages(min(keys, self.bn_cap or keys))

    @property
    def BK1(self) -> int:
        """Keys of one slot of V: all of a tile."""
        return self.BN

    @property
    def padded_depth(self) -> int:
        """``depth`` rounded up to whole column chunks."""
        return align_up(self.depth, self.swizzle_elems)

    @property
    def padded_ov_depth(self) -> int:
        """``ov_depth`` rounded up to whole column chunks."""
        return align_up(self.ov_depth, self.swizzle_elems)

    @property
    def loads_values_apart(self) -> bool:
        """Over any pages: registers of a box are read 37 cycles late (docs/hopper.md)."""
        plain = not (self.few_rows or self.transposes_values)
        return plain and self.page_size > 0 and not self.streams_keys

    @property
    def transposes_values(self) -> bool:
        """Whether V is transposed in shared memory before it is multiplied: fp8 operands.

        Then P V of a tile is a sum of its own, too.
        """
        return self.qkv_dtype is DType.FP8_E4M3

    @property
    def owes_factors(self) -> bool:
        """Whether O is rescaled with the next P V that is added to it: where one is under way when
        a row's maximum changes."""
        return self.transposes_values and self.tile.scores_ahead

    @property
    def holds_exponents(self) -> bool:
        """Whether what follows from a row's maximum is carried from key tile to key tile: three
        consumers whose S takes the registers of P V have none for it beside a wide O."""
        two = self.num_consumers <= FEWEST_CONSUMERS
        return two or self.tile.scores_ahead or self.ov_depth <= HOLDING_DEPTH

    @property
    def transposed_swizzle(self) -> SwizzleMode:
        """Swizzle of transposed V, whose rows are the keys of a tile: the widest of whole spans."""
        return next(m for m in reversed(SwizzleMode) if self.BN % m.bytes == 0)

    @property
    def fuse_gqa(self) -> bool:
        """Whether the heads of a group are packed into the rows of one Q tile.

        Rows may be left over where it is the only one: memory bounds it, and is read once.
        """
        fits = self.group <= WGMMA_ROWS if self.few_rows else WGMMA_ROWS % self.group == 0
        return self.group > 1 and fits

    @property
    def q_rows(self) -> int:
        """Rows of a consumer's Q tile that hold queries: whole positions."""
        return WGMMA_ROWS // self.group * self.group if self.fuse_gqa else WGMMA_ROWS

    @property
    def num_qk_stages(self) -> int:
        """Depth parts in which K arrives: one."""
        return 1

    def nope_depth(self) -> int:
        """Columns of Q and K that are loaded; no rope columns are apart from them."""
        return self.padded_depth

    def cta_group(self) -> int:
        """CTAs per MMA."""
        return 1

    def v_cols_per_cta(self) -> int:
        """V columns in this CTA's shared memory."""
        return self.padded_ov_depth

    def describe(self) -> str:
        """Return a few lines with the numbers that decide performance."""
        raw = f"{self.num_raw_stages} slots of V before it is transposed, "
        depth = str(self.depth) + (f"/{self.ov_depth}" if self.ov_depth != self.depth else "")
        return "\n".join(
            (
                f"{self.qkv_dtype.value} head dim {depth} (padded {self.padded_depth}) "
                f"Hopper, group {self.group}{' (fused into rows)' if self.fuse_gqa else ''}",
                f"tile {self.num_consumers} x {WGMMA_ROWS} x {self.BN}, "
                f"{self.num_consumers} consumer warp groups, {self.ctas_per_sm} CTAs per SM",
                f"K and V rings of {self.num_kv_stages} slots x {self.k_stage_bytes} and "
                f"{self.v_stage_bytes} bytes, {raw * self.transposes_values}"
                f"{self.misc_mbars.size} mbarriers",
                *([f"biases through {self.bias_stage_bytes} bytes a slot"] * self.stages_biases),
                f"shared memory {self.smem_used} of {self.smem_share} bytes",
            )
        )

    def with_few_rows(self) -> SM90Config:
        """Return the configuration with one Q tile."""
        return replace(self, few_rows=True)

    @classmethod
    def for_attention(
        cls,
        qkv_dtype: DType,
        depth: int,
        *,
        group: int = 1,
        ov_depth: int = 0,
        page_size: int = 0,
        bn_cap: int = 0,
        column_cap: int = 0,
        most_consumers: int = MOST_CONSUMERS,
    ) -> SM90Config:
        """Return the configuration of one K/V head; ``ov_depth`` is 0 where V is as wide as K."""
        return cls(
            num_q_heads=group,
            group=group,
            depth=depth,
            ov_depth=ov_depth or depth,
            swizzle_mode=operand_swizzle(qkv_dtype, depth),
            page_size=page_size,
            bn_cap=bn_cap,
            column_cap=column_cap,
            most_consumers=most_consumers,
            qkv_dtype=qkv_dtype,
        )

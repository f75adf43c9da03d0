"""``SM90Config``: numbers of the Hopper kernel, for head dims up to 256.

Each of its consumer warp groups holds 64 query rows. It multiplies S = Q K' from shared memory into
its registers, turns S into P there, and multiplies O += P V with P from registers. One more warp
group loads, and transposes V where that is needed. Tiles: ``sm90_tiles``.

V and O may have fewer columns than Q and K (192/128). A head dim is padded to whole chunks of 64
columns in shared memory; nothing but its own columns is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..barriers.sm90_mbars import SM90MBarsLayout
from ..facts.dtypes import DType
from ..facts.hardware import (
    MBARRIER_BYTES,
    OUTPUT_SWIZZLE,
    SMEM_PER_SM,
    SMEM_RESERVED_PER_CTA,
    WARP_GROUP_THREADS,
    SwizzleMode,
    align_up,
)
from ..facts.wgmma import NUM_ROWS, WGMMA_ROWS
from .operand_config import OperandConfig
from .sm90_tiles import (
    LONG_KEYS_TILE,
    MAX_KV_STAGES,
    SM90Tile,
    operand_swizzle,
    refuse_depths,
    refuse_fp8_keys,
    tiles_of,
)


@dataclass(frozen=True)
class SM90Config(OperandConfig):
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
    most_consumers: int = 3
    qkv_dtype: DType = DType.BF16
    persistent: bool = False
    streams_keys: bool = False
    in_turn: bool | None = None
    scale_dtype: DType = DType.INVALID
    few_rows: bool = False
    long_keys: bool = False

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
        if self.long_keys:
            return LONG_KEYS_TILE
        three = self.most_consumers > 2 and not self.persistent
        tiles = tiles_of(is_fp8=self.transposes_values, few_rows=self.few_rows, has_three=three)
        found = next(tile for tile in tiles if tile.holds(self.depth, self.ov_depth))
        return found.narrowed(self.column_cap)

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

    # Shared memory ---------------------------------------------------------------------------

    @property
    def q_tile_bytes(self) -> int:
        """Bytes of the Q tile of one consumer."""
        return WGMMA_ROWS * self.padded_depth * self.qkv_dtype_size

    @property
    def q_load_bytes(self) -> int:
        """Bytes of it that are loaded."""
        return self.q_rows * self.padded_depth * self.qkv_dtype_size

    @property
    def o_columns(self) -> int:
        """Columns of a staged O: whole chunks of its own swizzle."""
        return align_up(self.ov_depth, OUTPUT_SWIZZLE.bytes // self.qkv_dtype.output.size)

    @property
    def o_tile_bytes(self) -> int:
        """Bytes of the staged O of one consumer."""
        return WGMMA_ROWS * self.o_columns * self.qkv_dtype.output.size

    @property
    def q_slot_bytes(self) -> int:
        """Bytes of the memory of a consumer's Q tile, over which O is staged unless persistent."""
        return max(self.q_tile_bytes, 0 if self.persistent else self.o_tile_bytes)

    @property
    def k_stage_bytes(self) -> int:
        """Bytes of one slot of K."""
        return self.BN * self.padded_depth * self.qkv_dtype_size

    @property
    def v_stage_bytes(self) -> int:
        """Bytes of one slot of V."""
        return self.BN * self.padded_ov_depth * self.qkv_dtype_size

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of the key scales that arrive with a slot of K."""
        return self.BN * self.scale_dtype.size

    @property
    def q_scale_bytes(self) -> int:
        """Bytes of the query scales: every thread that multiplies keeps those of its rows."""
        return self.num_consumers * WARP_GROUP_THREADS * NUM_ROWS * self.scale_dtype.size

    @property
    def num_kv_stages(self) -> int:
        """Slots of either ring: what fits."""
        return min(self._slots_beside(self._q_bytes + self.o_bytes), MAX_KV_STAGES)

    @property
    def num_raw_stages(self) -> int:
        """Slots of V as it is loaded, where it is transposed: one fewer than of transposed V."""
        return self.num_kv_stages - 1 if self.transposes_values else 0

    @property
    def o_apart(self) -> bool:
        """Whether staged O has memory of its own: that of a persistent CTA, if it costs no slot.

        A persistent CTA loads Q of the next query tile while the last one is still multiplied and
        written, so that O is never staged over Q. Parts of query tiles leave from the registers.
        """
        alone = self.num_consumers * self.q_tile_bytes
        both = alone + self.num_consumers * self.o_tile_bytes
        most = min(self._slots_beside(alone), MAX_KV_STAGES)
        stages = self.persistent and not self.streams_keys
        return stages and self._slots_beside(both) >= most

    @property
    def o_by_rows(self) -> bool:
        """Whether O leaves from the registers: a persistent CTA has no memory to stage it."""
        return self.persistent and not self.o_apart

    @property
    def o_bytes(self) -> int:
        """Bytes of the staged O besides those of Q."""
        return self.num_consumers * self.o_tile_bytes if self.o_apart else 0

    @property
    def _q_bytes(self) -> int:
        return self.num_consumers * self.q_slot_bytes

    def _slots_beside(self, num_bytes: int) -> int:
        """Return how many slots of either ring fit besides ``num_bytes`` of Q and O."""
        without = SM90MBarsLayout(0, self.num_consumers, self.persistent)
        used = num_bytes + self.q_scale_bytes + without.size * MBARRIER_BYTES + self.stretch_bytes
        rows = self.k_stage_bytes + self.v_stage_bytes + self.k_scale_stride_bytes
        raw = self.v_stage_bytes + 2 * MBARRIER_BYTES if self.transposes_values else 0
        return (self.smem_share - used + raw) // (rows + 4 * MBARRIER_BYTES + raw)

    @property
    def smem_share(self) -> int:
        """Dynamic shared memory that a CTA may take."""
        return SMEM_PER_SM // self.ctas_per_sm - SMEM_RESERVED_PER_CTA

    @cached_property
    def misc_mbars(self) -> SM90MBarsLayout:
        """The barrier block of this configuration."""
        stages, raw = self.num_kv_stages, self.num_raw_stages
        return SM90MBarsLayout(stages, self.num_consumers, self.persistent, raw)

    @property
    def smem_used(self) -> int:
        """Dynamic shared memory of the launch."""
        slot = self.k_stage_bytes + self.v_stage_bytes + self.k_scale_stride_bytes
        rings = self.num_kv_stages * slot + self.num_raw_stages * self.v_stage_bytes
        rest = self.misc_mbars.size * MBARRIER_BYTES + self.q_scale_bytes + self.stretch_bytes
        return self._q_bytes + self.o_bytes + rings + rest

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
        most_consumers: int = 3,
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

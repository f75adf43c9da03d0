"""``SM90Config``: numbers of the Hopper kernel, for head dims up to 256.

Each of two or three consumer warp groups holds 64 query rows. It multiplies S = Q K' from shared
memory into its registers, turns S into P there, and multiplies O += P V with P from registers. One
more warp group loads. What bounds a tile is a consumer's registers, O and two of S and P at a
time, and shared memory for two slots of K and V::

    head dim   consumers   keys   registers of S, O, P    as in
    .. 64      3           128    64, 32, 32 of 160
    .. 96      3           112    56, 48, 28 of 160
    .. 128     2           128    64, 64, 32 of 240       FlashAttention-3's causal tile
    192/128    2           128    64, 64, 32 of 240       FlashAttention-3
    .. 192     2           112    56, 96, 28 of 240       FlashAttention-3
    .. 256     2           80     40, 128, 20 of 240      FlashAttention-3

V and O may have fewer columns than Q and K (192/128). A head dim is padded to whole chunks of 64
columns in shared memory; nothing but its own columns is multiplied.

Where the queries of a head fit 64 rows, as those of a decoding step do, memory is what bounds a
call. Then one consumer suffices, its tiles are small, and up to head dim 192 two CTAs share an SM:
one loads while the other starts or ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from ..barriers.sm90_mbars import SM90MBarsLayout
from ..facts.dtypes import DType
from ..facts.hardware import (
    MBARRIER_BYTES,
    SMEM_PER_SM,
    SMEM_RESERVED_PER_CTA,
    SwizzleMode,
    align_up,
)
from ..facts.wgmma import WGMMA_ROWS
from .operand_config import OperandConfig

MAX_KV_STAGES: Final = 4
"""More slots than this hide no more latency."""
MIN_KV_STAGES: Final = 2
"""With fewer, nothing is loaded while the tensor cores read."""


class SM90Tile(NamedTuple):
    """Tile of head dims up to ``depth``, of V up to ``ov_depth``: consumers of 64 rows, and keys.

    ``ov_depth`` is 0 where any will do; ``ctas`` share an SM.
    """

    depth: int
    consumers: int
    keys: int
    ov_depth: int = 0
    ctas: int = 1

    def holds(self, depth: int, ov_depth: int) -> bool:
        """Whether the tile is wide enough."""
        return depth <= self.depth and ov_depth <= (self.ov_depth or self.depth)


TILES: Final = (SM90Tile(64, 3, 128), SM90Tile(96, 3, 112), SM90Tile(128, 2, 128),
                SM90Tile(192, 2, 128, ov_depth=128), SM90Tile(192, 2, 112),
                SM90Tile(256, 2, 80))  # fmt: skip
"""Ascending; the first that is wide enough is taken."""
MAX_DEPTH: Final = TILES[-1].depth
FEW_ROWS_TILES: Final = (SM90Tile(64, 1, 128, ctas=2), SM90Tile(128, 1, 64, ctas=2),
                         SM90Tile(192, 1, 32, ctas=2), SM90Tile(256, 1, 64))  # fmt: skip
"""The same for queries that fit 64 rows. The last one's O alone takes the registers that a thread
of two CTAs starts with, and ptxas wants an instruction's operands among these."""


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
        keys: keys per tile where they are not to be those of the table, 0 for these.
        most_consumers: most warp groups that multiply: two have more registers each than three.
        qkv_dtype: element type of Q, K and V.
        persistent: a CTA takes one query tile after the other.
        in_turn: consumers start their products in turn, so that one multiplies while the others
            exponentiate.
        scale_dtype: element type of per-token scales, ``INVALID`` when there are none.
        few_rows: a CTA has one Q tile.

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
    keys: int = 0
    most_consumers: int = 3
    qkv_dtype: DType = DType.BF16
    persistent: bool = False
    in_turn: bool = True
    scale_dtype: DType = DType.INVALID
    few_rows: bool = False

    def __post_init__(self) -> None:
        """Refuse inputs outside their domain."""
        self.refuse_values(depth=self.depth, ov_depth=self.ov_depth)
        if self.depth > MAX_DEPTH:
            raise ValueError(
                f"depth={self.depth}: the registers of a warp group hold no wider O; nearest "
                f"supported choice: depth={MAX_DEPTH}"
            )
        if self.ov_depth > self.depth:
            raise ValueError(
                f"ov_depth={self.ov_depth} exceeds depth={self.depth}, that of Q and K; nearest "
                f"supported choice: ov_depth={self.depth}"
            )

    # Tile sizes ------------------------------------------------------------------------------

    @property
    def tile(self) -> SM90Tile:
        """The row of the table."""
        tiles = FEW_ROWS_TILES if self.few_rows else TILES
        return next(tile for tile in tiles if tile.holds(self.depth, self.ov_depth))

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
    def fuse_gqa(self) -> bool:
        """Whether the heads of a group are packed into the rows of one Q tile."""
        return self.group > 1 and WGMMA_ROWS % self.group == 0

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

    @property
    def num_own_scale_bufs(self) -> int:
        """Buffers of key scales with barriers of their own: none."""
        return 0

    # Shared memory ---------------------------------------------------------------------------

    @property
    def q_tile_bytes(self) -> int:
        """Bytes of the Q tile of one consumer; its staged O is no larger."""
        return WGMMA_ROWS * self.padded_depth * self.qkv_dtype_size

    @property
    def o_tile_bytes(self) -> int:
        """Bytes of the staged O of one consumer."""
        return WGMMA_ROWS * self.padded_ov_depth * self.qkv_dtype_size

    @property
    def k_stage_bytes(self) -> int:
        """Bytes of one slot of K."""
        return self.BN * self.padded_depth * self.qkv_dtype_size

    @property
    def v_stage_bytes(self) -> int:
        """Bytes of one slot of V."""
        return self.BN * self.padded_ov_depth * self.qkv_dtype_size

    @property
    def num_kv_stages(self) -> int:
        """Slots of either ring: what fits."""
        return min(self._slots_beside(self._q_bytes + self.o_bytes), MAX_KV_STAGES)

    @property
    def o_apart(self) -> bool:
        """Whether staged O has memory of its own, where a persistent CTA has it to spare.

        Then Q of the next query tile is loaded while the last one is still multiplied and written.
        """
        both = self._q_bytes + self._o_apart_bytes
        return self.persistent and self._slots_beside(both) >= MIN_KV_STAGES

    @property
    def o_bytes(self) -> int:
        """Bytes of the staged O besides those of Q."""
        return self._o_apart_bytes if self.o_apart else 0

    @property
    def _o_apart_bytes(self) -> int:
        return self.num_consumers * self.o_tile_bytes

    @property
    def _q_bytes(self) -> int:
        return self.num_consumers * self.q_tile_bytes

    def _slots_beside(self, num_bytes: int) -> int:
        """Return how many slots of either ring fit besides ``num_bytes`` of Q and O."""
        without = SM90MBarsLayout(0, self.num_consumers, self.persistent)
        used = num_bytes + without.size * MBARRIER_BYTES
        slots = self.k_stage_bytes + self.v_stage_bytes + 4 * MBARRIER_BYTES
        return (self.smem_share - used) // slots

    @property
    def smem_share(self) -> int:
        """Dynamic shared memory that a CTA may take."""
        return SMEM_PER_SM // self.ctas_per_sm - SMEM_RESERVED_PER_CTA

    @cached_property
    def misc_mbars(self) -> SM90MBarsLayout:
        """The barrier block of this configuration."""
        return SM90MBarsLayout(self.num_kv_stages, self.num_consumers, self.persistent)

    @property
    def smem_used(self) -> int:
        """Dynamic shared memory of the launch."""
        rings = self.num_kv_stages * (self.k_stage_bytes + self.v_stage_bytes)
        barriers = self.misc_mbars.size * MBARRIER_BYTES
        return self._q_bytes + self.o_bytes + rings + barriers

    def describe(self) -> str:
        """Return a few lines with the numbers that decide performance."""
        return "\n".join(
            (
                f"{self.qkv_dtype.value} head dim {self._depth_text} (padded {self.padded_depth}) "
                f"Hopper, group {self.group}{' (fused into rows)' if self.fuse_gqa else ''}",
                f"tile {self.num_consumers} x {WGMMA_ROWS} x {self.BN}, "
                f"{self.num_consumers} consumer warp groups, {self.ctas_per_sm} CTAs per SM",
                f"K and V rings of {self.num_kv_stages} slots x {self.k_stage_bytes} and "
                f"{self.v_stage_bytes} bytes, {self.misc_mbars.size} mbarriers",
                f"shared memory {self.smem_used} of {self.smem_share} bytes",
            )
        )

    @property
    def _depth_text(self) -> str:
        return str(self.depth) + (f"/{self.ov_depth}" if self.ov_depth != self.depth else "")

    def with_few_rows(self) -> SM90Config:
        """Return the configuration with one Q tile; a consumer alone takes no turns."""
        return replace(self, few_rows=True, in_turn=False)

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
        most_consumers: int = 3,
    ) -> SM90Config:
        """Return the configuration of one K/V head, with the dtype's own swizzle.

        ``ov_depth`` is 0 where V is as wide as K.
        """
        return cls(
            num_q_heads=group,
            group=group,
            depth=depth,
            ov_depth=ov_depth or depth,
            swizzle_mode=qkv_dtype.default_swizzle,
            page_size=page_size,
            bn_cap=bn_cap,
            most_consumers=most_consumers,
            qkv_dtype=qkv_dtype,
        )

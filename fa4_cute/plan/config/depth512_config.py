"""``Depth512Config``: numbers of the CTA-pair kernel for head dims up to 256 and up to 512.

Two CTAs of a cluster share every MMA (``cta_group::2``), and there is one output accumulator with
two alternating score buffers (``docs/sources.md`` section 10)::

    head dim padded to     256 (one O)          512 (O_lo, O_hi)
    MMA M / BM per CTA     256 / 128            128 / 64
    BN, keys per tile      128                  256
    Q K'  per QK stage     M256 N128 K128       M128 N256 K128
    P V   per PV stage     M256 N256 K64        M128 N256 K128, for lo and for hi
    P                      in columns of its S  in shared memory

An M x N accumulator of a pair takes ``M * N / 256`` columns in each CTA. K and V slots have equal
size and share one ring.

Three deliberate differences to that section: any head dim is padded to 256 or 512, and QK stages
that would hold nothing but padding are neither loaded nor multiplied; heads are packed into rows
when they divide the rows of one CTA, not of the pair; P of head dim 256 stays in Tensor Memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from ..barriers.answers import ANSWER_BYTES
from ..barriers.depth512_mbars import Depth512MBarsLayout
from ..facts.dtypes import DType
from ..facts.hardware import (
    CTA_GROUP,
    MBARRIER_BYTES,
    SMEM_CAPACITY,
    TMEM_ADDRESS_BYTES,
    TMEM_COLUMN_BYTES,
    TMEM_COLUMNS,
    TMEM_LANES,
    UMMA_MAX_N,
    WARP_GROUP_THREADS,
    SwizzleMode,
    align_down,
    ceil_div,
)
from .copies import RowCopiesPlan
from .operand_config import OperandConfig
from .token_rows import NUM_SCALE_BUFS

DEPTHS: Final = (256, 512)
QK_STAGE_DEPTH: Final = 128
NUM_PV_STAGES: Final = 2


@dataclass(frozen=True)
class Depth512Config(OperandConfig):
    """Tile sizes, TMEM columns, ring and shared-memory use of ``SM100MHADepth512``.

    Args:
        num_q_heads: query heads.
        group: query heads per key/value head.
        depth: head dim of Q, K, V and O, before padding.
        swizzle_mode: swizzle of all operand tiles.
        page_size: keys per page of a paged cache, 0 when K and V are dense.
        qkv_dtype: element type of Q, K and V.
        persistent: a pair takes one query tile after the other.
        dynamic: it takes those of pairs that have not started.
        scale_dtype: element type of per-token scales, ``INVALID`` when there are none.
        p_in_memory: P goes through shared memory, also where Tensor Memory has a place for it.
        writes_rows: O goes row by row from the registers to memory, and nothing is staged over Q.
        streams_keys: a pair takes parts of query tiles, as many key tiles as any other.
        row_copies: copies of a CTA's rows in its lanes of Tensor Memory, each with keys of its own.

    Raises:
        ValueError: for values that describe no problem at all.
    """

    num_q_heads: int
    group: int
    depth: int
    swizzle_mode: SwizzleMode = SwizzleMode.B128
    page_size: int = 0
    qkv_dtype: DType = DType.BF16
    persistent: bool = False
    scale_dtype: DType = DType.INVALID
    dynamic: bool = False
    p_in_memory: bool = False
    writes_rows: bool = False
    streams_keys: bool = False
    row_copies: int = 1

    def __post_init__(self) -> None:
        """Refuse inputs outside their domain."""
        self.refuse_values(depth=self.depth)

    # Tile sizes ------------------------------------------------------------------------------

    @property
    def padded_depth(self) -> int:
        """256 or 512."""
        return DEPTHS[0] if self.depth <= DEPTHS[0] else DEPTHS[1]

    @property
    def split_o(self) -> bool:
        """Whether O is split into two blocks of columns, lo and hi."""
        return self.padded_depth > DEPTHS[0]

    @property
    def MMA_M(self) -> int:
        """Rows of one MMA, over both CTAs."""
        return 128 if self.split_o else 256

    @property
    def BM(self) -> int:
        """Q rows per CTA."""
        return self.MMA_M // CTA_GROUP

    @property
    def BN(self) -> int:
        """Keys per tile: two S and the O accumulator fill 512 columns."""
        keys = TMEM_COLUMNS * 256 // self.MMA_M - self.padded_depth
        return self.whole_pages(min(UMMA_MAX_N, align_down(keys // 2, self.MMA_K)))

    @property
    def num_qk_stages(self) -> int:
        """QK stages: depth parts of Q K' that hold data."""
        return ceil_div(self.depth, QK_STAGE_DEPTH)

    @property
    def BK0(self) -> int:
        """Depth of one QK stage."""
        return QK_STAGE_DEPTH

    def nope_depth(self) -> int:
        """Columns of Q and K that are loaded: whole parts; no rope columns are apart from them."""
        return self.num_qk_stages * self.BK0

    @property
    def num_pv_stages(self) -> int:
        """PV stages: key blocks of P V."""
        return NUM_PV_STAGES

    @property
    def BK1(self) -> int:
        """Keys of one V slot."""
        return self.BN // NUM_PV_STAGES

    def cta_group(self) -> int:
        """CTAs per MMA."""
        return CTA_GROUP

    def v_cols_per_cta(self) -> int:
        """V columns of one slot in this CTA's shared memory."""
        return self.padded_depth // (CTA_GROUP * self.num_o_blocks)

    @property
    def num_o_blocks(self) -> int:
        """Output accumulators: 2 (lo, hi) or 1."""
        return 2 if self.split_o else 1

    def v_column(self, rank: int, o_block: int = 0) -> int:
        """Return the first head-dim column of V (and O) that CTA ``rank`` holds of an O block."""
        return o_block * (self.padded_depth // self.num_o_blocks) + rank * self.v_cols_per_cta()

    # TMEM columns ----------------------------------------------------------------------------

    @property
    def o_columns(self) -> int:
        """Columns of one output accumulator."""
        return self.MMA_M * self.padded_depth // (2 * TMEM_LANES * self.num_o_blocks)

    @property
    def s_columns(self) -> int:
        """Columns of one score buffer."""
        return self.MMA_M * self.BN // (2 * TMEM_LANES)

    def p_column(self, key_block: int) -> int:
        """Return the column of S in which P of ``key_block`` begins, where P lies there."""
        return key_block * self.BK1 * self.qkv_dtype_size // TMEM_COLUMN_BYTES

    @property
    def TMEM_O_lo(self) -> int:
        """First column of O, or of its block lo."""
        return 0

    @property
    def TMEM_S_even(self) -> int:
        """First column of the scores of even key tiles."""
        return self.TMEM_O_lo + self.num_o_blocks * self.o_columns

    @property
    def TMEM_S_odd(self) -> int:
        """First column of the scores of odd key tiles."""
        return self.TMEM_S_even + self.s_columns

    @property
    def tmem_used(self) -> int:
        """Columns used."""
        return self.TMEM_S_odd + self.s_columns

    # Shared memory ---------------------------------------------------------------------------

    @property
    def q_bytes(self) -> int:
        """Bytes of Q, which O reuses."""
        return self.BM * self.padded_depth * self.qkv_dtype_size

    @property
    def p_in_tmem(self) -> bool:
        """Whether P lies in the columns of its own scores.

        Where O is split a CTA has 64 rows, whose scores fill 128 lanes half by half: no A operand.
        """
        return not (self.split_o or self.p_in_memory)

    @property
    def p_bytes(self) -> int:
        """Bytes of P in shared memory."""
        return 0 if self.p_in_tmem else self.BM * self.BN * self.qkv_dtype_size

    @property
    def correction_bytes(self) -> int:
        """Bytes of the correction factors, one float per row, and of sums where copies join."""
        return self.BM * DType.FP32.size * (2 if self.row_copies > 1 else 1)

    @property
    def copies_plan(self) -> RowCopiesPlan:
        """How copies of the rows put O together."""
        return RowCopiesPlan.of(self.row_copies, self.rows_of_copy, self.depth, self.qkv_dtype)

    @property
    def num_k_scale_bufs(self) -> int:
        """Buffers for the scales of a key tile."""
        return NUM_SCALE_BUFS if self.scale_dtype.is_valid else 0

    @property
    def num_own_scale_bufs(self) -> int:
        """Those with barriers of their own: all."""
        return self.num_k_scale_bufs

    @property
    def q_scale_bytes(self) -> int:
        """Bytes of the query scales: each softmax thread keeps that of its row for itself."""
        return WARP_GROUP_THREADS * self.scale_dtype.size

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of one buffer of key scales: a CTA needs those of all keys of a tile."""
        return self.BN * self.scale_dtype.size

    @property
    def fixed_bytes(self) -> int:
        """Bytes besides the ring and the barriers."""
        scales = self.q_scale_bytes + self.num_k_scale_bufs * self.k_scale_stride_bytes
        used = TMEM_ADDRESS_BYTES + self.q_bytes + self.p_bytes + self.correction_bytes
        return used + scales + self.answer_bytes + self.stretch_bytes + self.copies_plan.size

    @property
    def correction_writes(self) -> bool:
        """Whether the correction role writes O, from registers, where the softmax does else: it
        alone knows sinks and log-sum-exps of parts, and what copies of a row have.
        """
        return self.writes_rows and not self.streams_keys and self.row_copies == 1

    @property
    def answer_bytes(self) -> int:
        """Bytes of the answer that names the next work tile."""
        return ANSWER_BYTES if self.dynamic else 0

    @property
    def kv_stage_bytes(self) -> int:
        """Bytes of one ring slot: a QK stage of K, or an O block of a key block of V."""
        return self.k_rows_per_cta() * self.BK0 * self.qkv_dtype_size

    @property
    def value_slots(self) -> int:
        """Ring slots that V of one key tile passes through."""
        return NUM_PV_STAGES * self.num_o_blocks

    @property
    def slots_per_tile(self) -> int:
        """Ring slots one key tile passes through."""
        return self.num_qk_stages + self.value_slots

    @property
    def num_kv_stages(self) -> int:
        """Ring slots: what fits, and what one warp initialises in a single wave."""
        without = self._misc_mbars(0)
        used = self.fixed_bytes + without.size * MBARRIER_BYTES
        slot = self.kv_stage_bytes + 2 * MBARRIER_BYTES
        return min((SMEM_CAPACITY - used) // slot, without.most_kv_stages)

    @property
    def loads_values_apart(self) -> bool:
        """Whether V has a load warp of its own, where the ring has slots enough for two."""
        return self.loads_apart_with(self.num_kv_stages)

    def loads_apart_with(self, num_kv_stages: int) -> bool:
        """Return whether it has with so many slots.

        Between two of a warp's there are those of two tiles of the other operand, where a query
        tile ends: fewer than the ring has. With scales of keys no register is left.
        """
        most = 2 * max(self.num_qk_stages, self.value_slots)
        spare = most < num_kv_stages and not self.scale_dtype.is_valid
        return super().loads_values_apart and spare

    @cached_property
    def misc_mbars(self) -> Depth512MBarsLayout:
        """The barrier block of this configuration."""
        return self._misc_mbars(self.num_kv_stages)

    def _misc_mbars(self, num_kv_stages: int) -> Depth512MBarsLayout:
        bufs = self.num_k_scale_bufs
        return Depth512MBarsLayout(
            num_kv_stages, self.split_o, self.persistent, bufs, self.dynamic,
            writes_rows=self.writes_rows, correction_writes=self.correction_writes,
            values_apart=self.loads_apart_with(num_kv_stages),
        )  # fmt: skip

    @property
    def smem_used(self) -> int:
        """Dynamic shared memory of the launch."""
        ring = self.num_kv_stages * self.kv_stage_bytes
        return self.fixed_bytes + ring + self.misc_mbars.size * MBARRIER_BYTES

    def describe(self) -> str:
        """Return a few lines with the numbers that decide performance."""
        return "\n".join(
            (
                f"{self.qkv_dtype.value} head dim {self.depth} (padded {self.padded_depth}) "
                f"CTA pair, group {self.group}{' (fused into rows)' if self.fuse_gqa else ''}",
                f"tile 2 x {self.BM} x {self.BN}, {self.num_qk_stages} QK stages of {self.BK0}, "
                f"{self.num_pv_stages} PV stages of {self.BK1} keys",
                f"ring of {self.num_kv_stages} slots x {self.kv_stage_bytes} bytes, "
                f"{self.slots_per_tile} per key tile, {self.misc_mbars.size} mbarriers",
                f"shared memory {self.smem_used} of {SMEM_CAPACITY} bytes",
            )
        )

    @classmethod
    def for_attention(
        cls, qkv_dtype: DType, depth: int, *, group: int = 1, page_size: int = 0
    ) -> Depth512Config:
        """Return the configuration of one K/V head: of the dtype's own swizzle, or a wider one
        over small pages if its chunks are no wider than stages of P that lie in shared memory."""
        own = qkv_dtype.default_swizzle
        config = cls(group, group, depth, own, page_size=page_size, qkv_dtype=qkv_dtype)
        widest = config.widest_swizzle(depth)
        fits = config.p_in_tmem or widest.bytes // qkv_dtype.size <= config.BK1
        return replace(config, swizzle_mode=widest) if fits else config

"""Tile sizes and TMEM columns of the 2Q/1Q kernel, and the inputs they follow from.

Chain of derivations (``docs/sources.md`` section 1)::

    dtype, depth, swizzle -> padded depths -> BN (from 512 TMEM columns) -> TMEM columns

    TMEM column  0        BN       2*BN       2*BN+ov   2*BN+2*ov <= 512
                 | S0/P0  | S1/P1  | O0       | O1      |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Final

from ..facts.dtypes import DType
from ..facts.hardware import (
    TMEM_COLUMNS,
    UMMA_MAX_N,
    WARP_GROUP_THREADS,
    SwizzleMode,
    align_down,
    align_up,
)
from .copies import KEYS_OF_COPIES, RowCopiesPlan
from .operand_config import OperandConfig
from .token_rows import NUM_SCALE_BUFS
from .tuning import Tuning

RESIDENT_COLUMNS: Final = 128
"""Most scores of a row that fit a softmax thread's registers besides everything else."""
SOFTMAX_THREADS = 2 * WARP_GROUP_THREADS
"""One warp group per S/O chain, one thread per row."""


@dataclass(frozen=True)
class FA4TileConfig(OperandConfig):
    """Inputs of a configuration and its tile sizes; ``FA4Config`` adds staging and limits.

    Args:
        num_q_heads: query heads.
        group: query heads per key/value head (1 = MHA).
        qk_depth: head dim of Q and K, before padding.
        ov_depth: head dim of V and O, before padding.
        swizzle_mode: swizzle of all operand tiles.
        page_size: keys per page of a paged cache, 0 when K and V are dense.
        bn_cap: most keys per tile, 0 for as many as fit.
        is_mla: K carries rope columns that V does not have.
        pair_cta: two CTAs share each MMA (``cta_group::2``).
        num_qo: Q tiles per CTA: 2, or 1 for short prompts.
        qkv_dtype: element type of Q, K and V.
        rope_dtype: element type of the rope columns, ``INVALID`` when there are none.
        scale_dtype: element type of per-token scales, ``INVALID`` when there are none.
        persistent: a CTA takes one query tile after the other.
        dynamic: it takes those of CTAs that have not started.
        streams_keys: it takes parts of them, as many key tiles as any other.
        writes_rows: O goes row by row from the registers to memory, and nothing is staged over Q.
        shared_rope: the rope columns of K are a tensor of their own with one head, for all heads.
        two_rings: keep K and V in rings of their own, also with rope columns.
        splitk_partitions: CTAs of a cluster that share the keys of a query tile.
        row_copies: copies of the rows of a single Q tile in the lanes of Tensor Memory, each with
            keys of its own in every key tile; 1 where a row is once there and has all keys.
        tuning: the free choices.

    Raises:
        ValueError: for values that describe no problem at all. Whether the kernel can run a
            described problem is a question for ``supported`` and ``unsupported_reason``.
    """

    num_q_heads: int
    group: int
    qk_depth: int
    ov_depth: int
    swizzle_mode: SwizzleMode = SwizzleMode.B128
    page_size: int = 0
    bn_cap: int = 0
    is_mla: bool = False
    pair_cta: bool = False
    num_qo: int = 2
    qkv_dtype: DType = DType.BF16
    rope_dtype: DType = DType.INVALID
    scale_dtype: DType = DType.INVALID
    persistent: bool = False
    dynamic: bool = False
    streams_keys: bool = False
    writes_rows: bool = False
    shared_rope: bool = False
    two_rings: bool = False
    splitk_partitions: int = 1
    row_copies: int = 1
    tuning: Tuning = field(default=Tuning())

    def __post_init__(self) -> None:
        """Refuse values outside the domain of the record."""
        self.refuse_values(
            qk_depth=self.qk_depth,
            ov_depth=self.ov_depth,
            splitk_partitions=self.splitk_partitions,
        )
        if self.num_qo not in (1, 2):
            raise ValueError(f"num_qo={self.num_qo}: choose 1 or 2 Q tiles per CTA")

    # Tile sizes ------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Head dim of Q and K, by the name that the other configurations have for it."""
        return self.qk_depth

    @property
    def rope_dtype_size(self) -> int:
        """Bytes of a rope element, 0 without rope."""
        return self.rope_dtype.size

    @property
    def scale_dtype_size(self) -> int:
        """Bytes of a per-token scale, 0 without scales."""
        return self.scale_dtype.size

    @property
    def num_q_scales(self) -> int:
        """Query scales in shared memory: one per row, or, per token, one per softmax thread.

        With one Q tile two threads own a row, and each keeps the scale for itself.
        """
        return SOFTMAX_THREADS if self.has_token_scales else self.BM

    @property
    def has_token_scales(self) -> bool:
        """Whether Q and K have a scale per token as the kernel reads them.

        The source's plan for scales with rope columns may share a ring; the kernel needs two,
        unless the scales do not travel with K.
        """
        whole = self.two_rings or not self.is_mla or self.pair_cta
        return self.scale_dtype.is_valid and whole

    @property
    def num_own_scale_bufs(self) -> int:
        """Buffers of key scales with barriers of their own: a CTA of a pair cannot wait for K.

        The source counts half of the scales of a tile for each CTA and K slot, but lays all of
        them out. Here each CTA has two buffers with all of them.
        """
        return NUM_SCALE_BUFS if self.pair_cta and self.scale_dtype.is_valid else 0

    @property
    def MMA_M(self) -> int:
        """Rows of one MMA, over all CTAs that share it."""
        return 256 if self.pair_cta else 128

    @property
    def BM(self) -> int:
        """Q rows held by one CTA. With a pair each 256-row MMA takes 128 rows of each CTA."""
        return self.MMA_M if self.num_qo == 1 else 256

    @property
    def tile_rows(self) -> int:
        """Rows of the memory of one Q tile in this CTA, all copies of them."""
        return self.MMA_M // self.cta_group()

    @property
    def value_swizzle(self) -> SwizzleMode:
        """Swizzle of V tiles: the widest of which the CTA's columns are whole chunks.

        Half of 64 columns, in a pair with rope columns, are half a chunk of the other operands.
        """
        columns = self.v_cols_per_cta() * self.qkv_dtype_size
        return SwizzleMode(gcd(self.swizzle_mode.bytes, columns))

    @property
    def padded_qk_depth(self) -> int:
        """``qk_depth`` rounded up to whole column chunks."""
        return align_up(self.qk_depth, self.swizzle_elems)

    @property
    def padded_ov_depth(self) -> int:
        """``ov_depth`` rounded up to whole column chunks."""
        return align_up(self.ov_depth, self.swizzle_elems)

    @property
    def BN(self) -> int:
        """Keys per tile: two S and two O accumulators fill 512 columns. 0 when none fit."""
        half = TMEM_COLUMNS // 2
        copies_cap = KEYS_OF_COPIES if self.row_copies > 1 else 0
        caps = (UMMA_MAX_N, self.bn_cap, self.tuning.keys, copies_cap)
        most = min(cap for cap in caps if cap)
        keys = min(most, align_down(half - self.padded_ov_depth, self.MMA_K))
        return self.whole_pages(max(0, keys))

    # Tensor Memory columns -------------------------------------------------------------------

    @property
    def TMEM_S0(self) -> int:
        """First column of S0."""
        return 0

    @property
    def TMEM_S1(self) -> int:
        """First column of S1."""
        return self.BN

    @property
    def TMEM_O0(self) -> int:
        """First column of O0."""
        return 2 * self.BN

    @property
    def TMEM_O1(self) -> int:
        """First column of O1."""
        return self.TMEM_O0 + self.padded_ov_depth

    @property
    def tmem_used(self) -> int:
        """Columns used; the kernel allocates all 512."""
        return self.TMEM_O1 + self.padded_ov_depth

    @property
    def crosses(self) -> bool:
        """Whether P of a chain lies in the columns of the other chain's S: two Q tiles of one CTA.

        A row of more columns reads half of S again while it stores P.
        """
        two = self.num_qo == 2 and not self.pair_cta
        return self.tuning.crosses and two and self.BN <= RESIDENT_COLUMNS

    @property
    def correction_writes(self) -> bool:
        """Whether the correction role writes O, from the registers, where the softmax does else."""
        return self.writes_rows and self.crosses

    def cta_group(self) -> int:
        """CTAs per MMA."""
        return 2 if self.pair_cta else 1

    def cluster_size(self) -> int:
        """CTAs per cluster."""
        return self.cta_group() * self.splitk_partitions

    def v_cols_per_cta(self) -> int:
        """V columns in this CTA's shared memory."""
        return self.padded_ov_depth // self.cta_group()

    def rope_depth(self) -> int:
        """Columns K has beyond V."""
        return self.padded_qk_depth - self.padded_ov_depth

    def nope_depth(self) -> int:
        """Columns of Q and K that do not lie in the rope regions."""
        return self.padded_qk_depth - self.rope_depth()

    @property
    def rope_apart(self) -> bool:
        """Whether the rope columns are tensors of their own: another type, or heads that share."""
        return self.rope_depth() > 0 and (self.shared_rope or self.rope_dtype != self.qkv_dtype)

    @property
    def rope_swizzle(self) -> SwizzleMode:
        """Swizzle of the rope regions: chunks of as many columns as the others where one exists."""
        span = self.swizzle_elems * self.rope_dtype_size
        return SwizzleMode(min(SwizzleMode.B128.bytes, span))

    def correction_smem_elements(self) -> int:
        """Correction factors per Q half-chain, as the source counts them."""
        return self.BM

    @property
    def joins_in_smem(self) -> bool:
        """Whether both softmax groups of one Q tile exchange their row values in shared memory.

        S, where they do so else, is written anew as soon as the next Q is there, and a lane does
        not reach the other copies of its row there.
        """
        return self.num_qo == 1 and (self.writes_rows or self.row_copies > 1)

    @property
    def copies_plan(self) -> RowCopiesPlan:
        """How copies of the rows put O together."""
        return RowCopiesPlan.of(self.row_copies, self.rows_of_copy, self.ov_depth, self.qkv_dtype)

    @property
    def own_copies_bytes(self) -> int:
        """Bytes that copies of the rows have for themselves: a persistent CTA fills the ring
        meanwhile."""
        return self.copies_plan.size if self.persistent else 0

    @property
    def correction_floats(self) -> int:
        """One correction factor per softmax thread, and a row sum where groups exchange it here.

        The row maximum takes the place of the factor, which has been read by then.
        """
        chains_per_row = 2 if self.num_qo == 1 else 1
        return chains_per_row * self.correction_smem_elements() * (2 if self.joins_in_smem else 1)

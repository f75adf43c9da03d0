"""``OperandConfig``: what all configurations say of operands and tiles, whatever their sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from ..barriers.answers import STRETCH_BYTES
from ..facts.dtypes import DType
from ..facts.hardware import SwizzleMode, align_up, prev_pow2
from .copies import ROW_COPIES

QKV_DTYPES: Final = (DType.BF16, DType.FP16, DType.FP8_E4M3)
MANY_PAGES: Final = 4
"""Pages of a key tile from which on V has a load warp of its own. With two nothing is gained."""


class OperandConfig(ABC):
    """Base of ``FA4TileConfig``, ``Depth512Config`` and ``SM90Config``, whose fields it reads."""

    num_q_heads: int
    group: int
    swizzle_mode: SwizzleMode
    page_size: int
    qkv_dtype: DType
    streams_keys: bool = False
    row_copies: int = 1
    writes_rows: bool = False

    @property
    def correction_writes(self) -> bool:
        """Whether the correction role writes O, and not the softmax; Hopper has no such role."""
        return False

    @property
    def stretch_bytes(self) -> int:
        """Bytes that tell a CTA its stretch with stream-K."""
        return STRETCH_BYTES if self.streams_keys else 0

    @property
    def num_own_scale_bufs(self) -> int:
        """Buffers of key scales with barriers of their own: none where a kernel has no such."""
        return 0

    def refuse_values(self, **positive: int) -> None:
        """Refuse values that describe no problem at all.

        Args:
            positive: further numbers that are at least 1, by name.

        Raises:
            ValueError: naming the field and its value.
        """
        heads = {"num_q_heads": self.num_q_heads, "group": self.group}
        for name, value in (heads | positive).items():
            if value < 1:
                raise ValueError(f"{name}={value}: must be at least 1")
        if self.row_copies not in ROW_COPIES:
            raise ValueError(f"row_copies={self.row_copies}: choose 1, 2 or 4 copies of the rows")
        if self.num_q_heads % self.group:
            raise ValueError(
                f"num_q_heads={self.num_q_heads} is not a multiple of group={self.group}"
            )
        if self.page_size < 0:
            raise ValueError(f"page_size={self.page_size}: must be 0 (dense) or positive")
        if self.qkv_dtype not in QKV_DTYPES:
            raise ValueError(f"qkv_dtype={self.qkv_dtype.value}: choose bf16, fp16 or fp8_e4m3")

    @property
    def num_kv_heads(self) -> int:
        """Key/value heads."""
        return self.num_q_heads // self.group

    @property
    def qkv_dtype_size(self) -> int:
        """Bytes of a Q, K or V element."""
        return self.qkv_dtype.size

    @property
    def swizzle_elems(self) -> int:
        """Elements of one swizzle span: the columns of one chunk of a tile, and of one TMA box."""
        return self.swizzle_mode.bytes // self.qkv_dtype_size

    @property
    def MMA_K(self) -> int:
        """Elements of K per MMA: 16, or 32 for fp8."""
        return self.qkv_dtype.mma_k

    @property
    def value_swizzle(self) -> SwizzleMode:
        """Swizzle of V tiles: that of all operands."""
        return self.swizzle_mode

    @property
    @abstractmethod
    def BM(self) -> int:
        """Q rows per CTA."""

    @property
    @abstractmethod
    def BN(self) -> int:
        """Keys per tile."""

    @property
    def tile_rows(self) -> int:
        """Rows of the memory of one Q tile in this CTA, all copies of them."""
        return self.BM

    @property
    def rows_of_copy(self) -> int:
        """Rows of one Q tile that differ: those of one copy."""
        return self.tile_rows // self.row_copies

    @property
    def keys_of_copy(self) -> int:
        """Keys of a tile that one copy of the rows has for itself."""
        return self.BN // self.row_copies

    @property
    def fuse_gqa(self) -> bool:
        """Whether the heads of a group are packed into the rows of one Q tile of a CTA."""
        return self.group > 1 and self.rows_of_copy % self.group == 0

    def heads_problem(self) -> str | None:
        """Return why copies of the rows do not do for a group whose heads share a Q tile, or None.
        """
        if self.group == 1 or self.fuse_gqa or self.tile_rows % self.group:
            return None
        return f"copies of {self.rows_of_copy} rows do not hold the {self.group} heads of a group"

    @abstractmethod
    def cta_group(self) -> int:
        """CTAs per MMA."""

    def whole_pages(self, keys: int) -> int:
        """Return the most keys, ``keys`` at most, whose tiles begin and end where pages do.

        A tile is whole pages, or a page whole tiles.
        """
        if keys and self.page_size and self.page_size % keys and keys % self.page_size:
            return prev_pow2(keys)
        return keys

    @property
    def has_small_pages(self) -> bool:
        """Whether a tile is many pages, each a box of its own."""
        return 0 < self.page_size * MANY_PAGES <= self.BN

    @property
    def loads_values_apart(self) -> bool:
        """Whether V has a load warp of its own: over small pages, with stream-K for fp8 operands.

        Steps of 16-bit ones are bound by memory, and their warps have no register left. Neither of
        the two warps may be a round of a shared ring ahead of the other, or parities repeat. Where
        K and V alternate at most two slots of one lie between two of the other, of three or more.
        """
        return self.has_small_pages and not (self.streams_keys and self.qkv_dtype_size > 1)

    def widest_swizzle(self, *depths: int) -> SwizzleMode:
        """Return the swizzle of operands of these head dims: over small pages the widest that pads
        none of them further, so that fp8 ones of whole 128 columns are half as many boxes."""
        own, widest = self.qkv_dtype.default_swizzle, SwizzleMode.B128
        rows = [depth * self.qkv_dtype_size for depth in depths]
        pads = any(align_up(row, widest.bytes) > align_up(row, own.bytes) for row in rows)
        return own if pads or not self.has_small_pages else widest

    def BM_eff(self) -> int:
        """Sequence positions per CTA; copies of a row are one position."""
        rows = self.BM // self.row_copies
        return rows // self.group if self.fuse_gqa else rows

    def PairBM_eff(self) -> int:
        """Sequence positions per work tile: what masks and the tile map count in."""
        return self.BM_eff() * self.cta_group()

    def k_rows_per_cta(self) -> int:
        """K rows in this CTA's shared memory."""
        return self.BN // self.cta_group()

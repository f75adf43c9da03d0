"""``OperandConfig``: what both configurations say of their operands, whatever their tiles are."""

from __future__ import annotations

from typing import Final

from ..facts.dtypes import DType
from ..facts.hardware import SwizzleMode

QKV_DTYPES: Final = (DType.BF16, DType.FP16, DType.FP8_E4M3)


class OperandConfig:
    """Base of ``FA4TileConfig`` and ``Depth512Config``, whose fields it reads."""

    num_q_heads: int
    group: int
    swizzle_mode: SwizzleMode
    page_size: int
    qkv_dtype: DType

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

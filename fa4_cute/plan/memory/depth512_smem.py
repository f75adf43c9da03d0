"""``Depth512AttentionSMem``: shared-memory offsets of the head-dim 256/512 kernel.

Memory map of each CTA, low to high (``modular-sm100-attention.md`` section 6.1)::

    q_byte_offset = 0      Q             BM x depth, in parts of 128 columns; O is staged here
    p_byte_offset          P             BM x BN, K-major, in halves of BK1 keys
    kv_byte_offset         ring slots    num_kv x (K: BN/2 x 128  or  V: BK1 x v_cols)
    correction_byte_offset f32           BM: row max, row sum and factor in turn
    q_scale_byte_offset    q_scale       a float per softmax thread   (scales per token only)
    k_scale_byte_offset    k_scale       2 x BN
    mbar_byte_offset       mbarriers     8 bytes each (Depth512MBarsLayout)
    tmem_addr_byte_offset  TMEM address  one u32

Staging O over Q is safe: O_mma_lo follows every MMA that reads Q. A 16-bit O of fp8 operands is
twice as large as Q and also covers P and the first ring slots. Of a split O the low half, which is
staged while the MMAs of the high half still read P and V, is just as large as Q; the rest waits for
the last MMA.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..barriers.depth512_mbars import Depth512MBarsLayout
from ..config.depth512_config import Depth512Config
from ..facts.hardware import OUTPUT_SWIZZLE
from ..facts.regions import Region
from .smem_tail import SMemTail


@dataclass(frozen=True)
class Depth512AttentionSMem(SMemTail):
    """Byte offsets of all regions for one configuration; both CTAs use the same map."""

    config: Depth512Config

    @property
    def q_byte_offset(self) -> int:
        """Start of Q, and of the O staging."""
        return 0

    @property
    def q_bytes(self) -> int:
        """Bytes of Q."""
        return self.config.q_bytes

    @property
    def q_stage_bytes(self) -> int:
        """Bytes of one depth part of Q."""
        return self.config.BM * self.config.BK0 * self.config.qkv_dtype_size

    @property
    def p_byte_offset(self) -> int:
        """Start of P."""
        return self.q_byte_offset + self.q_bytes

    @property
    def p_bytes(self) -> int:
        """Bytes of P."""
        return self.config.p_bytes

    @property
    def p_stage_bytes(self) -> int:
        """Bytes of one key half of P."""
        return self.config.BM * self.config.BK1 * self.config.qkv_dtype_size

    @property
    def kv_byte_offset(self) -> int:
        """Start of the ring."""
        return self.p_byte_offset + self.p_bytes

    @property
    def kv_stage_bytes(self) -> int:
        """Bytes of one slot, K or V."""
        return self.config.kv_stage_bytes

    @property
    def kv_bytes(self) -> int:
        """Bytes of the ring."""
        return self.config.num_kv_stages * self.kv_stage_bytes

    @property
    def correction_byte_offset(self) -> int:
        """Start of the correction floats."""
        return self.kv_byte_offset + self.kv_bytes

    @property
    def correction_bytes(self) -> int:
        """Bytes of the correction floats."""
        return self.config.correction_bytes

    @property
    def q_scale_bytes(self) -> int:
        """Bytes of the query scales."""
        return self.config.q_scale_bytes

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of one buffer of key scales."""
        return self.config.k_scale_stride_bytes

    @property
    def num_k_scale_bufs(self) -> int:
        """Buffers of key scales."""
        return self.config.num_k_scale_bufs

    # Accessors (byte offsets) ----------------------------------------------------------------

    def misc_mbars(self) -> Depth512MBarsLayout:
        """Return the barrier block's plan."""
        return self.config.misc_mbars

    def q_smem(self, qk_stage: int = 0) -> int:
        """Return the start of depth part ``qk_stage`` of Q."""
        return self.q_byte_offset + qk_stage * self.q_stage_bytes

    def p_smem(self, pv_stage: int = 0) -> int:
        """Return the start of key half ``pv_stage`` of P."""
        return self.p_byte_offset + pv_stage * self.p_stage_bytes

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one column chunk of Q, P or O: one swizzle span of all rows of the CTA."""
        return self.config.BM * self.config.swizzle_mode.bytes

    def p_chunk_smem(self, chunk: int = 0) -> int:
        """Return the start of column chunk ``chunk`` of P; the halves follow one another."""
        return self.p_byte_offset + chunk * self.chunk_bytes

    def o_chunk_smem(self, chunk: int = 0) -> int:
        """Return the start of column chunk ``chunk`` (64 columns of 16 bits) of the O staging."""
        return self.o_smem() + chunk * self.config.BM * OUTPUT_SWIZZLE.bytes

    def kv_smem(self, slot: int = 0) -> int:
        """Return the start of ring slot ``slot``."""
        return self.kv_byte_offset + slot * self.kv_stage_bytes

    def operand_regions(self) -> tuple[Region, ...]:
        """Return Q, P and the ring, without the O alias."""
        return (
            Region("Q", self.q_byte_offset, self.q_bytes),
            Region("P", self.p_byte_offset, self.p_bytes),
            Region("KV", self.kv_byte_offset, self.kv_bytes),
        )

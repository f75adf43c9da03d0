"""``Depth512SMemLayout``: byte offsets in the shared memory of the head-dim 256/512 kernel.

``fa4_cute.smem.Depth512AttentionSMem`` adds the base address and draws the map.

Staging O over Q is safe: O_mma_lo follows every MMA that reads Q. A 16-bit O of fp8 operands is
twice as large as Q and also covers P and the first ring slots. Of a split O the low o block, which
is staged while the MMAs of the high one still read P and V, is just as large as Q; the rest waits
for the last MMA. A plain persistent pair stages nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..config.depth512_config import Depth512Config
from ..facts.hardware import MBARRIER_BYTES, OUTPUT_SWIZZLE, TMEM_ADDRESS_BYTES
from ..facts.regions import RegionTable
from .smem_layout import SMemLayout


@dataclass(frozen=True)
class Depth512SMemLayout(SMemLayout):
    """Starts and sizes of all regions for one configuration; both CTAs use the same map."""

    config: Depth512Config

    @cached_property
    def table(self) -> RegionTable:
        """All regions, low to high. ``smem.Depth512AttentionSMem`` draws them."""
        config = self.config
        return RegionTable.stacked(
            {
                "Q": config.q_bytes,
                "P": config.p_bytes,
                "KV": config.num_kv_stages * config.kv_stage_bytes,
                "correction": config.correction_bytes,
                "q_scale": config.q_scale_bytes,
                "k_scale": config.num_k_scale_bufs * config.k_scale_stride_bytes,
                "copies": config.copies_plan.size,
                "answer": config.answer_bytes,
                "stretch": config.stretch_bytes,
                "mbars": config.misc_mbars.size * MBARRIER_BYTES,
                "tmem address": TMEM_ADDRESS_BYTES,
            }
        )

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one column chunk of Q or P: one swizzle span of all rows of the CTA."""
        return self.config.BM * self.config.swizzle_mode.bytes

    @property
    def q_stage_bytes(self) -> int:
        """Bytes of one qk stage of Q: BM x BK0 elements."""
        return self.config.BM * self.config.BK0 * self.config.qkv_dtype_size

    def q_stage_byte_offset(self, qk_stage: int = 0) -> int:
        """Return the start of qk stage ``qk_stage`` of Q."""
        return self.q_byte_offset + qk_stage * self.q_stage_bytes

    def o_chunk_byte_offset(self, chunk: int = 0) -> int:
        """Return the start of column chunk ``chunk`` (64 columns of 16 bits) of the O staging."""
        return self.q_byte_offset + chunk * self.config.BM * OUTPUT_SWIZZLE.bytes

    @property
    def p_byte_offset(self) -> int:
        """Start of P."""
        return self.table["P"].start

    @property
    def p_stage_bytes(self) -> int:
        """Bytes of one pv stage of P: BM x BK1 elements, one key block."""
        return self.config.BM * self.config.BK1 * self.config.qkv_dtype_size

    def p_stage_byte_offset(self, pv_stage: int = 0) -> int:
        """Return the start of pv stage ``pv_stage`` of P."""
        return self.p_byte_offset + pv_stage * self.p_stage_bytes

    def p_chunk_byte_offset(self, chunk: int = 0) -> int:
        """Return the start of column chunk ``chunk`` of P; the key blocks follow one another."""
        return self.p_byte_offset + chunk * self.chunk_bytes

    @property
    def copies_byte_offset(self) -> int:
        """Start of what copies of rows leave for one another (``plan.config.copies``)."""
        return self.table["copies"].start

    @property
    def kv_byte_offset(self) -> int:
        """Start of the ring."""
        return self.table["KV"].start

    @property
    def kv_stage_bytes(self) -> int:
        """Bytes of one slot: a qk stage of K or a key block of V."""
        return self.config.kv_stage_bytes

    def kv_slot_byte_offset(self, slot: int = 0) -> int:
        """Return the start of ring slot ``slot``."""
        return self.kv_byte_offset + slot * self.kv_stage_bytes

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of one buffer of key scales: BN elements of the scale dtype."""
        return self.config.k_scale_stride_bytes

"""``SM100AttentionSMem``: the one place where shared-memory offsets of the 2Q/1Q kernel are made.

The regions and the map of them are those of ``smem_regions``; here are the addresses that roles
ask for: tiles, slots, chunks and barriers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..facts.hardware import OUTPUT_SWIZZLE, align_up
from .smem_regions import AttentionSMemRegions


@dataclass(frozen=True)
class SM100AttentionSMem(AttentionSMemRegions):
    """Byte offsets of all regions for one configuration (every member of seed 000).

    Methods ending in ``_smem`` return byte offsets; the device accessor adds the base.
    """

    def q_smem(self) -> int:
        """Return the start of Q."""
        return self.q_byte_offset

    def q_rope_smem(self) -> int:
        """Return the start of Q's rope columns."""
        return self.q_rope_byte_offset

    @property
    def o_tile_bytes(self) -> int:
        """Bytes of one staged O tile: the rows of one chain."""
        row = self.config.padded_ov_depth * self.config.qkv_dtype.output.size
        return self._tile_rows * align_up(row, OUTPUT_SWIZZLE.bytes)

    def o_chunk_smem(self, chain: int, chunk: int = 0) -> int:
        """Return the start of column chunk ``chunk`` of the staged O of ``chain``."""
        offset = chain * self.o_tile_bytes + chunk * self._tile_rows * OUTPUT_SWIZZLE.bytes
        return self.o_smem() + offset

    @property
    def _tile_rows(self) -> int:
        """Rows of one Q or O tile in this CTA."""
        return self.config.MMA_M // self.config.cta_group()

    def q_tile_smem(self, half: int, qk_stage: int = 0) -> int:
        """Return the start of depth part ``qk_stage`` of Q tile ``half`` (section 2.2)."""
        parts = self.config.num_qk_stages
        part = self._tile_rows * self.config.nope_depth() // parts * self.config.qkv_dtype_size
        return self.q_byte_offset + part * (half * parts + qk_stage)

    def q_rope_tile_smem(self, half: int) -> int:
        """Return the start of the rope columns of Q tile ``half``."""
        tile = self._tile_rows * self.rope_depth * self.rope_dt_size
        return self.q_rope_byte_offset + half * tile

    def k_smem_base(self) -> int:
        """Return the start of K slot 0."""
        return self.kv_byte_offset

    def v_smem_base(self) -> int:
        """Return the start of V slot 0 (K slot 0 when fused)."""
        return self.v_byte_offset

    def rope_smem_base(self) -> int:
        """Return the start of the rope buffers (fused ring)."""
        return self.rope_byte_offset

    def k_rope_smem(self, slot: int, tile: int) -> int:
        """Return the start of the rope columns of K.

        Split rings keep them in the K slot. A fused ring has buffers for them, used in turn: when
        the slot of a K tile is free, so is its buffer, because what freed the slot, of half a ring
        of key tiles before, was issued after the MMAs that read the buffer's last user.

        Args:
            slot: the K tile's slot.
            tile: number of the K tile, counted over everything the CTA loads.
        """
        if self.config.use_fused_kv:
            buffer = tile % self.num_rope_bufs
            return self.rope_smem_base() + buffer * self.rope_stage_elems * self.rope_dt_size
        return self.k_smem_base() + slot * self.k_stage_bytes + self.v_stage_bytes

    def reduce_scatter_smem(self) -> int:
        """Return the start of what a cluster exchanges: the memory of Q, K and V, now free."""
        return self.q_byte_offset

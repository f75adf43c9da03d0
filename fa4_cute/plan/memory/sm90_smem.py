"""``SM90SMemLayout``: byte offsets in the shared memory of the Hopper kernel.

``fa4_cute.smem.SM90AttentionSMem`` adds the base address and draws the map. A consumer stages its O
over its own Q tile: its last product with Q is over by then, and nobody else reads that tile. In a
persistent CTA O has memory of its own where that costs no slot of K and V, and no memory elsewhere.
V of fp8 operands is loaded to slots of its own, "raw", and transposed from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..config.sm90_config import SM90Config
from ..facts.hardware import MBARRIER_BYTES, OUTPUT_SWIZZLE
from ..facts.regions import RegionTable
from ..facts.wgmma import WGMMA_ROWS
from .smem_layout import SMemLayout


@dataclass(frozen=True)
class SM90SMemLayout(SMemLayout):
    """Starts and sizes of all regions for one configuration."""

    config: SM90Config

    @cached_property
    def table(self) -> RegionTable:
        """All regions, low to high."""
        config = self.config
        slots = config.num_kv_stages
        return RegionTable.stacked(
            {
                "Q": config.num_consumers * config.q_slot_bytes,
                "K": slots * config.k_stage_bytes,
                "V": slots * config.v_stage_bytes,
                "raw": config.num_raw_stages * config.v_stage_bytes,
                "bias": slots * config.bias_stage_bytes,
                "O": config.o_bytes,
                "q_scale": config.q_scale_bytes,
                "k_scale": slots * config.k_scale_stride_bytes,
                "stretch": config.stretch_bytes,
                "mbars": config.misc_mbars.size * MBARRIER_BYTES,
            }
        )

    def q_tile_byte_offset(self, consumer: int) -> int:
        """Return the start of the Q tile of ``consumer``."""
        return self.q_byte_offset + consumer * self.config.q_slot_bytes

    def o_chunk_byte_offset(self, consumer: int, chunk: int = 0) -> int:
        """Return the start of column chunk ``chunk`` (64 columns of 16 bits) of a staged O."""
        if self.config.o_apart:
            first = self.table["O"].start + consumer * self.config.o_tile_bytes
        else:
            first = self.q_tile_byte_offset(consumer)
        return first + chunk * WGMMA_ROWS * OUTPUT_SWIZZLE.bytes

    @property
    def k_byte_offset(self) -> int:
        """Start of the K ring."""
        return self.table["K"].start

    @property
    def v_byte_offset(self) -> int:
        """Start of the V ring."""
        return self.table["V"].start

    @property
    def raw_byte_offset(self) -> int:
        """Start of the ring of V as it is loaded, where it is transposed."""
        return self.table["raw"].start

    def bias_byte_offset(self, slot: int, consumer: int) -> int:
        """Return the start of the biases of ``consumer`` that go with slot ``slot`` of K."""
        config = self.config
        tile = config.bias_stage_bytes // config.num_consumers
        return self.table["bias"].start + slot * config.bias_stage_bytes + consumer * tile

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of key scales that arrive with a slot of K."""
        return self.config.k_scale_stride_bytes

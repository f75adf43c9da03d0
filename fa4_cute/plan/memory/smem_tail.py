"""``SMemTail``: what lies behind the operands in both kernels' shared memory.

Low to high: correction factors, query scales, key scales, the barrier block, and the word that
``tcgen05.alloc`` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts.hardware import MBARRIER_BYTES, TMEM_ADDRESS_BYTES
from ..facts.regions import Region, render_regions

if TYPE_CHECKING:
    from ..barriers.depth512_mbars import Depth512MBarsLayout
    from ..barriers.mbars import FA4MiscMBarsLayout


class SMemTail:
    """Base of ``AttentionSMemRegions`` and ``Depth512AttentionSMem``: offsets and addresses.

    Methods ending in ``_smem`` return byte offsets; the device accessor adds the base.
    """

    @property
    def q_byte_offset(self) -> int:
        """Start of Q."""
        raise NotImplementedError

    @property
    def correction_byte_offset(self) -> int:
        """Start of the correction factors."""
        raise NotImplementedError

    @property
    def correction_bytes(self) -> int:
        """Bytes of the correction factors."""
        raise NotImplementedError

    @property
    def q_scale_bytes(self) -> int:
        """Bytes of the query scales."""
        raise NotImplementedError

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of one buffer of key scales."""
        raise NotImplementedError

    @property
    def num_k_scale_bufs(self) -> int:
        """Buffers of key scales."""
        raise NotImplementedError

    def misc_mbars(self) -> FA4MiscMBarsLayout | Depth512MBarsLayout:
        """Return the barrier block's plan; its bytes start at ``mbar_byte_offset``."""
        raise NotImplementedError

    @property
    def q_scale_byte_offset(self) -> int:
        """Start of the query scales."""
        return self.correction_byte_offset + self.correction_bytes

    @property
    def k_scale_byte_offset(self) -> int:
        """Start of the key scales."""
        return self.q_scale_byte_offset + self.q_scale_bytes

    @property
    def k_scale_bytes(self) -> int:
        """Bytes of all buffers of key scales."""
        return self.num_k_scale_bufs * self.k_scale_stride_bytes

    @property
    def mbar_byte_offset(self) -> int:
        """Start of the barrier block."""
        return self.k_scale_byte_offset + self.k_scale_bytes

    @property
    def mbar_bytes(self) -> int:
        """Bytes of the barrier block."""
        return self.misc_mbars().size * MBARRIER_BYTES

    @property
    def tmem_addr_byte_offset(self) -> int:
        """Where ``tcgen05.alloc`` writes the TMEM base; of a pair, in both CTAs alike."""
        return self.mbar_byte_offset + self.mbar_bytes

    def smem_size(self) -> int:
        """Bytes the layout occupies; the launch asks for ``config.smem_used``, never less."""
        return self.tmem_addr_byte_offset + TMEM_ADDRESS_BYTES

    def o_smem(self) -> int:
        """Return the start of the O staging: the same memory as Q."""
        return self.q_byte_offset

    def correction_smem(self) -> int:
        """Return the start of the correction factors."""
        return self.correction_byte_offset

    def q_scale_smem(self) -> int:
        """Return the start of the query scales."""
        return self.q_scale_byte_offset

    def k_scale_smem(self) -> int:
        """Return the start of the key scales."""
        return self.k_scale_byte_offset

    def mbar_base(self) -> int:
        """Return the start of the barrier block."""
        return self.mbar_byte_offset

    def mbar_smem(self, index: int) -> int:
        """Return the byte offset of barrier ``index`` of the block."""
        return self.mbar_byte_offset + MBARRIER_BYTES * index

    def tmem_addr_ptr(self) -> int:
        """Return the byte offset of the TMEM address word."""
        return self.tmem_addr_byte_offset

    def operand_regions(self) -> tuple[Region, ...]:
        """Return what lies in front, low to high; empty regions count for nothing."""
        raise NotImplementedError

    def regions(self) -> tuple[Region, ...]:
        """Return the non-empty regions, low to high, without the O alias."""
        rows = (
            *self.operand_regions(),
            Region("correction", self.correction_byte_offset, self.correction_bytes),
            Region("q_scale", self.q_scale_byte_offset, self.q_scale_bytes),
            Region("k_scale", self.k_scale_byte_offset, self.k_scale_bytes),
            Region("mbars", self.mbar_byte_offset, self.mbar_bytes),
            Region("tmem address", self.tmem_addr_byte_offset, TMEM_ADDRESS_BYTES),
        )
        return tuple(region for region in rows if region.size)

    def render(self) -> str:
        """Return the map as text, one region a line."""
        return render_regions(self.regions(), unit="bytes")

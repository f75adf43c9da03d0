"""Shared memory of one CTA on the device: a base address and the plan's map of what lies there.

``SM100AttentionSMem`` serves the 2Q/1Q kernel and mirrors Modular's struct of that name;
``Depth512AttentionSMem`` serves the kernel for head dims above 192. Each accessor is one addition:
offsets come from ``plan.memory``, where hosts, tests and pictures find them without the DSL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from cutlass import Int32

from .pipelines import (
    BarrierBlock,
    Depth512MBars,
    FA4MiscMBars,
    HopperBarriers,
    SM90MBars,
)
from .plan.memory.depth512_smem import Depth512SMemLayout
from .plan.memory.sm90_smem import SM90SMemLayout
from .plan.memory.smem_layout import AttentionSMemLayout


@dataclass(frozen=True)
class SharedMemory:
    """What kernels have: staged O, correction floats, scales, barriers, the TMEM address.

    Attributes:
        base: shared address of the first byte, aligned to 1024.
        layout: byte offsets of the regions.
    """

    base: Int32
    layout: AttentionSMemLayout | Depth512SMemLayout | SM90SMemLayout

    def with_base(self, base: Int32) -> Self:
        """Return the same map from another base: another name of this memory."""
        return replace(self, base=base)

    def at(self, byte_offset: Int32 | int) -> Int32:
        """Byte ``byte_offset`` of the layout: tiles whose slot is counted by a ring."""
        return self.base + byte_offset

    def o_smem(self) -> Int32:
        """Staged O in the output dtype, over the memory of Q."""
        return self.base + self.layout.q_byte_offset

    def correction_smem(self) -> Int32:
        """Correction floats in float32: see the map for their number."""
        return self.base + self.layout.correction_byte_offset

    def q_scale_smem(self) -> Int32:
        """Query scales in scale_dtype: see the map for their number."""
        return self.base + self.layout.q_scale_byte_offset

    def k_scale_smem(self) -> Int32:
        """Key scales in scale_dtype: buffers of BN, ``layout.k_scale_stride_bytes`` apart."""
        return self.base + self.layout.k_scale_byte_offset

    def answer_smem(self) -> Int32:
        """The answer that names the next work tile: 16 bytes that only the hardware can read."""
        return self.base + self.layout.answer_byte_offset

    def stretch_smem(self) -> Int32:
        """The CTA's stretch with stream-K: pairs of words (``work.stream_k``)."""
        return self.base + self.layout.stretch_byte_offset

    def mbar_base(self) -> Int32:
        """Barrier 0 of the block: mbarriers of 8 bytes."""
        return self.base + self.layout.mbar_byte_offset

    def tmem_addr_ptr(self) -> Int32:
        """One uint32: the address that ``tcgen05.alloc`` returns."""
        return self.base + self.layout.tmem_addr_byte_offset


@dataclass(frozen=True)
class SM100AttentionSMem(SharedMemory):
    """Shared memory of the 2Q/1Q kernel: every accessor returns a shared address.

    The map, low to high; every region starts where the one before ends::

        q_smem               Q             BM x padded_ov    qkv_dtype, staged O over it
        q_rope_smem          Q rope        BM x rope_depth   rope_dtype
        k_smem_base          K slots       split: num_kv x (K tile [+ rope columns])
                             K/V slots     fused: num_kv x (K or V tile)
        v_smem_base          V slots       split: num_kv x V tile; fused: k_smem_base
        rope_smem_base       rope buffers  fused: num_rope_bufs x k_rows x rope_depth
        correction_smem      factors       256               float32; 1Q written row by row: 512,
                             row maxima in the same places, and row sums behind them
        q_scale_smem         q_scale       BM, or 256 with scales per token
        k_scale_smem         k_scale       num_k_scale_bufs x BN
        copies_smem          copies        O of copies of rows; over K and V if not persistent
        answer_smem          answer        16 bytes with a dynamic scheduler
        stretch_smem         stretch       17 pairs of words with stream-K
        mbar_base            mbarriers     8 bytes each (FA4MiscMBars)
        tmem_addr_ptr        TMEM address  one uint32

    Operand tiles are swizzled and lie chunk after chunk, each chunk one swizzle span wide with all
    rows of the tile. ``AttentionSMemLayout(config).render()`` prints the bytes of a configuration.
    """

    layout: AttentionSMemLayout

    def misc_mbars(self) -> FA4MiscMBars:
        """The barriers of this CTA, in the words of their events."""
        return FA4MiscMBars(BarrierBlock(self.mbar_base()), self.layout.MiscMBarsType)

    # Q and O ---------------------------------------------------------------------------------

    def q_smem(self) -> Int32:
        """Q without rope: BM rows x padded_ov_depth columns of qkv_dtype, K-major."""
        return self.base + self.layout.q_byte_offset

    def q_tile_smem(self, tile: int, qk_stage: int = 0) -> Int32:
        """One qk stage of Q tile ``tile``: 128 rows x BK0 columns of qkv_dtype, K-major.

        In a pair the rows are this CTA's: ``layout.tile_rows``.
        """
        return self.base + self.layout.q_tile_byte_offset(tile, qk_stage)

    def q_rope_smem(self) -> Int32:
        """Rope columns of Q: BM rows x rope_depth columns of rope_dtype, K-major."""
        return self.base + self.layout.q_rope_byte_offset

    def q_rope_tile_smem(self, tile: int) -> Int32:
        """Rope columns of Q tile ``tile``: 128 rows x rope_depth columns of rope_dtype, K-major."""
        return self.base + self.layout.q_rope_tile_byte_offset(tile)

    def o_chunk_smem(self, chain: int, chunk: int = 0) -> Int32:
        """Chunk ``chunk`` of the staged O of ``chain``: 128 rows x 128 bytes of output dtype."""
        return self.base + self.layout.o_chunk_byte_offset(chain, chunk)

    def copies_smem(self) -> Int32:
        """What copies of the rows leave of O (``plan.config.copies``), over K and V, now free, if
        the CTA is not persistent."""
        return self.base + self.layout.copies_byte_offset

    def reduce_scatter_smem(self) -> Int32:
        """What a cluster exchanges (``plan.config.reduce_scatter``), over Q, K and V, now free."""
        return self.base + self.layout.q_byte_offset

    # K, V and rope ---------------------------------------------------------------------------

    def k_smem_base(self) -> Int32:
        """K slot 0: k_rows_per_cta rows x padded_ov_depth columns of qkv_dtype, K-major.

        Slots are ``layout.k_stage_bytes`` apart, the qk stages of a slot follow one another.
        """
        return self.base + self.layout.kv_byte_offset

    def v_smem_base(self) -> Int32:
        """V slot 0, which is K slot 0 in a fused ring: BN rows x v_cols_per_cta columns of
        qkv_dtype, MN-major. Slots are ``layout.v_stage_bytes`` apart."""
        return self.base + self.layout.v_byte_offset

    def rope_smem_base(self) -> Int32:
        """Rope buffer 0 of a fused ring: k_rows_per_cta rows x rope_depth columns of rope_dtype."""
        return self.base + self.layout.rope_byte_offset

    def k_rope_smem(self, slot: Int32, tile: Int32) -> Int32:
        """Rope columns of K: k_rows_per_cta rows x rope_depth columns of rope_dtype, K-major.

        Args:
            slot: the K tile's slot.
            tile: number of the K tile, counted over everything the CTA loads.
        """
        return self.base + self.layout.k_rope_byte_offset(slot, tile)


@dataclass(frozen=True)
class Depth512AttentionSMem(SharedMemory):
    """Shared memory of one CTA of the head-dim 256/512 kernel; every accessor returns an address.

    The map, low to high; every region starts where the one before ends::

        q_smem               Q             BM x depth in qk stages of 128 columns; staged O over it
        p_smem               P             BM x BN in pv stages of BK1 keys
        kv_smem              ring slots    num_kv x (K: BN/2 x 128  or  V: BK1 x v_cols)
        correction_smem      floats        BM: row max, row sum and factor in turn
        q_scale_smem         q_scale       one per softmax thread (scales per token only)
        k_scale_smem         k_scale       2 x BN
        copies_smem          copies        what copies of rows leave of O
        answer_smem          answer        16 bytes with a dynamic scheduler
        stretch_smem         stretch       17 pairs of words with stream-K
        mbar_base            mbarriers     8 bytes each (Depth512MBars)
        tmem_addr_ptr        TMEM address  one uint32
    """

    layout: Depth512SMemLayout

    def misc_mbars(self) -> Depth512MBars:
        """The barriers of this CTA, in the words of their events."""
        return Depth512MBars(BarrierBlock(self.mbar_base()), self.layout.config.misc_mbars)

    def q_smem(self, qk_stage: int = 0) -> Int32:
        """One qk stage of Q: BM rows x 128 columns of qkv_dtype, K-major."""
        return self.base + self.layout.q_stage_byte_offset(qk_stage)

    def p_smem(self, pv_stage: int = 0) -> Int32:
        """One pv stage of P: BM rows x BK1 keys of qkv_dtype, K-major."""
        return self.base + self.layout.p_stage_byte_offset(pv_stage)

    def p_chunk_smem(self, chunk: int = 0) -> Int32:
        """One chunk of P: BM rows x one swizzle span of keys, of qkv_dtype."""
        return self.base + self.layout.p_chunk_byte_offset(chunk)

    def o_chunk_smem(self, chunk: int = 0) -> Int32:
        """One chunk of the staged O: BM rows x 128 bytes of the output dtype."""
        return self.base + self.layout.o_chunk_byte_offset(chunk)

    def copies_smem(self) -> Int32:
        """What copies of the rows leave of O (``plan.config.copies``)."""
        return self.base + self.layout.copies_byte_offset

    def kv_smem(self, slot: Int32 | int = 0) -> Int32:
        """One ring slot in qkv_dtype: K, BN/2 rows x 128 columns, K-major; or V, BK1 rows x
        v_cols_per_cta columns, MN-major."""
        return self.base + self.layout.kv_slot_byte_offset(slot)


@dataclass(frozen=True)
class SM90AttentionSMem(SharedMemory):
    """Shared memory of the Hopper kernel; every accessor returns an address.

    The map, low to high; every region starts where the one before ends::

        q_tile_smem          Q             one tile of 64 x padded depth per consumer; O over it
                             K slots       num_kv x (BN x padded depth), K-major
                             V slots       num_kv x (BN x padded ov_depth), MN-major
        bias_smem            biases        num_kv x (rows x BN), where they are staged
        stretch_smem         stretch       17 pairs of words with stream-K
        mbar_base            mbarriers     8 bytes each (SM90MBars)
    """

    layout: SM90SMemLayout

    def misc_mbars(self) -> SM90MBars:
        """The barriers of this CTA, in the words of their events."""
        plan = self.layout.config.misc_mbars
        return SM90MBars(HopperBarriers(self.mbar_base(), plan.one_lane_initialises), plan)

    def q_tile_smem(self, consumer: Int32 | int) -> Int32:
        """Q tile of ``consumer``: 64 rows x padded depth columns of qkv_dtype, K-major."""
        return self.base + self.layout.q_tile_byte_offset(consumer)

    def bias_smem(self, slot: Int32 | int, consumer: Int32 | int) -> Int32:
        """Biases of ``consumer`` beside slot ``slot`` of K: a ``BiasTile``."""
        return self.base + self.layout.bias_byte_offset(slot, consumer)

    def o_chunk_smem(self, consumer: Int32 | int, chunk: int = 0) -> Int32:
        """Chunk ``chunk`` of the staged O of ``consumer``: 64 rows x 128 bytes of output dtype."""
        return self.base + self.layout.o_chunk_byte_offset(consumer, chunk)

"""Regions of shared memory of the 2Q/1Q kernel: the base of ``SM100AttentionSMem``.

Memory map, low to high, every offset chained from the one before (seed 000;
``modular-sm100-attention.md`` section 2; base aligned to 1024 so that swizzled tiles start on
their pattern)::

    q_byte_offset = 0      Q nope        BM x padded_ov          O is staged here, from offset 0
    q_rope_byte_offset     Q rope        BM x rope_depth
    kv_byte_offset         K slots       split: num_kv x (K tile [+ rope columns])
                           K/V slots     fused: num_kv x (K or V tile)
    v_byte_offset          V slots       split only; equals kv_byte_offset when fused
    rope_byte_offset       rope buffers  fused only: num_rope_bufs x k_rows x rope_depth
    correction_byte_offset f32 factors   always 256
    q_scale_byte_offset    q_scale       BM, or 256 with scales per token
    k_scale_byte_offset    k_scale       num_k_scale_bufs x BN
    mbar_byte_offset       mbarriers     8 bytes each (FA4MiscMBarsLayout)
    tmem_addr_byte_offset  TMEM address  one u32

Staging O over Q is safe. The last O_prod of a chain follows every MMA that reads its half of Q. A
16-bit O of fp8 operands is twice as large: O0 covers both halves of Q, and O1 as much of the K/V
ring. Both are free by then, because the last MMAs are issued in the order S0, O1, S1, O0, O1: the
last O_prod[0] follows all reads of Q, and the last O_prod[1] all reads of K and V. One Q tile has
one output, which is staged when both chains are over.

Where a cluster shares the keys, the memory of Q, K and V ends as the stage of its reduce-scatter
(``reduce_scatter``): a CTA writes it when both its chains are over, and the CTAs leave together, so
that it lasts until all have read it.

All offsets are bytes from the dynamic shared-memory base unless the name ends in
``_offset`` alone, which counts elements of the region's own type, as in the seed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..barriers.mbars import FA4MiscMBarsLayout
from ..config.config import FA4Config
from ..facts.dtypes import DType
from ..facts.hardware import MBARRIER_BYTES
from ..facts.regions import Region
from .smem_tail import SMemTail


@dataclass(frozen=True)
class AttentionSMemRegions(SMemTail):
    """Starts and sizes of all regions for one configuration.

    Raises:
        ValueError: when K has columns beyond V but the configuration names no rope dtype, or the
            stage of a cluster's reduce-scatter exceeds the memory of Q, K and V.
    """

    config: FA4Config

    def __post_init__(self) -> None:
        """Refuse rope columns without an element type: their bytes would be lost."""
        if self.rope_depth and not self.config.rope_dtype.is_valid:
            raise ValueError(
                f"rope_dtype='invalid' with rope_depth={self.rope_depth}: name the element type"
            )
        if self.config.splitk_partitions > 1:
            stage, room = self.config.reduce_scatter.size, self.correction_byte_offset
            if stage > room:
                raise ValueError(
                    f"splitk_partitions={self.config.splitk_partitions}: partial results of "
                    f"{stage} bytes exceed the {room} bytes of Q, K and V"
                )

    # Q ---------------------------------------------------------------------------------------

    @property
    def q_byte_offset(self) -> int:
        """Start of Q, and of the O staging."""
        return 0

    @property
    def q_offset(self) -> int:
        """Start of Q in elements."""
        return 0

    @property
    def q_nope_bytes(self) -> int:
        """Bytes of Q without rope columns."""
        return self.config.BM * self.config.padded_ov_depth * self.config.qkv_dtype_size

    @property
    def q_rope_byte_offset(self) -> int:
        """Start of Q's rope columns."""
        return self.q_nope_bytes

    @property
    def q_rope_bytes(self) -> int:
        """Bytes of Q's rope columns."""
        return self.config.BM * self.rope_depth * self.rope_dt_size

    @property
    def q_bytes(self) -> int:
        """Bytes of Q."""
        return self.q_nope_bytes + self.q_rope_bytes

    # K, V and rope ---------------------------------------------------------------------------

    @property
    def rope_dt_size(self) -> int:
        """Bytes of a rope element, 0 without rope."""
        return self.config.rope_dtype_size

    @property
    def rope_depth(self) -> int:
        """Columns K has beyond V."""
        return self.config.rope_depth()

    @property
    def kv_byte_offset(self) -> int:
        """Start of the K (or fused) ring."""
        return self.q_bytes

    @property
    def kv_offset(self) -> int:
        """Start of the K ring in elements."""
        return self.kv_byte_offset // self.config.qkv_dtype_size

    @property
    def k_stage_bytes(self) -> int:
        """Bytes of a K slot; rope columns are part of it only in split rings.

        ``v_cols * BN`` counts K without rope too: with a pair, BN/2 rows of the full depth are as
        many bytes as BN rows of half the depth.
        """
        if self.config.use_fused_kv:
            return self.v_stage_bytes
        rope = self.rope_depth * self.config.k_rows_per_cta() * self.rope_dt_size
        return self.v_stage_bytes + rope

    @property
    def v_stage_bytes(self) -> int:
        """Bytes of a V slot."""
        return self.config.v_cols_per_cta() * self.config.BN * self.config.qkv_dtype_size

    @property
    def k_total_bytes(self) -> int:
        """Bytes of the K (or fused) ring."""
        return self.config.num_kv_stages * self.k_stage_bytes

    @property
    def kv_stages_bytes(self) -> int:
        """Bytes of both split rings."""
        return self.config.num_kv_stages * (self.k_stage_bytes + self.v_stage_bytes)

    @property
    def rope_stage_elems(self) -> int:
        """Elements of one rope buffer: the keys that this CTA holds.

        The source lays out all BN keys, in a pair too, where its budget counts half of them.
        """
        return self.config.k_rows_per_cta() * self.rope_depth

    @property
    def num_rope_bufs(self) -> int:
        """Rope buffers of a fused ring."""
        return self.config.num_rope_buffers()

    @property
    def rope_byte_offset(self) -> int:
        """Start of the rope buffers (fused ring)."""
        return self.kv_byte_offset + self.k_total_bytes

    @property
    def rope_bytes(self) -> int:
        """Bytes of the rope buffers."""
        return self.num_rope_bufs * self.rope_stage_elems * self.rope_dt_size

    @property
    def kv_bytes(self) -> int:
        """Bytes of everything K and V."""
        if self.config.use_fused_kv:
            return self.k_total_bytes + self.rope_bytes
        return self.kv_stages_bytes

    @property
    def v_byte_offset(self) -> int:
        """Start of the V ring (the fused ring's start when fused)."""
        if self.config.use_fused_kv:
            return self.kv_byte_offset
        return self.kv_byte_offset + self.k_total_bytes

    # Correction and scales -------------------------------------------------------------------

    @property
    def correction_byte_offset(self) -> int:
        """Start of the correction factors."""
        return self.kv_byte_offset + self.kv_bytes

    @property
    def correction_offset(self) -> int:
        """Start of the correction factors in floats."""
        return self.correction_byte_offset // DType.FP32.size

    @property
    def correction_bytes(self) -> int:
        """One float per softmax thread: 256 with one Q tile as with two."""
        chains_per_row = 2 if self.config.num_qo == 1 else 1
        return chains_per_row * self.config.BM * DType.FP32.size

    @property
    def q_scale_bytes(self) -> int:
        """Bytes of the per-row Q scales."""
        return self.config.num_q_scales * self.config.scale_dtype_size

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of one K scale buffer."""
        return self.config.BN * self.config.scale_dtype_size

    @property
    def num_k_scale_bufs(self) -> int:
        """K scale buffers."""
        return self.config.num_k_scale_bufs()

    # Barriers and the TMEM address -----------------------------------------------------------

    @property
    def MiscMBarsType(self) -> FA4MiscMBarsLayout:
        """The barrier block's plan (a type in the seed, a value here)."""
        return self.config.misc_mbars

    def misc_mbars(self) -> FA4MiscMBarsLayout:
        """Return the barrier block's plan; its bytes start at ``mbar_byte_offset``."""
        return self.MiscMBarsType

    @property
    def mbar_offset(self) -> int:
        """Start of the barrier block in barriers."""
        return self.mbar_byte_offset // MBARRIER_BYTES

    # Drawing ---------------------------------------------------------------------------------

    def operand_regions(self) -> tuple[Region, ...]:
        """Return Q and the slots, without the O alias."""
        fused = self.config.use_fused_kv
        v_bytes = 0 if fused else self.config.num_kv_stages * self.v_stage_bytes
        return (
            Region("Q", self.q_byte_offset, self.q_nope_bytes),
            Region("Q rope", self.q_rope_byte_offset, self.q_rope_bytes),
            Region("KV" if fused else "K", self.kv_byte_offset, self.k_total_bytes),
            Region("V", self.v_byte_offset, v_bytes),
            Region("rope", self.rope_byte_offset, self.rope_bytes),
        )

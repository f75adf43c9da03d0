"""``AttentionSMemLayout``: byte offsets in the shared memory of the 2Q/1Q kernel.

One table (:attr:`AttentionSMemLayout.table`) places every region; offsets are looked up in it, the
picture is drawn from it. ``fa4_cute.smem.SM100AttentionSMem`` adds the base address.

Staging O over Q is safe. The last O_prod of a chain follows every MMA that reads its Q tile. A
16-bit O of fp8 operands is twice as large: O0 covers both Q tiles, and O1 as much of the K/V ring.
Both are free by then, because the last MMAs are issued in the order S0, O1, S1, O0, O1: the last
O_prod[0] follows all reads of Q, and the last O_prod[1] all reads of K and V. One Q tile has one
output, which is staged when both chains are over.

Where a cluster shares the keys, the memory of Q, K and V ends as the stage of its reduce-scatter
(``plan.config.reduce_scatter``): a CTA writes it when both its chains are over, and the CTAs leave
together, so that it lasts until all have read it. What copies of rows leave for one another
(``plan.config.copies``) lies at the end of that memory, or apart where a persistent CTA fills it.

Members of Modular's ``SM100AttentionSMem`` have its names (``docs/mojo.md``). Offsets are bytes
from the start of dynamic shared memory, aligned to 1024, the largest swizzle pattern; a name that
ends in ``_offset`` alone counts elements of the region's own type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from ..barriers.answers import ANSWER_BYTES
from ..barriers.mbars import FA4MiscMBarsLayout
from ..config.config import FA4Config
from ..facts.dtypes import DType
from ..facts.hardware import MBARRIER_BYTES, OUTPUT_SWIZZLE, TMEM_ADDRESS_BYTES, align_up
from ..facts.regions import Region, RegionTable


class SMemLayout(ABC):
    """What the layouts of both kernels have in common: where regions of these names lie."""

    @property
    @abstractmethod
    def table(self) -> RegionTable:
        """All regions, low to high."""

    @property
    def q_byte_offset(self) -> int:
        """Start of Q, and of the O staging."""
        return self.table["Q"].start

    @property
    def correction_byte_offset(self) -> int:
        """Start of the correction floats."""
        return self.table["correction"].start

    @property
    def q_scale_byte_offset(self) -> int:
        """Start of the query scales."""
        return self.table["q_scale"].start

    @property
    def k_scale_byte_offset(self) -> int:
        """Start of the key scales."""
        return self.table["k_scale"].start

    @property
    def k_scale_bytes(self) -> int:
        """Bytes of all buffers of key scales."""
        return self.table["k_scale"].size

    @property
    def answer_byte_offset(self) -> int:
        """Start of the answer that names the next work tile."""
        return self.table["answer"].start

    @property
    def stretch_byte_offset(self) -> int:
        """Start of what tells the CTA its stretch."""
        return self.table["stretch"].start

    @property
    def mbar_byte_offset(self) -> int:
        """Start of the barrier block."""
        return self.table["mbars"].start

    @property
    def mbar_bytes(self) -> int:
        """Bytes of the barrier block."""
        return self.table["mbars"].size

    @property
    def tmem_addr_byte_offset(self) -> int:
        """Where ``tcgen05.alloc`` writes the TMEM base; in a pair, in both CTAs alike."""
        return self.table["tmem address"].start

    def mbar_byte_offset_of(self, index: int) -> int:
        """Return the start of barrier ``index`` of the block."""
        return self.mbar_byte_offset + MBARRIER_BYTES * index

    def smem_size(self) -> int:
        """Bytes the layout occupies; the launch asks for ``config.smem_used``, never less."""
        return self.table.end

    def regions(self) -> tuple[Region, ...]:
        """Return the non-empty regions, low to high, without the O alias."""
        return self.table.present

    def render(self) -> str:
        """Return the map as text, one region a line."""
        return self.table.render(unit="bytes")


@dataclass(frozen=True)
class AttentionSMemLayout(SMemLayout):
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

    @cached_property
    def table(self) -> RegionTable:
        """All regions, low to high; some are empty. ``smem.SM100AttentionSMem`` draws them."""
        fused = self.config.use_fused_kv
        return RegionTable.stacked(
            {
                "Q": self.q_nope_bytes,
                "Q rope": self.q_rope_bytes,
                "KV" if fused else "K": self.k_total_bytes,
                "V": 0 if fused else self.config.num_kv_stages * self.v_stage_bytes,
                "rope": self.rope_bytes,
                "correction": self.correction_bytes,
                "q_scale": self.q_scale_bytes,
                "k_scale": self.num_k_scale_bufs * self.k_scale_stride_bytes,
                "copies": self.config.own_copies_bytes,
                "answer": ANSWER_BYTES if self.config.dynamic else 0,
                "stretch": self.config.stretch_bytes,
                "mbars": self.MiscMBarsType.size * MBARRIER_BYTES,
                "tmem address": TMEM_ADDRESS_BYTES,
            }
        )

    # Q and O ---------------------------------------------------------------------------------

    @property
    def q_offset(self) -> int:
        """Start of Q in elements."""
        return self.q_byte_offset // self.config.qkv_dtype_size

    @property
    def q_nope_bytes(self) -> int:
        """Bytes of Q without rope columns: BM x padded_ov_depth elements."""
        return self.config.BM * self.config.padded_ov_depth * self.config.qkv_dtype_size

    @property
    def q_rope_byte_offset(self) -> int:
        """Start of Q's rope columns."""
        return self.table["Q rope"].start

    @property
    def q_rope_bytes(self) -> int:
        """Bytes of Q's rope columns: BM x rope_depth elements of the rope dtype."""
        return self.config.BM * self.rope_depth * self.rope_dt_size

    @property
    def q_bytes(self) -> int:
        """Bytes of Q."""
        return self.q_nope_bytes + self.q_rope_bytes

    @property
    def tile_rows(self) -> int:
        """Rows of one Q or O tile in this CTA."""
        return self.config.tile_rows

    def q_tile_byte_offset(self, tile: int, qk_stage: int = 0) -> int:
        """Return the start of qk stage ``qk_stage`` of Q tile ``tile``."""
        stages = self.config.num_qk_stages
        stage = self.tile_rows * self.config.nope_depth() // stages * self.config.qkv_dtype_size
        return self.q_byte_offset + stage * (tile * stages + qk_stage)

    def q_rope_tile_byte_offset(self, tile: int) -> int:
        """Return the start of the rope columns of Q tile ``tile``."""
        return self.q_rope_byte_offset + tile * self.tile_rows * self.rope_depth * self.rope_dt_size

    @property
    def o_tile_bytes(self) -> int:
        """Bytes of one staged O tile: the rows of one chain."""
        row = self.config.padded_ov_depth * self.config.qkv_dtype.output.size
        return self.tile_rows * align_up(row, OUTPUT_SWIZZLE.bytes)

    def o_chunk_byte_offset(self, chain: int, chunk: int = 0) -> int:
        """Return the start of column chunk ``chunk`` of the staged O of ``chain``."""
        offset = chain * self.o_tile_bytes + chunk * self.tile_rows * OUTPUT_SWIZZLE.bytes
        return self.q_byte_offset + offset

    @property
    def copies_byte_offset(self) -> int:
        """Start of what copies of rows leave: the end of K and V, or memory of their own."""
        if self.config.own_copies_bytes:
            return self.table["copies"].start
        return self.correction_byte_offset - self.config.copies_plan.size

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
        return self.table["KV" if self.config.use_fused_kv else "K"].start

    @property
    def kv_offset(self) -> int:
        """Start of the K ring in elements."""
        return self.kv_byte_offset // self.config.qkv_dtype_size

    @property
    def k_stage_bytes(self) -> int:
        """Bytes of a K slot; rope columns are part of it only in split rings.

        Of a pair BN/2 rows of the full depth are as many bytes as BN rows of half the depth of V.
        """
        if self.config.use_fused_kv:
            return self.v_stage_bytes
        rope = self.rope_depth * self.config.k_rows_per_cta() * self.rope_dt_size
        return self.v_stage_bytes + rope

    @property
    def v_stage_bytes(self) -> int:
        """Bytes of a V slot: BN keys x this CTA's columns."""
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
    def kv_bytes(self) -> int:
        """Bytes of everything K and V."""
        if self.config.use_fused_kv:
            return self.k_total_bytes + self.rope_bytes
        return self.kv_stages_bytes

    @property
    def v_byte_offset(self) -> int:
        """Start of the V ring (the fused ring's start when fused)."""
        return self.kv_byte_offset if self.config.use_fused_kv else self.table["V"].start

    @property
    def num_rope_bufs(self) -> int:
        """Rope buffers of a fused ring."""
        return self.config.num_rope_buffers()

    @property
    def rope_stage_elems(self) -> int:
        """Elements of one rope buffer: the keys that this CTA holds.
        Modular lays out all BN keys, in a pair too, where its budget counts half of them."""
        return self.config.k_rows_per_cta() * self.rope_depth

    @property
    def rope_byte_offset(self) -> int:
        """Start of the rope buffers (fused ring)."""
        return self.table["rope"].start

    @property
    def rope_bytes(self) -> int:
        """Bytes of the rope buffers."""
        return self.num_rope_bufs * self.rope_stage_elems * self.rope_dt_size

    def k_rope_byte_offset(self, slot: int, tile: int) -> int:
        """Return the start of the rope columns of K.

        Split rings keep them in the K slot. A fused ring has buffers, used in turn: when the slot
        of a K tile is free, so is its buffer, because what freed the slot, of half a ring of key
        tiles before, was issued after the MMAs that read the buffer's last user.

        Args:
            slot: the K tile's slot.
            tile: number of the K tile, counted over everything the CTA loads.
        """
        if self.config.use_fused_kv:
            buffer = tile % self.num_rope_bufs
            return self.rope_byte_offset + buffer * self.rope_stage_elems * self.rope_dt_size
        return self.kv_byte_offset + slot * self.k_stage_bytes + self.v_stage_bytes

    # Correction, scales and barriers ---------------------------------------------------------

    @property
    def correction_offset(self) -> int:
        """Start of the correction factors in floats."""
        return self.correction_byte_offset // DType.FP32.size

    @property
    def correction_bytes(self) -> int:
        """One float per softmax thread, 256 with one Q tile as with two; two where groups join."""
        return self.config.correction_floats * DType.FP32.size

    @property
    def q_scale_bytes(self) -> int:
        """Bytes of the per-row Q scales."""
        return self.config.num_q_scales * self.config.scale_dtype_size

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of one K scale buffer: BN elements of the scale dtype."""
        return self.config.BN * self.config.scale_dtype_size

    @property
    def num_k_scale_bufs(self) -> int:
        """K scale buffers."""
        return self.config.num_k_scale_bufs()

    @property
    def MiscMBarsType(self) -> FA4MiscMBarsLayout:
        """The barrier block's plan (a type in the seed, a value here)."""
        return self.config.misc_mbars

    @property
    def mbar_offset(self) -> int:
        """Start of the barrier block in barriers."""
        return self.mbar_byte_offset // MBARRIER_BYTES

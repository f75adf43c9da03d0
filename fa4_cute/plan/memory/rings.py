"""K and V rings between the TMA load warp and the MMA warp, as arithmetic.

One slot of the K ring holds ``num_qk_stages`` parts of the depth, chunks outermost, so that a part
is one contiguous K-major tile; one slot of the V ring holds one MN-major tile::

    K ring   | slot 0: part 0 | part 1 | .. | slot 1: part 0 | ..        k_rows x BK0 each
    V ring   | slot 0: all keys x v_cols    | slot 1 ..                  BN x v_cols each

In a fused ring K and V alternate in one sequence of slots of equal size, and K is not staged.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..barriers.pipeline_plan import BarrierWait, PipelineState, StagedPipelinePlan
from ..config.config import FA4Config
from ..facts.dtypes import DType


@dataclass(frozen=True)
class TMAProducerPipeline:
    """Load side of the K or V ring: where each TMA box goes and which barrier counts it (4.3)."""

    config: FA4Config
    is_k: bool
    mbar_base: int
    smem_base: int
    dtype: DType | None = None

    @property
    def pipeline(self) -> StagedPipelinePlan:
        """The ring's barriers."""
        return _ring(self.config, self.is_k, self.mbar_base)

    @property
    def elements(self) -> int:
        """Elements of one TMA tile: ``k_rows x BK0`` of K without rope, ``v_cols x BK1`` of V."""
        if self.is_k:
            parts = self.pipeline.num_qk_stages
            return self.config.k_rows_per_cta() * self.config.nope_depth() // parts
        return self.config.v_cols_per_cta() * self.config.BK1

    @property
    def elements_full(self) -> int:
        """Elements of a slot: all depth parts of K, or one V tile."""
        return self.elements * self.pipeline.num_qk_stages

    @property
    def tile_bytes(self) -> int:
        """Bytes one part adds to its "tile arrived" barrier, per CTA; rope comes with K."""
        return self.part_bytes + (_k_rope_bytes(self.config) if self.is_k else 0)

    @property
    def part_bytes(self) -> int:
        """Distance of two depth parts of a slot."""
        return self.elements * (self.dtype or self.config.qkv_dtype).size

    @property
    def slot_bytes(self) -> int:
        """Distance of two slots; a fused ring keeps rope columns elsewhere."""
        rope = self.is_k and not self.config.use_fused_kv
        slot = self.part_bytes * self.pipeline.num_qk_stages
        return slot + (_k_rope_bytes(self.config) if rope else 0)

    def initial_state(self) -> PipelineState:
        """Return the producer's start: every slot is free."""
        return PipelineState.producer(self.config.num_kv_stages)

    def get_smem(self, state: PipelineState, qk_stage: int = 0) -> int:
        """Return the byte offset of part ``qk_stage`` of the current slot."""
        return self.smem_base + self.slot_bytes * state.index + qk_stage * self.part_bytes

    def get_tile(self, state: PipelineState, qk_stage: int = 0) -> tuple[int, int]:
        """Return (barrier that counts the bytes, byte offset of the tile)."""
        return self.pipeline.producer_mbar(state.index, qk_stage), self.get_smem(state, qk_stage)

    def acquire(self, state: PipelineState, qk_stage: int | None = None) -> BarrierWait:
        """Wait until the slot's part is free."""
        return self.pipeline.producer_acquire(state, qk_stage)

    def commit_step(self, state: PipelineState) -> PipelineState:
        """Step to the next slot; the TMA's own transaction count is the commit."""
        return state.step()


@dataclass(frozen=True)
class TMAConsumerPlan:
    """MMA side of the K or V ring: its barriers, and where its slots lie.

    ``fa4_cute.pipelines.TMAConsumerPipeline`` is the class that acts.
    """

    config: FA4Config
    is_k: bool
    mbar_base: int
    smem_base: int
    dtype: DType | None = None

    @property
    def pipeline(self) -> StagedPipelinePlan:
        """The ring's barriers."""
        return _ring(self.config, self.is_k, self.mbar_base)

    @property
    def num_qk_stages_effective(self) -> int:
        """Depth parts per slot: K may be staged, V never is."""
        return self.config.num_qk_stages if self.is_k else 1

    @property
    def BMN(self) -> int:
        """Extent of the tile along the MMA's N, per CTA: K rows or V columns."""
        return self.config.k_rows_per_cta() if self.is_k else self.config.v_cols_per_cta()

    @property
    def BK(self) -> int:
        """Extent of the tile along the MMA's K: depth of one part, or keys."""
        return self.config.BK0 if self.is_k else self.config.BK1

    @property
    def is_k_major(self) -> bool:
        """K tiles are K-major, V tiles MN-major."""
        return self.is_k

    @property
    def full_kv_bytes(self) -> int:
        """Bytes of a slot: the K tile with its rope columns, or the V tile (seed 003)."""
        config = self.config
        if not self.is_k:
            return config.BN * config.v_cols_per_cta() * self._size
        nope = config.k_rows_per_cta() * config.nope_depth() * self._size
        return nope + _k_rope_bytes(config)

    @property
    def slot_bytes(self) -> int:
        """Distance of two slots.

        It differs from ``full_kv_bytes`` only for a fused ring with rope columns: those live in
        buffers of their own (``SM100AttentionSMem.rope_byte_offset``), not in the slot.
        """
        if self.config.use_fused_kv:
            return self.config.BN * self.config.v_cols_per_cta() * self._size
        return self.full_kv_bytes

    @property
    def staged_k_bytes(self) -> int:
        """Bytes of one depth part of K (seed 003)."""
        return self.config.k_rows_per_cta() * self.config.BK0 * self._size

    def get(self, state: PipelineState) -> int:
        """Return the byte offset of the current slot."""
        return self.smem_base + self.slot_bytes * state.index

    @property
    def _size(self) -> int:
        return (self.dtype or self.config.qkv_dtype).size

    def require_operand(self, *, k: bool) -> None:
        """Refuse a method for K on the V ring, and the other way round.

        Raises:
            ValueError: naming both.
        """
        if self.is_k != k:
            have, asked = ("K", "V") if self.is_k else ("V", "K")
            raise ValueError(f"this pipeline consumes {have}; use the {have} methods, not {asked}")


def _k_rope_bytes(config: FA4Config) -> int:
    return config.k_rows_per_cta() * config.rope_depth() * config.rope_dtype_size


def _ring(config: FA4Config, is_k: bool, mbar_base: int) -> StagedPipelinePlan:
    return StagedPipelinePlan(config.num_kv_stages, config.num_qk_stages if is_k else 1, mbar_base)

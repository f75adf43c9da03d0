"""Rings of slots between the TMA load warp and the MMA warp, as arithmetic.

One slot of the K ring holds ``num_qk_stages`` stages of the depth, chunks outermost, so that a
stage is one contiguous K-major tile; one slot of the V ring holds one MN-major tile::

    K ring   | slot 0: stage 0 | stage 1 | .. | slot 1: stage 0 | ..      k_rows x BK0 each
    V ring   | slot 0: all keys x v_cols      | slot 1 ..                 BN x v_cols each

In a fused ring K and V alternate in one sequence of slots of equal size, and K is not staged. So it
is in the head-dim 256/512 kernel, where a slot holds one qk stage of K or one key block of V.

Source: Modular's ``TMAConsumerPipeline`` (``docs/mojo.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..barriers.pipeline_plan import Cursor, StagedPipelinePlan
from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..config.sm90_config import SM90Config
from .depth512_smem import Depth512SMemLayout
from .sm90_smem import SM90SMemLayout
from .smem_layout import AttentionSMemLayout


@dataclass(frozen=True)
class Ring:
    """Slots of operand tiles in shared memory, filled stage by stage, with their barriers.

    Its arithmetic serves both ends, on integers and on the registers of ``pipelines.RingState``.

    Attributes:
        pipeline: the "arrived" and "read" barriers of each slot and stage.
        byte_offset: start of slot 0.
        slot_bytes: distance of two slots.
        stage_bytes: distance of two qk stages of a slot.
        tile_bytes: bytes of one stage in each CTA, which its "arrived" barrier counts.
        by_lanes: whether lanes copy them, which arrive there instead.
    """

    pipeline: StagedPipelinePlan
    byte_offset: int
    slot_bytes: int
    stage_bytes: int
    tile_bytes: int
    by_lanes: bool = False

    @classmethod
    def of_keys(cls, config: FA4Config) -> Ring:
        """Return the K ring, or the fused ring as K sees it; rope columns count as K's bytes.

        In a fused ring they lie in buffers of their own, not in the slot.
        """
        layout, pipeline = AttentionSMemLayout(config), config.misc_mbars.k_ring
        nope = config.k_rows_per_cta() * config.nope_depth() * config.qkv_dtype_size
        stage = nope // pipeline.num_qk_stages
        rope = layout.rope_stage_elems * layout.rope_dt_size
        offset, slot, by_lanes = layout.kv_byte_offset, layout.k_stage_bytes, config.copies_by_lanes
        return cls(pipeline, offset, slot, stage, stage + rope, by_lanes)

    @classmethod
    def of_values(cls, config: FA4Config) -> Ring:
        """Return the V ring, or the fused ring as V sees it."""
        layout = AttentionSMemLayout(config)
        size, offset = layout.v_stage_bytes, layout.v_byte_offset
        by_lanes = config.copies_by_lanes
        return cls(config.misc_mbars.v_ring, offset, size, size, size, by_lanes)

    @classmethod
    def of_depth512(cls, config: Depth512Config) -> Ring:
        """Return the ring of the head-dim 256/512 kernel: a slot holds one stage of K, or of V."""
        size = config.kv_stage_bytes
        offset = Depth512SMemLayout(config).kv_byte_offset
        return cls(config.misc_mbars.kv_ring, offset, size, size, size)

    @classmethod
    def of_sm90_keys(cls, config: SM90Config) -> Ring:
        """Return the K ring of the Hopper kernel."""
        size, layout = config.k_stage_bytes, SM90SMemLayout(config)
        return cls(config.misc_mbars.k_ring, layout.k_byte_offset, size, size, size)

    @classmethod
    def of_sm90_values(cls, config: SM90Config) -> Ring:
        """Return the ring of V as the Hopper kernel multiplies it."""
        size, layout = config.v_stage_bytes, SM90SMemLayout(config)
        return cls(config.misc_mbars.v_ring, layout.v_byte_offset, size, size, size)

    @classmethod
    def of_sm90_loads(cls, config: SM90Config) -> Ring:
        """Return the ring to which the Hopper kernel loads V: raw slots where it is transposed."""
        if not config.transposes_values:
            return cls.of_sm90_values(config)
        size, layout = config.v_stage_bytes, SM90SMemLayout(config)
        return cls(config.misc_mbars.raw_ring, layout.raw_byte_offset, size, size, size)

    @property
    def num_slots(self) -> int:
        """Slots of the ring."""
        return self.pipeline.num_kv_stages

    @property
    def num_qk_stages(self) -> int:
        """Stages of a slot."""
        return self.pipeline.num_qk_stages

    def get_smem(self, state: Cursor, qk_stage: int = 0) -> Any:
        """Return the byte offset of stage ``qk_stage`` of the current slot."""
        return self.byte_offset + self.slot_bytes * state.index + qk_stage * self.stage_bytes


@dataclass(frozen=True)
class TMAConsumerPlan:
    """MMA side of the K or V ring: its barriers, and where its slots lie.

    ``fa4_cute.pipelines.TMAConsumerPipeline`` is the class that acts.
    """

    config: FA4Config
    is_k: bool

    @property
    def ring(self) -> Ring:
        """The slots and their barriers."""
        return Ring.of_keys(self.config) if self.is_k else Ring.of_values(self.config)

    @property
    def pipeline(self) -> StagedPipelinePlan:
        """The ring's barriers."""
        return self.ring.pipeline

    @property
    def num_qk_stages_effective(self) -> int:
        """Stages per slot: K may be staged, V never is."""
        return self.ring.num_qk_stages

    @property
    def BMN(self) -> int:
        """Extent of the tile along the MMA's N, per CTA: K rows or V columns."""
        return self.config.k_rows_per_cta() if self.is_k else self.config.v_cols_per_cta()

    @property
    def BK(self) -> int:
        """Extent of the tile along the MMA's K: depth of one qk stage, or keys."""
        return self.config.BK0 if self.is_k else self.config.BK1

    @property
    def is_k_major(self) -> bool:
        """K tiles are K-major, V tiles MN-major."""
        return self.is_k

    @property
    def full_kv_bytes(self) -> int:
        """Bytes of a slot: the K tile with its rope columns, or the V tile.

        It differs from ``ring.slot_bytes`` only for a fused ring with rope columns: those live in
        buffers of their own (``AttentionSMemLayout.rope_byte_offset``), not in the slot.
        """
        ring = self.ring
        return ring.tile_bytes + (ring.num_qk_stages - 1) * ring.stage_bytes

    @property
    def staged_k_bytes(self) -> int:
        """Bytes of one qk stage of K."""
        return self.config.k_rows_per_cta() * self.config.BK0 * self.config.qkv_dtype_size

    def get(self, state: Cursor) -> Any:
        """Return the byte offset of the current slot."""
        return self.ring.get_smem(state)

    def require_operand(self, *, k: bool) -> None:
        """Refuse a method for K on the V ring, and the other way round.

        Raises:
            ValueError: naming both.
        """
        if self.is_k != k:
            have, asked = ("K", "V") if self.is_k else ("V", "K")
            raise ValueError(f"this pipeline consumes {have}; use the {have} methods, not {asked}")


def slots_since_scores(config: FA4Config, lead: int = 0) -> int:
    """Return how many slots before K of the next query tile one is that is free after all scores.

    In the order of ``IssueOrder.loads``: the last K in a ring of its own. In a fused one it is that
    K, or V of the key tile before, which the MMA that follows them reads; with a ``lead`` of chain
    1, whose last two P V have a V of their own each, the last K. That K is free sooner than V of
    the key tile before, so where there is one and query tiles run on it is waited for, as if there
    were a lead.
    """
    return 2 + lead if config.use_fused_kv else 1

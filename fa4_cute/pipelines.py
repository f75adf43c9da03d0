"""Pipelines that act: the barriers of the kernels in the words of their events.

A class here holds a barrier block (``address``, in a pair also that of the leader) and its plan,
which says which barrier and which parity. A role says what it waits for and what it has done::

    ctx.mbars.consumer_s(chain).wait(step)          softmax: S of the chain is written
    ctx.mbars.consumer_s(chain).release(sub=0)      softmax: the first pv stage of P is stored
    ctx.mbars.producer_o(chain).acquire(step, sub)  MMA: that stage of P is there, O is rescaled
    ctx.mbars.producer_o(chain).commit_mma()        MMA: O is accumulated when the MMAs are done

Names and shapes follow the Mojo kernels; where a member is and why it differs: ``docs/mojo.md``.
"""

from dataclasses import dataclass

from cutlass import Int32

from .device.math import mma as umma
from .device.sync.barriers import fence_proxy_async_shared
from .plan.barriers.depth512_mbars import Depth512MBarsLayout
from .plan.barriers.mbars import FA4MiscMBarsLayout
from .plan.barriers.pipeline_plan import StagedPipelinePlan
from .plan.barriers.sm90_mbars import SM90MBarsLayout
from .plan.facts.umma import SmemOperand
from .plan.memory.rings import Ring, TMAConsumerPlan
from .sync.blocks import Barrier, BarrierBlock, HopperBarriers, PairBarriers
from .sync.cursor import RingPlace, RingState, after_key, after_value, first_slots, next_slots
from .sync.role_pipeline import RolePipeline, StagedPipeline

__all__ = [
    "Barrier", "BarrierBlock", "Depth512MBars", "FA4MiscMBars", "HopperBarriers", "LoadPlace",
    "MBars", "PairBarriers", "RingPlace", "RingState", "RolePipeline", "SM90MBars",
    "StagedPipeline", "TMAConsumerPipeline", "TMAProducerPipeline", "after_key", "after_value",
    "first_slots", "next_slots",
]  # fmt: skip


@dataclass(frozen=True)
class LoadPlace:
    """Where the boxes of a tile go.

    Attributes:
        mbar: number of the barrier that counts their bytes.
        byte_offset: start of the tile in shared memory.
    """

    mbar: Int32 | int
    byte_offset: Int32 | int


@dataclass(frozen=True)
class TMAProducerPipeline:
    """Load side of a ring: acquire a stage, expect its bytes, load its boxes where it says.

    The commit is TMA's own: the stage has arrived when all expected bytes have. A pair fills its
    rings together. Each CTA loads its own slice, all bytes count in the leader, which alone expects
    them, and a stage is free when the MMAs have read it in both CTAs.

    Attributes:
        block: the barriers of the CTA, or of the pair.
        ring: slots, bytes and barriers.
    """

    block: BarrierBlock
    ring: Ring

    @property
    def pipeline(self) -> StagedPipeline:
        """The ring's barriers."""
        return StagedPipeline(self.block, self.ring.pipeline)

    def acquire(self, state: RingState, qk_stage: int = 0) -> None:
        """Wait until the MMAs have read what the stage held a round ago."""
        self.pipeline.producer_acquire(state, qk_stage)

    def expect(self, state: RingState, qk_stage: int = 0, *, more: int = 0) -> LoadPlace:
        """Expect the bytes of the stage, and ``more`` that arrive with it, from each CTA.

        Where lanes copy the stage they arrive themselves, and ``more`` is all that TMA brings.

        Returns:
            Where the stage's boxes go.
        """
        place = self.get_tile(state, qk_stage)
        if not self.ring.by_lanes:
            self.block.announce(place.mbar, self.ring.tile_bytes + more)
        elif more:
            self.block.add(place.mbar, more)
        return place

    def get_tile(self, state: RingState, qk_stage: int = 0) -> LoadPlace:
        """Return where the boxes of a stage go whose bytes are expected already."""
        mbar = self.pipeline.producer_mbar(state, qk_stage)
        return LoadPlace(mbar, self.ring.get_smem(state, qk_stage))

    def drain(self, state: RingState) -> None:
        """Wait until every slot has been read, from ``state`` on for a whole round."""
        for _ in range(self.ring.num_slots):
            for qk_stage in range(self.ring.num_qk_stages):
                self.acquire(state, qk_stage)
            state = state.step()


@dataclass(frozen=True)
class TMAConsumerPipeline:
    """MMA side of the K ring or of the V ring.

    The steady order of the MMA role over both rings is S0 <- Q0 Kn', O1 += P1 Vn-1,
    S1 <- Q1 Kn', O0 += P0 Vn: two MMAs always lie between "S ready" and "P needed".

    Attributes:
        block: the CTA's barriers.
        plan: barriers and slots of the ring.
        operand: the tile in a slot.
        smem: start of shared memory.
        in_cluster: whether that address carries the CTA's rank; descriptors have no place for it.
    """

    block: BarrierBlock
    plan: TMAConsumerPlan
    operand: SmemOperand
    smem: Int32
    in_cluster: bool = False

    @property
    def pipeline(self) -> StagedPipeline:
        """The ring's barriers."""
        return StagedPipeline(self.block, self.plan.pipeline)

    def get(self, state: RingState) -> Int32:
        """Return the lower word of the slot's matrix descriptor; the upper one is static."""
        slot = self.plan.get(state)
        base = umma.descriptor_address(self.smem) if self.in_cluster else self.smem
        return umma.lower_word(self.operand, base + slot)

    def wait(self, state: RingState, qk_stage: int = 0) -> None:
        """Wait until stage ``qk_stage`` of the tile has arrived.

        What lanes copied they wrote by the generic proxy, and the MMAs read by the async one.
        """
        self.pipeline.consumer_wait(state, qk_stage)
        if self.plan.ring.by_lanes:
            fence_proxy_async_shared()

    def release(self, state: RingState, qk_stage: int = 0) -> None:
        """Free the stage once the MMAs issued so far have read it."""
        self.pipeline.consumer_release(state, qk_stage)

    def get_k(self, state: RingState) -> Int32:
        """Return ``get`` of the K ring."""
        self.plan.require_operand(k=True)
        return self.get(state)

    def wait_k(self, state: RingState, qk_stage: int | None = None) -> None:
        """Wait until stage ``qk_stage`` of K (default: the last) has arrived."""
        self.plan.require_operand(k=True)
        self.wait(state, self._last if qk_stage is None else qk_stage)

    def release_k(self, state: RingState, qk_stage: int | None = None) -> None:
        """Free stage ``qk_stage`` of K (default: the last) once it has been read."""
        self.plan.require_operand(k=True)
        self.release(state, self._last if qk_stage is None else qk_stage)

    def get_v(self, state: RingState) -> Int32:
        """Return ``get`` of the V ring."""
        self.plan.require_operand(k=False)
        return self.get(state)

    def wait_v(self, state: RingState) -> None:
        """Wait until V has arrived."""
        self.plan.require_operand(k=False)
        self.wait(state)

    def release_v(self, state: RingState) -> None:
        """Free the V slot once the MMAs issued so far have read it."""
        self.plan.require_operand(k=False)
        self.release(state)

    @property
    def _last(self) -> int:
        return self.plan.num_qk_stages_effective - 1


@dataclass(frozen=True)
class MBars:
    """What the barriers of all kernels have in common.

    Attributes:
        block: the barriers of the CTA, and of the leader in a pair.
        layout: index, count and meaning of each.
    """

    block: BarrierBlock
    layout: FA4MiscMBarsLayout | Depth512MBarsLayout | SM90MBarsLayout

    def init(self, *, lane_idx: Int32) -> None:
        """Initialise all barriers; every lane of one warp comes here."""
        self.block.init(self.layout.counts(), lane_idx)

    def stored(self, chain: Int32 | int) -> Barrier:
        """O of ``chain`` has been read and stored: its memories are free (persistent CTAs)."""
        return Barrier(self.block, self.layout.stored(chain))

    def asks_next(self) -> RolePipeline:
        """Scheduler: acquire waits until all warps have read the answer before (dynamic)."""
        assert not isinstance(self.layout, SM90MBarsLayout)
        return RolePipeline(self.block, self.layout.answers.producer(self.layout.answer_offset))

    def reads_next(self) -> RolePipeline:
        """All roles: wait until the next work tile is named; release it once read (dynamic)."""
        assert not isinstance(self.layout, SM90MBarsLayout)
        return RolePipeline(self.block, self.layout.answers.consumer(self.layout.answer_offset))

    def scale_ring(self) -> StagedPipeline:
        """The buffers of key scales."""
        return self._ring(self.layout.scale_ring)

    def _ring(self, plan: StagedPipelinePlan) -> StagedPipeline:
        return StagedPipeline(self.block, plan)


@dataclass(frozen=True)
class FA4MiscMBars(MBars):
    """The barriers of the kernel with one or two Q tiles; table: ``plan.barriers.mbars``."""

    layout: FA4MiscMBarsLayout

    def producer_s(self, chain: int) -> RolePipeline:
        """MMA: commit says that S is written. It never acquires: an earlier P V of the same thread
        waited for P, and so for the softmax to have read S."""
        return RolePipeline(self.block, self.layout.producer_s(chain))

    def consumer_s(self, chain: int) -> RolePipeline:
        """Softmax: wait until S is written; release pv stage ``sub``, which now is P."""
        return RolePipeline(self.block, self.layout.consumer_s(chain))

    def producer_c(self, chain: int) -> RolePipeline:
        """Softmax: commit says that the correction factor is written."""
        return RolePipeline(self.block, self.layout.producer_c(chain))

    def consumer_c(self, chain: int) -> RolePipeline:
        """Correction: wait for the factor, release it once read."""
        return RolePipeline(self.block, self.layout.consumer_c(chain))

    def producer_o(self, chain: int) -> RolePipeline:
        """MMA: acquire pv stage ``sub`` of P, the first with O rescaled; commit O += P V."""
        return RolePipeline(self.block, self.layout.producer_o(chain))

    def consumer_o(self, chain: int) -> RolePipeline:
        """Correction, and softmax at the end: wait for O; release says that O is rescaled."""
        return RolePipeline(self.block, self.layout.consumer_o(chain))

    def q1_wait_mbar(self, qk_stage: int) -> Barrier:
        """Stage ``qk_stage`` of the second Q tile has arrived."""
        return Barrier(self.block, self.layout.q1_wait_mbar(qk_stage))

    def scores_read(self, chain: int) -> Barrier:
        """S of ``chain`` is in registers: P of the other chain may overwrite it."""
        return Barrier(self.block, self.layout.scores_read(chain))

    def publish(self) -> Barrier:
        """The warps of all CTAs of the cluster have published their partition."""
        return Barrier(self.block, self.layout.publish_offset)


@dataclass(frozen=True)
class Depth512MBars(MBars):
    """The barriers of the kernel for wide heads; table: ``plan.barriers.depth512_mbars``."""

    layout: Depth512MBarsLayout

    def producer_s(self) -> RolePipeline:
        """MMA: acquire waits until the step's buffer was loaded, commit says that S is written."""
        return RolePipeline(self.block, self.layout.producer_s())

    def consumer_s(self) -> RolePipeline:
        """Softmax: wait for S, release its buffer once it is in registers."""
        return RolePipeline(self.block, self.layout.consumer_s())

    def producer_c(self) -> RolePipeline:
        """Softmax: commit says that the correction factor is written."""
        return RolePipeline(self.block, self.layout.producer_c())

    def consumer_c(self) -> RolePipeline:
        """Correction: wait for the factor, release it once read."""
        return RolePipeline(self.block, self.layout.consumer_c())

    def producer_o_lo(self) -> RolePipeline:
        """MMA: acquire P with the rescaled O_lo, commit says that P V_lo is accumulated."""
        return RolePipeline(self.block, self.layout.producer_o_lo())

    def producer_o_hi(self) -> RolePipeline:
        """MMA: acquire the rescaled O_hi, commit says that P V_hi is accumulated."""
        return RolePipeline(self.block, self.layout.producer_o_hi())

    def consumer_o_lo(self) -> RolePipeline:
        """Correction: wait for P V_lo, release says that O_lo is rescaled."""
        return RolePipeline(self.block, self.layout.consumer_o_lo())

    def consumer_o_hi(self) -> RolePipeline:
        """Correction: wait for P V_hi, release says that O_hi is rescaled."""
        return RolePipeline(self.block, self.layout.consumer_o_hi())

    def producer_o(self, o_block: int) -> RolePipeline:
        """``producer_o_lo`` or ``producer_o_hi``, by the number of the O block, low or high."""
        return self.producer_o_hi() if o_block else self.producer_o_lo()

    def consumer_o(self, o_block: int) -> RolePipeline:
        """``consumer_o_lo`` or ``consumer_o_hi``, by the number of the O block."""
        return self.consumer_o_hi() if o_block else self.consumer_o_lo()

    def po_lo_mbar(self) -> Barrier:
        """P is stored: all softmax threads arrive here, as does ``consumer_o_lo().release()``."""
        return Barrier(self.block, self.layout.po_lo_mbar())

    def query_read(self) -> Barrier:
        """All scores of the query tile are computed: Q of the next one may be loaded."""
        return Barrier(self.block, self.layout.query_read_offset)

    def get_kv_mbars(self) -> StagedPipeline:
        """The ring of K/V slots."""
        return self._ring(self.layout.kv_ring)


@dataclass(frozen=True)
class SM90MBars(MBars):
    """The barriers of the Hopper kernel; table: ``plan.barriers.sm90_mbars``."""

    layout: SM90MBarsLayout

    def query(self, consumer: Int32 | int) -> Barrier:
        """The Q tile of ``consumer`` has arrived."""
        return Barrier(self.block, self.layout.query(consumer))

    def k_ring(self) -> StagedPipeline:
        """The slots of K."""
        return self._ring(self.layout.k_ring)

    def v_ring(self) -> StagedPipeline:
        """The slots of V as it is multiplied."""
        return self._ring(self.layout.v_ring)

    def raw_ring(self) -> StagedPipeline:
        """The slots of V as it is loaded, where it is transposed."""
        return self._ring(self.layout.raw_ring)

    def bias_ring(self) -> StagedPipeline:
        """The biases beside the slots of K."""
        return self._ring(self.layout.bias_ring)

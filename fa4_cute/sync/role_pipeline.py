"""Pipelines between warp roles, and rings of slots between the load and the MMA role.

A plan says which barrier and which parity; here that becomes the wait or the arrival.
"""

from dataclasses import dataclass

from cutlass import Int32

from ..device.memory import lane_copies
from ..device.sync import barriers
from ..plan.barriers.pipeline_plan import (
    BarrierWait,
    RolePipelinePlan,
    SlotCursor,
    StagedPipelinePlan,
)
from .blocks import BarrierBlock


@dataclass(frozen=True)
class RolePipeline:
    """One side of a hand-over between two warp roles.

    A *step* is the number of the hand-over, from 0, over all query tiles of the CTA. Arrivals need
    it only where two buffers alternate.
    """

    block: BarrierBlock
    plan: RolePipelinePlan

    def stage(self, step: Int32 | int) -> Int32 | int:
        """Return the number of the buffer that ``step`` uses."""
        return self.plan.stage(step)

    def acquire(self, step: Int32 | int, sub: int = 0, *, of_pair: bool = False) -> None:
        """Producer: wait until (part ``sub`` of) the stage may be written for ``step``.

        With ``of_pair`` the wait also acquires what threads of the other CTA released.
        """
        event = self.plan.acquire(step, sub)
        barriers.mbarrier_wait(*self._where(event), cluster=of_pair)

    def acquire_next(self, step: Int32 | int, *, of_pair: bool = False) -> None:
        """Producer: wait until ``step`` has been consumed, before the stage is written again.

        ``of_pair`` is that of :meth:`acquire`.
        """
        event = self.plan.acquire_next(step)
        barriers.mbarrier_wait(*self._where(event), cluster=of_pair)

    def commit(self, step: Int32 | int = 0) -> None:
        """Producer: the calling threads say that ``step`` is ready."""
        self.block.arrive(self.plan.commit(step))

    def commit_mma(self, step: Int32 | int = 0) -> None:
        """Producer: ``step`` is ready when the MMAs issued so far have completed."""
        self.block.commit_mma(self.plan.commit(step))

    def wait(self, step: Int32 | int) -> None:
        """Consumer: wait until ``step`` is ready."""
        barriers.mbarrier_wait(*self._where(self.plan.wait(step)))

    def release(self, step: Int32 | int = 0, sub: int = 0) -> None:
        """Consumer: the calling threads give (part ``sub`` of) ``step`` back.

        Where a pair shares the MMAs they say so to the leader, which waits for both CTAs.
        """
        mbar = self.plan.release(step, sub)
        if self.plan.cta_group == 1:
            self.block.arrive(mbar)
        else:
            self.block.arrive_at_leader(mbar)

    def _where(self, event: BarrierWait) -> tuple[Int32, Int32]:
        return self.block.address_of(event.mbar), Int32(event.phase)


@dataclass(frozen=True)
class StagedPipeline:
    """A ring of slots that TMA fills and MMAs read, each slot in ``num_qk_stages`` stages.

    The cursor is the caller's: K and V may take turns in one ring.
    """

    block: BarrierBlock
    plan: StagedPipelinePlan

    def producer_acquire(self, state: SlotCursor, qk_stage: int | None = None) -> None:
        """Wait until the MMAs have read what stage ``qk_stage`` of the slot held a round ago."""
        self.block.wait(self.plan.producer_acquire(state, qk_stage))

    def producer_mbar(self, state: SlotCursor, qk_stage: int | None = None) -> Int32:
        """Return the index of the barrier that counts the bytes of stage ``qk_stage``."""
        return self.plan.producer_mbar(state.index, qk_stage)

    def producer_arrive_as_warp(self, state: SlotCursor) -> None:
        """The calling warps have filled the slot; they say so together."""
        self.block.arrive_as_warp(self.plan.producer_mbar(state.index))

    def producer_arrive_after_copies(self, state: SlotCursor) -> None:
        """Each calling thread says so when what it asked to be copied has arrived."""
        mbar = self.plan.producer_mbar(state.index)
        lane_copies.arrive_after(self.block.address_of(mbar))

    def consumer_wait(self, state: SlotCursor, qk_stage: int | None = None) -> None:
        """Wait until the bytes of stage ``qk_stage`` (default: the last) have landed."""
        self.block.wait(self.plan.consumer_wait(state, qk_stage))

    def consumer_release(self, state: SlotCursor, qk_stage: int | None = None) -> None:
        """Free stage ``qk_stage`` (default: the last) once the MMAs issued so far have read it."""
        self.block.commit_mma(self.plan.consumer_mbar(state.index, qk_stage))

    def consumer_arrive_as_warp(self, state: SlotCursor) -> None:
        """The calling warps have read the slot; they free it together."""
        self.block.arrive_as_warp(self.plan.consumer_mbar(state.index))

    def consumer_arrive(self, state: SlotCursor, qk_stage: int | None = None) -> None:
        """The calling threads have read the stage; they free it together."""
        self.block.arrive(self.plan.consumer_mbar(state.index, qk_stage))

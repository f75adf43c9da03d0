"""Pipelines on the device: the plan's arithmetic on registers, and the waits and arrivals it names.

The classes of ``plan.barriers.pipeline_plan`` and ``plan.memory.rings`` compute barrier indices and
byte offsets from a ring cursor. They only add and multiply, so they work as they are on a cursor
whose index and phase are registers: :class:`RingState`. What is left for the device is to step the
cursor and to turn a ``BarrierWait`` or ``BarrierArrive`` into instructions.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32

from .device.math import mma
from .device.sync import barriers, pair
from .plan.barriers.pipeline_plan import BarrierArrive, BarrierWait, RolePipeline, StagedPipeline
from .plan.config.config import FA4Config
from .plan.facts.hardware import CTA_GROUP, MBARRIER_BYTES
from .plan.memory.rings import Ring, TMAConsumerPipeline

__all__ = [
    "BarrierBlock",
    "PairBarriers",
    "RingState",
    "RolePipeline",
    "StagedPipeline",
    "TMAConsumerPipeline",
    "TMAProducerPipeline",
    "after_key",
    "after_value",
    "first_slots",
    "next_slots",
]


class RingState:
    """Ring cursor in registers: the device form of ``PipelineState``.

    Functional: ``step`` returns the next cursor, and a loop must rebind it.
    """

    def __init__(self, num_stages: int, index: Int32, phase: Int32) -> None:
        """Take the ring's slots and the registers of the cursor."""
        self.num_stages = num_stages
        self.index = index
        self.phase = phase

    @classmethod
    def producer(cls, num_stages: int) -> "RingState":
        """Return the cursor for which every slot counts as free."""
        return cls(num_stages, Int32(0), Int32(1))

    @classmethod
    def consumer(cls, num_stages: int) -> "RingState":
        """Return the cursor for which nothing has been produced."""
        return cls(num_stages, Int32(0), Int32(0))

    @classmethod
    def after(cls, num_stages: int, used: Int32 | int, *, producer: bool) -> "RingState":
        """Return the cursor after ``used`` slots have been passed."""
        if isinstance(used, int) and used == 0:
            return cls.producer(num_stages) if producer else cls.consumer(num_stages)
        turn = used // num_stages & 1
        return cls(num_stages, used % num_stages, turn ^ 1 if producer else turn)

    def step(self) -> "RingState":
        """Return the next slot; the phase flips when the index wraps to 0."""
        after = self.index + 1
        wraps = after == self.num_stages
        index = Int32(cutlass.select_(wraps, Int32(0), after))
        phase = Int32(cutlass.select_(wraps, self.phase ^ 1, self.phase))
        return RingState(self.num_stages, index, phase)

    def __extract_mlir_values__(self) -> list:
        """Return the registers of the cursor, for loops that carry it."""
        return [self.index.ir_value(), self.phase.ir_value()]

    def __new_from_mlir_values__(self, values: list) -> "RingState":
        """Return the cursor whose registers are ``values``."""
        return RingState(self.num_stages, Int32(values[0]), Int32(values[1]))


def first_slots(config: FA4Config, start: RingState) -> tuple[RingState, RingState]:
    """Return the cursors of key tile 0's K and V, given the cursor of slot 0."""
    return (start, start.step()) if config.use_fused_kv else (start, start)


def next_slots(
    config: FA4Config, k: RingState, v: RingState
) -> tuple[RingState, RingState]:
    """Return the cursors of the next key tile's K and V.

    Split rings advance on their own. In a fused ring K and V alternate: V of a tile lies in the
    slot after its K, and the next K in the slot after that V.
    """
    if config.use_fused_kv:
        k = v.step()
        return k, k.step()
    return k.step(), v.step()


def after_key(
    config: FA4Config, k: RingState, v: RingState
) -> tuple[RingState, RingState]:
    """Return the cursors of the next K and V once K has taken its slot; in one ring they agree."""
    k = k.step()
    return (k, k) if config.use_fused_kv else (k, v)


def after_value(
    config: FA4Config, k: RingState, v: RingState
) -> tuple[RingState, RingState]:
    """Return the cursors of the next K and V once V has taken its slot; in one ring they agree."""
    v = v.step()
    return (v, v) if config.use_fused_kv else (k, v)


@dataclass(frozen=True)
class BarrierBlock:
    """The mbarriers of the CTA: ``address`` is the shared address of barrier 0 of the plan."""

    address: Int32

    def address_of(self, mbar: Int32 | int) -> Int32:
        """Return the shared address of barrier ``mbar``."""
        return self.address + MBARRIER_BYTES * mbar

    def wait(self, event: BarrierWait) -> None:
        """Block until the event's phase has completed."""
        barriers.mbarrier_wait(self.address_of(event.mbar), Int32(event.phase))

    def arrive(self, event: BarrierArrive) -> None:
        """Arrive: each calling thread now, or the MMAs issued so far when they complete."""
        address = self.address_of(event.mbar)
        if event.by_mma:
            mma.commit(address)
        else:
            barriers.mbarrier_arrive(address)

    def expect(self, mbar: Int32 | int, num_bytes: int) -> None:
        """Announce ``num_bytes`` of TMA data on barrier ``mbar``."""
        barriers.mbarrier_expect_tx(self.address_of(mbar), num_bytes)

    # A CTA on its own is its own leader; ``PairBarriers`` tells the two apart.

    def in_leader(self, mbar: Int32 | int) -> Int32:
        """Return the address at which TMA bytes for barrier ``mbar`` count."""
        return self.address_of(mbar)

    def announce(self, mbar: Int32 | int, num_bytes: int) -> None:
        """Announce ``num_bytes`` of TMA data for each CTA that shares the barrier."""
        self.expect(mbar, num_bytes)

    def arrive_at_leader(self, mbar: Int32 | int) -> None:
        """Arrive on a barrier that the MMA role waits on, each calling thread once."""
        self.arrive(BarrierArrive(mbar))


@dataclass(frozen=True)
class PairBarriers(BarrierBlock):
    """The mbarriers of this CTA, and those of the leader: ``leader`` is the cluster address of
    barrier 0 there. Commits by the MMA arrive in both CTAs."""

    leader: Int32

    @classmethod
    def at(cls, address: Int32) -> "PairBarriers":
        """Return the blocks at shared ``address`` of both CTAs."""
        return cls(address, pair.leader_address(address))

    def in_leader(self, mbar: Int32 | int) -> Int32:
        """Return the cluster address of barrier ``mbar`` in the leader."""
        return BarrierBlock(self.leader).address_of(mbar)

    def wait_for_pair(self, event: BarrierWait) -> None:
        """Block until the phase has completed; acquires what the threads of both CTAs released."""
        barriers.mbarrier_wait(self.address_of(event.mbar), Int32(event.phase), cluster=True)

    def arrive(self, event: BarrierArrive) -> None:
        """Arrive here: each calling thread now, or in both CTAs when the MMAs have completed."""
        if event.by_mma:
            pair.commit_both(self.address_of(event.mbar))
        else:
            barriers.mbarrier_arrive(self.address_of(event.mbar))

    def announce(self, mbar: Int32 | int, num_bytes: int) -> None:
        """Expect ``num_bytes`` of TMA data from each CTA; only the leader's call has an effect.

        Bytes of the peer may land first, which leaves the count negative but the phase open.
        """
        pair.expect_tx_in_leader(self.address_of(mbar), CTA_GROUP * num_bytes)

    def arrive_at_leader(self, mbar: Int32 | int, *, release: bool = False) -> None:
        """Arrive on the leader's barrier ``mbar``, each calling thread once.

        ``release`` hands shared memory over as well; without it only Tensor Memory.
        """
        pair.mbarrier_arrive_cluster(self.in_leader(mbar), release=release)


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
        ring: slots, bytes and barriers.
        barriers: the barriers of the CTA, or of the pair.
    """

    ring: Ring
    barriers: BarrierBlock

    def acquire(self, state: RingState, qk_stage: int = 0) -> None:
        """Wait until the MMAs have read what the stage held a round ago."""
        self.barriers.wait(self.ring.pipeline.producer_acquire(state, qk_stage))

    def expect(self, state: RingState, qk_stage: int = 0, *, more: int = 0) -> LoadPlace:
        """Expect the bytes of the stage, and ``more`` that arrive with it, from each CTA.

        Returns:
            Where the stage's boxes go.
        """
        mbar = self.ring.pipeline.producer_mbar(state.index, qk_stage)
        offset = self.ring.get_smem(state, qk_stage)
        self.barriers.announce(mbar, self.ring.tile_bytes + more)
        return LoadPlace(mbar, offset)

    def get_tile(self, state: RingState, qk_stage: int = 0) -> LoadPlace:
        """Return where the boxes go of a stage whose bytes are expected already."""
        mbar = self.ring.pipeline.producer_mbar(state.index, qk_stage)
        return LoadPlace(mbar, self.ring.get_smem(state, qk_stage))

    def drain(self, state: RingState) -> None:
        """Wait until every slot has been read, from ``state`` on for a whole round."""
        for _ in range(self.ring.num_slots):
            for qk_stage in range(self.ring.num_qk_stages):
                self.acquire(state, qk_stage)
            state = state.step()

"""Barrier blocks: the mbarriers of a CTA, alone or in a pair, by their index in the plan."""

from dataclasses import dataclass

import cutlass
from cutlass import Int32, cute

from ..device.math import mma
from ..device.sync import barriers, pair
from ..plan.barriers.pipeline_plan import BarrierWait, parity
from ..plan.facts.hardware import CTA_GROUP, MBARRIER_BYTES, WARP_THREADS


@dataclass(frozen=True)
class BarrierBlock:
    """The mbarriers of the CTA: ``address`` is the shared address of barrier 0 of the plan.

    A CTA on its own is its own leader; ``PairBarriers`` tells the two apart.
    """

    address: Int32

    def address_of(self, mbar: Int32 | int) -> Int32:
        """Return the shared address of barrier ``mbar``."""
        return self.address + MBARRIER_BYTES * mbar

    def in_leader(self, mbar: Int32 | int) -> Int32:
        """Return the address at which TMA bytes for barrier ``mbar`` count."""
        return self.address_of(mbar)

    @cute.jit
    def init(self, counts: cutlass.Constexpr, lane_idx: Int32) -> None:
        """Initialise all barriers for ``counts`` arrivals: lane i takes i, i + 32, .. One warp."""
        for wave in cutlass.range_constexpr(0, len(counts), WARP_THREADS):
            index = lane_idx + wave
            count = Int32(1)
            for mbar in cutlass.range_constexpr(wave, min(wave + WARP_THREADS, len(counts))):
                if cutlass.const_expr(counts[mbar] != 1):
                    count = Int32(cutlass.select_(index == mbar, Int32(counts[mbar]), count))
            if index < len(counts):
                barriers.mbarrier_init(self.address_of(index), count)
        barriers.fence_mbarrier_init()

    def wait(self, event: BarrierWait) -> None:
        """Block until the event's phase has completed."""
        self.wait_at(self.address_of(event.mbar), Int32(event.phase))

    def wait_at(self, address: Int32, phase: Int32, *, of_cluster: bool = False) -> None:
        """Block until the phase with parity ``phase`` of the barrier at ``address`` has ended."""
        barriers.mbarrier_wait(address, phase, cluster=of_cluster)

    def arrive(self, mbar: Int32 | int) -> None:
        """Arrive on this CTA's barrier ``mbar``, each calling thread once."""
        barriers.mbarrier_arrive(self.address_of(mbar))

    def arrive_as_warp(self, mbar: Int32 | int) -> None:
        """Arrive on this CTA's barrier ``mbar``, each calling warp once."""
        barriers.mbarrier_arrive_once(self.address_of(mbar))

    def arrive_at_leader(self, mbar: Int32 | int, *, release: bool = False) -> None:
        """Arrive on a barrier that the MMA role waits on, each calling thread once.

        In a pair, ``release`` hands shared memory over as well; without it only Tensor Memory.
        """
        self.arrive(mbar)

    def commit_mma(self, mbar: Int32 | int) -> None:
        """Arrive on barrier ``mbar`` once all MMAs issued so far have completed."""
        mma.commit(self.address_of(mbar))

    def expect(self, mbar: Int32 | int, num_bytes: int) -> None:
        """Announce ``num_bytes`` of TMA data on barrier ``mbar``."""
        barriers.mbarrier_expect_tx(self.address_of(mbar), num_bytes)

    def add(self, mbar: Int32 | int, num_bytes: int) -> None:
        """Announce ``num_bytes`` of TMA data beside copies whose lanes arrive on ``mbar``."""
        barriers.mbarrier_add_tx(self.address_of(mbar), num_bytes)

    def announce(self, mbar: Int32 | int, num_bytes: int) -> None:
        """Announce ``num_bytes`` of TMA data for each CTA that shares the barrier."""
        self.expect(mbar, num_bytes)


@dataclass(frozen=True)
class HopperBarriers(BarrierBlock):
    """The same on Hopper, where a time limit makes every wait a second check and a branch longer.

    On an H200 kernels for head dims 96 and 128 take 1 % less time without one. ``by_one_lane`` says
    who initialises the barriers.
    """

    by_one_lane: bool

    def init(self, counts: cutlass.Constexpr, lane_idx: Int32) -> None:
        """Initialise all barriers for ``counts`` arrivals: one elected lane, or lane by lane.

        ``mbarrier.init`` has uniform registers on sm_90a: of lanes that initialise a barrier each
        ptxas makes a loop, a turn a lane, of 1,500 cycles (docs/hopper.md). Whichever lane is
        elected, the fence behind is its own, too, and releases what it has initialised to the
        cluster; every use comes after the barrier of the CTA, or of the cluster, that follows.
        """
        if self.by_one_lane:
            with cute.arch.elect_one():
                for mbar, count in enumerate(counts):
                    barriers.mbarrier_init(self.address_of(mbar), Int32(count))
            barriers.fence_mbarrier_init()
        else:
            super().init(counts, lane_idx)

    def wait_at(self, address: Int32, phase: Int32, *, of_cluster: bool = False) -> None:
        """Block until the phase with parity ``phase`` of the barrier at ``address`` has ended."""
        assert not of_cluster
        barriers.mbarrier_wait_untimed(address, phase)


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

    def arrive_at_leader(self, mbar: Int32 | int, *, release: bool = False) -> None:
        """Arrive on the leader's barrier ``mbar``, each calling thread once."""
        pair.mbarrier_arrive_cluster(self.in_leader(mbar), release=release)

    def commit_mma(self, mbar: Int32 | int) -> None:
        """Arrive on barrier ``mbar`` of both CTAs once all MMAs issued so far have completed."""
        pair.commit_both(self.address_of(mbar))

    def announce(self, mbar: Int32 | int, num_bytes: int) -> None:
        """Expect ``num_bytes`` of TMA data from each CTA; only the leader's call has an effect.

        Bytes of the peer may land first, which leaves the count negative but the phase open.
        """
        pair.expect_tx_in_leader(self.address_of(mbar), CTA_GROUP * num_bytes)


@dataclass(frozen=True)
class Barrier:
    """One mbarrier, where a single event is told that no pipeline carries."""

    block: BarrierBlock
    mbar: Int32 | int

    @property
    def address(self) -> Int32:
        """Shared address of the barrier."""
        return self.block.address_of(self.mbar)

    def wait(self, step: Int32 | int, *, of_cluster: bool = False) -> None:
        """Block until the event has happened for the ``step``-th time, counted from 0.

        ``of_cluster`` acquires what the threads of other CTAs released, too.
        """
        self.block.wait_at(self.address, Int32(parity(step)), of_cluster=of_cluster)

    def arrive(self) -> None:
        """Say that the event has happened, to this CTA."""
        self.block.arrive(self.mbar)

    def arrive_as_warp(self) -> None:
        """Say so to this CTA, each calling warp once."""
        self.block.arrive_as_warp(self.mbar)

    def commit_mma(self) -> None:
        """Say so once all MMAs issued so far have completed, in a pair to both CTAs."""
        self.block.commit_mma(self.mbar)

    def arrive_at_leader(self, *, release: bool = False) -> None:
        """Say so to the CTA whose MMA role waits; ``release`` hands over shared memory as well."""
        self.block.arrive_at_leader(self.mbar, release=release)

"""What a pair of CTAs adds to a role's context: the rank, and barriers in the leader.

Both CTAs decode the same work tile and count its key tiles with the rows of the pair; they differ
in their rank, which names their rows of Q, K and O and their columns of V
(``modular-sm100-attention.md`` sections 3.2 and 6.2).
"""

from dataclasses import dataclass, replace

from cutlass import Int32

from .device import barriers, ids, pair
from .pipelines import BarrierBlock
from .plan.depth512_config import CTA_GROUP
from .plan.depth512_spec import AttentionSpec
from .plan.pipeline_plan import BarrierArrive, BarrierWait
from .sequence import Problem
from .work import KernelContext, WorkTile, place_of_work, query_tile, work_at


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
class PairedContext(KernelContext):
    """The context of one CTA of a pair, with its rank."""

    rank: Int32

    def decoded(self) -> "PairedContext":
        """Return the same context with the work tile of the CTA."""
        work = decode_pair_work(self.spec, self.problem, self.rank, self.index)
        return replace(self, work=work)

    def share(self, size: int) -> Int32:
        """Return where this CTA's share begins in what the pair divides, ``size`` for each."""
        return self.rank * size


def decode_pair_work(
    spec: AttentionSpec, problem: Problem, rank: Int32, index: Int32 | None = None
) -> WorkTile:
    """Return the tile of this CTA's pair, or that of number ``index`` in the schedule's order.

    With causal masks the longest tiles come first.
    """
    config = spec.config
    if index is None:
        block, head, batch = ids.block_index()
        num_pairs = ids.grid_size_x() // config.cta_group()
        block = block // config.cta_group()
    else:
        block, head, batch, num_pairs = place_of_work(problem, index)
    tile, split = query_tile(spec, problem, block, num_pairs)
    first = tile * config.PairBM_eff()
    work = work_at(spec, problem, (first, head, batch), split)
    return replace(work, position=first + rank * config.BM_eff())

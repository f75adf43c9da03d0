"""What a pair of CTAs adds: ranks, addresses in the leader, commits to both, cluster barriers.

The leader is rank 0 of the cluster: it issues every MMA, and its mbarriers collect the arrivals and
the TMA bytes of both CTAs. A shared-memory address names a variable in one CTA; ``mapa`` gives the
same variable in another (PTX ISA, "mapa" and "barrier.cluster").
"""

from cutlass import Int32, cute

from ..pointers import shared
from ..ptx import emit

LEADER = 0
PEER = 1
BOTH_CTAS = 0b11


def cluster_rank() -> Int32:
    """Return the rank of the calling CTA in its pair."""
    return cute.arch.block_idx_in_cluster()


def address_in(address: Int32, rank: Int32 | int) -> Int32:
    """Return the cluster address of what lies at this CTA's shared ``address``, in CTA ``rank``."""
    return cute.arch.map_dsmem_ptr(shared(address, Int32), rank).toint()


def leader_address(address: Int32) -> Int32:
    """Return the cluster address of the leader's variable at this CTA's shared ``address``."""
    return address_in(address, LEADER)


def peer_address(address: Int32) -> Int32:
    """Return the cluster address of the peer's variable at this CTA's shared ``address``."""
    return address_in(address, PEER)


def mbarrier_arrive_cluster(address: Int32, *, release: bool) -> None:
    """Arrive once for each calling thread; ``address`` is a barrier of any CTA of the cluster.

    With ``release`` the other CTA also sees what this thread wrote to memory, which costs a memory
    barrier. Tensor Memory needs none: its accesses are ordered by the ``tcgen05`` fences.

    DSL: ``cute.arch.mbarrier_arrive`` takes its scope as a private type (the default is the CTA,
    for remote barriers too) and keeps the count in a register.
    """
    order = "release" if release else "relaxed"
    emit(f"mbarrier.arrive.{order}.cluster.shared::cluster.b64 _, [$0];", (), (address,))


def expect_tx_in_leader(address: Int32, num_bytes: int) -> None:
    """Arrive once on the barrier and announce ``num_bytes`` of TMA data, in the leader only.

    One elected lane of the warp; ``address`` is the barrier in the calling CTA.

    DSL: ``cute.arch.mbarrier_arrive_and_expect_tx`` has no predicate: an election under a branch on
    the rank, where the text joins both conditions.
    """
    emit(
        "{\n\t.reg .pred leader, first;\n\t.reg .b32 rank;\n\t"
        f"mov.u32 rank, %cluster_ctarank;\n\tsetp.eq.u32 first, rank, {LEADER};\n\t"
        "elect.sync _|leader, -1;\n\tand.pred leader, leader, first;\n\t"
        "@leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;\n\t}",
        (),
        (address, num_bytes),
    )


def commit_both(mbarrier: Int32) -> None:
    """Arrive on ``mbarrier`` of both CTAs once all MMAs issued so far have completed.

    DSL: ``tcgen05.commit`` under ``cute.arch.elect_one`` emits the same instruction after an
    election of its own and a branch, with the mask of CTAs in a register.
    """
    emit(
        "{\n\t.reg .pred leader;\n\t.reg .b16 ctas;\n\telect.sync _|leader, -1;\n\t"
        f"mov.b16 ctas, {BOTH_CTAS};\n\t"
        "@leader tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [$0], ctas;\n\t}",
        (),
        (mbarrier,),
    )


def cluster_arrive(*, release: bool = False) -> None:
    """Tell the cluster's barrier that this thread is here. Whole warps only.

    With ``release`` it orders this thread's accesses to memory before what follows in other CTAs,
    which costs a memory barrier of the GPU's scope: 260 cycles on an H200
    (``docs/timing_probes.md``, "Barriers of clusters, fences").
    """
    if release:
        cute.arch.cluster_arrive(aligned=True)
    else:
        cute.arch.cluster_arrive_relaxed(aligned=True)


def cluster_wait() -> None:
    """Wait until all threads of the cluster have arrived."""
    cute.arch.cluster_wait()


"""Cluster launch control: take over the work of a cluster that has not started.

PTX ISA, "clusterlaunchcontrol.try_cancel" and "clusterlaunchcontrol.query_cancel".
"""

from cutlass import Boolean, Int32, cute

from ..pointers import shared

_ANSWER_ALIGNMENT = 16


def ask(answer: Int32, mbarrier: Int32, *, to_cluster: bool) -> None:
    """Ask for a cluster to take over; 16 bytes at shared ``answer`` count on ``mbarrier``.

    With ``to_cluster`` every CTA of the cluster gets them, at the same addresses of its own. One
    elected lane of the warp.
    """
    place = shared(answer, Int32, _ANSWER_ALIGNMENT)
    with cute.arch.elect_one():
        cute.arch.issue_clc_query(shared(mbarrier), place, multicast=to_cluster)


def first_block(answer: Int32) -> tuple[Int32, Boolean]:
    """Return the index along x of the first CTA of the cluster taken over, and whether there is
    one: without it the index means nothing."""
    x, _, _, is_taken = cute.arch.clc_response(shared(answer, Int32, _ANSWER_ALIGNMENT))
    return x, is_taken != 0

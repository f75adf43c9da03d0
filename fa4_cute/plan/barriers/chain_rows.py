"""Rows of the 2Q/1Q kernel's barrier table that threads arrive on, rather than MMAs and TMA."""

from __future__ import annotations

from ..facts.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from .barrier_spec import Arrival, BarrierRow
from .chains import NUM_CHAINS


def consumed_rows(chain: int, num_pv_stages: int, cta_group: int) -> list[BarrierRow]:
    """Rows of "P of ``chain`` stored", one per pv stage, the first with "O rescaled"."""
    threads = WARP_GROUP_THREADS * cta_group
    softmax, rescale = Arrival(f"softmax{chain}", threads), Arrival("correction", threads)
    event = f"P{chain} part 0 stored and O{chain} rescaled"
    first: BarrierRow = (f"S{chain}_cons[0]", event, (softmax, rescale), "mma")
    return [
        first,
        *(
            (f"S{chain}_cons[{stage}]", f"P{chain} part {stage} stored", (softmax,), "mma")
            for stage in range(1, num_pv_stages)
        ),
    ]


def factor_rows(chain: int) -> list[BarrierRow]:
    """Rows of the correction factor of ``chain``."""
    softmax = f"softmax{chain}"
    written, read = ((Arrival(who, WARP_GROUP_THREADS),) for who in (softmax, "correction"))
    return [
        (f"C{chain}_prod", f"factor {chain} written", written, "correction"),
        (f"C{chain}_cons", f"factor {chain} read", read, softmax),
    ]


def read_rows() -> list[BarrierRow]:
    """Rows of "S in registers", one per chain: P of the other chain overwrites it."""
    return [
        (
            f"S{chain}_read",
            f"S{chain} in registers",
            (Arrival(f"softmax{chain}", WARP_GROUP_THREADS),),
            "softmax1, mma (second tile)" if chain == 0 else "softmax0, mma (chain 0 ends early)",
        )
        for chain in range(NUM_CHAINS)
    ]


def stored_rows() -> list[BarrierRow]:
    """Rows of the barriers between two query tiles of a persistent CTA, one per chain."""
    return [
        (
            f"stored[{chain}]",
            f"O{chain} read and stored",
            (Arrival(f"softmax{chain}", WARP_GROUP_THREADS),),
            "correction, load where O is staged over Q (next query tile)",
        )
        for chain in range(NUM_CHAINS)
    ]


def publish_rows(num_partitions: int) -> list[BarrierRow]:
    """Row of the barrier on which the warps of all CTAs of a cluster say that they published."""
    warps = WARPS_PER_GROUP * num_partitions
    arrivals = tuple(Arrival(f"softmax{chain} of every CTA", warps) for chain in range(NUM_CHAINS))
    return [("publish", "partial O and row sums of all CTAs readable", arrivals, "softmax")]

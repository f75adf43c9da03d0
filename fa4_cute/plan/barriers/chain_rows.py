"""Rows of the 2Q/1Q kernel's barrier table that threads arrive on, rather than MMAs and TMA."""

from __future__ import annotations

from typing import Final

from ..facts.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from .barrier_spec import Arrival
from .ring_rows import BarrierRow

_CHAINS: Final = (0, 1)


def consumed_rows(num_parts: int, cta_group: int) -> list[BarrierRow]:
    """Rows of "P_i stored", in ``num_parts`` parts, the first of them with "O_i rescaled"."""
    threads = WARP_GROUP_THREADS * cta_group
    rows: list[BarrierRow] = []
    for w in _CHAINS:
        softmax, rescale = Arrival(f"softmax{w}", threads), Arrival("correction", threads)
        event = f"P{w} part 0 stored and O{w} rescaled"
        rows.append((f"S{w}_cons[0]", event, (softmax, rescale), "mma"))
        rows += [
            (f"S{w}_cons[{part}]", f"P{w} part {part} stored", (softmax,), "mma")
            for part in range(1, num_parts)
        ]
    return rows


def factor_rows() -> list[BarrierRow]:
    """Rows of the correction factors."""
    rows: list[BarrierRow] = []
    for w in _CHAINS:
        softmax = f"softmax{w}"
        written, read = ((Arrival(who, WARP_GROUP_THREADS),) for who in (softmax, "correction"))
        rows.append((f"C{w}_prod", f"factor {w} written", written, "correction"))
        rows.append((f"C{w}_cons", f"factor {w} read", read, softmax))
    return rows


def order_rows(count: int) -> list[BarrierRow]:
    """Rows of the ``count`` barriers that make the softmax groups alternate."""
    return [
        (
            f"order[{w}]",
            f"softmax{1 - w} near its last exp",
            (Arrival(f"softmax{1 - w}", WARP_GROUP_THREADS),),
            f"softmax{w}",
        )
        for w in range(count)
    ]


def stored_rows(count: int) -> list[BarrierRow]:
    """Rows of the ``count`` barriers between two query tiles of a persistent CTA."""
    return [
        (
            f"stored[{w}]",
            f"O{w} read and stored",
            (Arrival(f"softmax{w}", WARP_GROUP_THREADS),),
            "load, correction (next query tile)",
        )
        for w in range(count)
    ]


def publish_rows(num_partitions: int) -> list[BarrierRow]:
    """Row of the barrier on which the warps of all CTAs of a cluster say that they published."""
    if num_partitions == 1:
        return []
    warps = WARPS_PER_GROUP * num_partitions
    arrivals = tuple(Arrival(f"softmax{w} of every CTA", warps) for w in _CHAINS)
    return [("publish", "partial O and row sums of all CTAs readable", arrivals, "softmax")]

"""Clusters of CTAs on a Blackwell GPU: how many run at once, and what passes between their SMs.

A cluster lies in one GPC. GPCs have unequal numbers of SMs, which NVIDIA does not publish and which
differ from chip to chip. Known are answers of ``cudaOccupancyMaxActiveClusters``, with one CTA to
an SM, and an estimate of the GPCs of one B200, from which the same answers follow. All was
published by others, and nothing measured by this project. Where sources differ the range is kept,
and plans count with its worse end.

Source: ``docs/sources.md`` section 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Status(Enum):
    """How far a number is known."""

    PUBLISHED = "published"
    RANGE = "published, with answers that differ"
    INFERRED = "inferred"


@dataclass(frozen=True)
class ActiveClusters:
    """Clusters of a size that run at once.

    Attributes:
        size: CTAs of a cluster.
        fewest, most: that were published, or follow from such.
        status: how far they are known.
        source: who says so.
    """

    size: int
    fewest: int
    most: int
    status: Status
    source: str


GPC_SMS: Final = (20, 20, 20, 18, 18, 18, 18, 10, 2, 2, 2)
"""SMs of the GPCs of a B200, as SemiAnalysis estimates them from distances between SMs (dies of 10,
10, 10, 9 and of 9, 9, 9, 5 + 3 TPCs, the last three alone)."""
EXCHANGE_BYTES_PER_CYCLE: Final = (12, 14)
"""Bytes a cycle that an SM of a B200 gets from others of its cluster: the range that SemiAnalysis
publishes for bulk copies. (An H800 moves 16 in clusters of two, 14 in those of four.)"""

_TABLE: Final = "FlashInfer, cake_nvfp4_per_token/cake_backend.py, CLUSTER_CAPACITY_BY_SM_COUNT"
_PAIRS: Final = f"both SMs of a TPC lie in one GPC; {_TABLE}"
_EIGHT: Final = f"{_TABLE}; ThunderKittens 2.0 (120 of 148 SMs)"
_FOUR: Final = f"{_TABLE}; ThunderKittens 2.0 (132 of 148 SMs); 34 of another chip (Nsight Compute)"
_SEVEN: Final = "GPC_SMS, or as many as of eight; at most as many as SMs suffice for"

ACTIVE_CLUSTERS: Final[Mapping[int, tuple[ActiveClusters, ...]]] = {
    148: (
        ActiveClusters(2, 74, 74, Status.PUBLISHED, _PAIRS),
        ActiveClusters(3, 45, 45, Status.PUBLISHED, _TABLE),
        ActiveClusters(4, 33, 34, Status.RANGE, _FOUR),
        ActiveClusters(5, 26, 26, Status.PUBLISHED, _TABLE),
        ActiveClusters(6, 22, 22, Status.PUBLISHED, _TABLE),
        ActiveClusters(7, sum(sms // 7 for sms in GPC_SMS), 21, Status.INFERRED, _SEVEN),
        ActiveClusters(8, 15, 15, Status.PUBLISHED, _EIGHT),
    ),
    152: (
        ActiveClusters(2, 76, 76, Status.PUBLISHED, _PAIRS),
        ActiveClusters(3, 46, 46, Status.PUBLISHED, _TABLE),
        ActiveClusters(4, 36, 36, Status.PUBLISHED, _TABLE),
        ActiveClusters(5, 28, 28, Status.PUBLISHED, _TABLE),
        ActiveClusters(6, 23, 23, Status.PUBLISHED, _TABLE),
        ActiveClusters(7, 15, 21, Status.INFERRED, _SEVEN),
        ActiveClusters(8, 15, 15, Status.PUBLISHED, _TABLE),
    ),
}
"""By SMs of the device: a B200 has 148, a GB200 or GB300 152."""


def clusters_at_once(num_sms: int, size: int) -> int:
    """Return how many clusters of ``size`` CTAs run at once, at least; 0 where nothing is known.

    Of a device with another number of SMs only pairs are known: a TPC has two SMs.
    """
    if size <= 2:
        return num_sms // size
    known = ACTIVE_CLUSTERS.get(num_sms, ())
    return next((row.fewest for row in known if row.size == size), 0)

"""Clusters of CTAs on a Blackwell GPU: how many run at once, and what passes between their SMs.

A cluster lies in one GPC. GPCs have unequal numbers of SMs, which NVIDIA does not publish and which
differ from chip to chip. Known are answers of ``cudaOccupancyMaxActiveClusters``, with one CTA to
an SM, and an estimate of the GPCs of one B200, from which the same answers follow. All was
published by others, and nothing measured by this project. Where sources differ plans count with
the worse end of the range.

Source: ``docs/sources.md`` section 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GPC_SMS: Final = (20, 20, 20, 18, 18, 18, 18, 10, 2, 2, 2)
"""SMs of the GPCs of a B200, as SemiAnalysis estimates them from distances between SMs (dies of 10,
10, 10, 9 and of 9, 9, 9, 5 + 3 TPCs, the last three alone)."""
EXCHANGE_BYTES_PER_CYCLE: Final = (12, 14)
"""Bytes a cycle that an SM of a B200 gets from others of its cluster: the range that SemiAnalysis
publishes for bulk copies. (An H800 moves 16 in clusters of two, 14 in those of four.)"""

_SEVENS: Final = sum(sms // 7 for sms in GPC_SMS)

FEWEST_CLUSTERS: Final[Mapping[int, Mapping[int, int]]] = {
    148: {2: 74, 3: 45, 4: 33, 5: 26, 6: 22, 7: _SEVENS, 8: 15},
    152: {2: 76, 3: 46, 4: 36, 5: 28, 6: 23, 7: 15, 8: 15},
}
"""By SMs of the device (a B200 has 148, a GB200 or GB300 152) and CTAs of a cluster: the fewest
that were published. Of seven none were: as many as follow from ``GPC_SMS``, or as of eight."""


def clusters_at_once(num_sms: int, size: int) -> int:
    """Return how many clusters of ``size`` CTAs run at once, at least; 0 where nothing is known.

    Of a device with another number of SMs only pairs are known: a TPC has two SMs.
    """
    if size <= 2:
        return num_sms // size
    return FEWEST_CLUSTERS.get(num_sms, {}).get(size, 0)

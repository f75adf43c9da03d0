"""The named barriers of the kernels: ``bar.sync`` by number, as data.

Barrier 0 is the one of all threads (PTX ISA, "bar{.cta}, barrier{.cta}"); a CTA has 16. Two uses
share a number only where no kernel has both: one table per kind of kernel says which it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..facts.hardware import WARP_GROUP_THREADS, WARP_THREADS
from .chains import NUM_CHAINS
from .sm90_mbars import TRANSPOSING_WARPS

NUM_NAMED_BARRIERS: Final = 16
MAX_CONSUMERS: Final = 3
"""Most warp groups that multiply, in the Hopper kernel."""


@dataclass(frozen=True)
class NamedBarrier:
    """One named barrier, or ``count`` of them in a row for as many groups of threads.

    Attributes:
        number: its number, or that of the first.
        name: what the tables call it.
        event: what has happened when it opens.
        threads: threads that meet at each.
        count: how many there are.
    """

    number: int
    name: str
    event: str
    threads: int
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse numbers that a CTA does not have; 0 is the barrier of all threads."""
        if not 0 < self.number <= NUM_NAMED_BARRIERS - self.count:
            raise ValueError(f"number={self.number}: named barriers are 1 to 15")

    @property
    def numbers(self) -> range:
        """The numbers that are taken."""
        return range(self.number, self.number + self.count)


STORE: Final = NamedBarrier(
    1, "store", "the rows of a softmax group are staged for TMA", WARP_GROUP_THREADS, NUM_CHAINS
)
PACK: Final = NamedBarrier(
    1, "pack", "the band of a CTA is staged for TMA", NUM_CHAINS * WARP_GROUP_THREADS
)
DEALLOC: Final = NamedBarrier(
    3, "dealloc", "the softmax groups have read Tensor Memory", NUM_CHAINS * WARP_GROUP_THREADS
)
DEALLOC_ALONE: Final = NamedBarrier(
    DEALLOC.number, DEALLOC.name, "the correction group has read O", WARP_GROUP_THREADS
)
"""Where it is the correction role that writes O."""
JOIN: Final = NamedBarrier(
    4, "join", "both groups have deposited their row values", NUM_CHAINS * WARP_GROUP_THREADS
)
WRITTEN: Final = NamedBarrier(
    5, "written", "partial results are written, or counted", NUM_CHAINS * WARP_GROUP_THREADS
)
COPIES: Final = NamedBarrier(
    6, "copies", "copies of the rows have left what they have", WARP_GROUP_THREADS, NUM_CHAINS
)
COPIES_OF_PAIR: Final = NamedBarrier(
    COPIES.number, COPIES.name, COPIES.event, WARP_GROUP_THREADS
)
"""The one softmax group of each CTA of a pair."""
EXCHANGE: Final = NamedBarrier(
    1, "exchange", "the two warps that hold the same 32 rows have met", 2 * WARP_THREADS, 2
)
OUTPUT: Final = NamedBarrier(
    3, "output", "an O block of the CTA is staged for TMA", WARP_GROUP_THREADS
)

PARTS: Final = NamedBarrier(
    3, "parts", "partial results of the CTA are written, or counted", WARP_GROUP_THREADS
)

CONSUMER: Final = NamedBarrier(
    1, "consumer", "the warps of a consumer have met", WARP_GROUP_THREADS, MAX_CONSUMERS
)

CLEAN: Final = NamedBarrier(
    4, "clean", "rows of V without a key are zeros", MAX_CONSUMERS * WARP_GROUP_THREADS
)
CLEAN_RAW: Final = NamedBarrier(
    4, "clean raw", "rows of V without a key are zeros", TRANSPOSING_WARPS * WARP_THREADS
)
TURN: Final = NamedBarrier(
    5, "turn", "the consumer before has started its products", 2 * WARP_GROUP_THREADS, MAX_CONSUMERS
)

NAMED_BARRIERS: Final = MappingProxyType(
    {
        "2q": (STORE, DEALLOC),
        "2q, runs on": (DEALLOC_ALONE,),
        "1q": (STORE, DEALLOC, JOIN),
        "last": (DEALLOC, JOIN, WRITTEN),
        "cluster": (PACK, DEALLOC, JOIN),
        "few": (DEALLOC, JOIN, COPIES),
        "few last": (DEALLOC, JOIN, WRITTEN, COPIES),
        "few cluster": (PACK, DEALLOC, JOIN, COPIES),
        "pair_cta": (STORE,),
        "depth512": (EXCHANGE, OUTPUT),
        "depth512 stream-K": (EXCHANGE, PARTS),
        "few depth512": (COPIES_OF_PAIR,),
        "few depth512 stream-K": (COPIES_OF_PAIR, PARTS),
        "sm90": (CONSUMER, CLEAN, TURN),
        "sm90 fp8": (CONSUMER, CLEAN_RAW, TURN),
    }
)
"""Which named barriers each kind of kernel may use. A pair frees Tensor Memory together, by a
barrier of its cluster."""


def render_named_barriers(kind: str) -> str:
    """Return the table of one kind of kernel as text, one barrier a line."""
    lines = [f"{'#':>4} {'name':<9} {'threads':>7}  event"]
    for barrier in NAMED_BARRIERS[kind]:
        number = "-".join(str(n) for n in sorted({barrier.numbers[0], barrier.numbers[-1]}))
        lines.append(f"{number:>4} {barrier.name:<9} {barrier.threads:>7}  {barrier.event}")
    return "\n".join(lines)

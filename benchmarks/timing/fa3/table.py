"""The 24 published times, and what a few small launches say of each.

Published: FlashGPU-Sim/FlashGPU-Sim, its page on a frontend of SASS at 580352d1: FlashAttention-3's
forward pass, fp16, on an H100 at 1,500 MHz, nothing cached, by Nsight Compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Final

CLOCK_MHZ: Final = 1500
SMS: Final = 132
RUN: Final = (512, 1024, 2048)
"""Lengths of the launches that are executed, of one head and of two; longer ones follow."""
PUBLISHED: Final = {
    (64, 512): (336.45, 465.92, 244.06, 268.26),
    (32, 1024): (515.30, 804.06, 305.12, 457.60),
    (16, 2048): (734.40, 1240.0, 470.14, 842.72),
    (8, 4096): (1300.0, 2350.0, 841.18, 1610.0),
    (4, 8192): (2330.0, 4380.0, 1590.0, 3110.0),
    (16, 512): (93.09, 124.93, 66.98, 75.84),
}
"""Microseconds by (batch, length): d64 with 32 heads causal and all keys, d128 with 16 heads."""
THEIRS: Final = {
    (64, 512): (-5.88, -4.42, 3.24, 2.63),
    (32, 1024): (-6.39, -3.70, 3.06, 5.19),
    (16, 2048): (-7.72, -2.25, 6.23, 6.99),
    (8, 4096): (-6.70, -1.35, 6.61, 8.57),
    (4, 8192): (-6.21, -1.20, 8.14, 8.58),
    (16, 512): (-12.14, -4.78, -2.56, 2.10),
}
"""FlashGPU-Sim's own errors in percent."""
KERNELS: Final = ((64, True), (64, False), (128, True), (128, False))
"""Head dim and mask of the four columns."""
Key = tuple[int, bool, int, int]
"""Head dim, mask, length and heads of an executed launch."""


@dataclass(frozen=True)
class Case:
    """A published time.

    Attributes:
        dim: of a head. causal: whether a mask is there. batch, heads, length: of the problem.
        published: microseconds. theirs: the other simulator's error, in percent.
    """

    dim: int
    causal: bool
    batch: int
    heads: int
    length: int
    published: float
    theirs: float

    @property
    def pair(self) -> int:
        """CTAs of a cluster."""
        return 2 if self.dim == 128 and not self.causal else 1

    @property
    def block(self) -> tuple[int, int]:
        """Queries and keys of a tile, by the kernel's `tile_size.h`."""
        if self.dim == 64:
            return 192, 128 if self.causal else 192
        return 128, 128 if self.causal else 176

    def tiles(self) -> int:
        """Query tiles of a head; a cluster takes as many as it has CTAs."""
        return self.pair * ceil(ceil(self.length / self.block[0]) / self.pair)

    def blocks(self) -> int:
        """Blocks of keys that a head's tiles go through."""
        rows, keys = self.block
        ends = (min((tile + 1) * rows, self.length) for tile in range(self.tiles()))
        return sum(ceil((end if self.causal else self.length) / keys) for end in ends)


CASES: Final = tuple(
    Case(dim, causal, batch, 2048 // dim, length, times[k], THEIRS[batch, length][k])
    for (batch, length), times in PUBLISHED.items()
    for k, (dim, causal) in enumerate(KERNELS)
)
EXECUTED: Final = tuple(product((64, 128), (True, False), RUN, (1, 2)))


def cycles(case: Case, ran: Mapping[Key, float]) -> float:
    """What a case takes, from what launches of one CTA or one pair take.

    The second head of a launch costs what each further one does; what is left of the first is the
    launch, the CTA's start and its end. Lengths that were not executed follow from the two longest
    that were: a tile and a block of keys cost the same in them. Without a mask the CTAs take tiles
    in turn, so the one with most decides; with one each takes the next that is free, the longest
    first, so all end at about the same time.

    Args:
        case: the published one.
        ran: cycles by launch, of all in ``RUN``.
    """

    def head(length: int) -> float:
        one, two = (ran[case.dim, case.causal, length, heads] for heads in (1, 2))
        return two - one

    def like(length: int) -> Case:
        return Case(case.dim, case.causal, 1, 1, length, 0, 0)

    if case.length in RUN:
        of_head = head(case.length)
    else:
        short, long = RUN[-2:]
        a, b = like(short), like(long)
        # head = tiles * tile + blocks * block, at both lengths
        under = a.tiles() * b.blocks() - b.tiles() * a.blocks()
        tile = (head(short) * b.blocks() - head(long) * a.blocks()) / under
        block = (a.tiles() * head(long) - b.tiles() * head(short)) / under
        of_head = case.tiles() * tile + case.blocks() * block
    nearest = min(case.length, RUN[-1])
    start = ran[case.dim, case.causal, nearest, 1] - head(nearest)
    heads = case.batch * case.heads
    if case.causal:
        return start + of_head * heads / SMS
    rounds = ceil(heads * case.tiles() / case.pair / (SMS // case.pair))
    return start + rounds * of_head * case.pair / case.tiles()


def microseconds(case: Case, ran: Mapping[Key, float]) -> float:
    """The same at the clock of the published times."""
    return cycles(case, ran) / CLOCK_MHZ

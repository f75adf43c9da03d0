"""Operands of a GEMM from a common start: how long SMs that go from tile to tile stay in step.

CTAs of a launch begin within 180 cycles of one another (`starts`). Here they meet before each
round, and a round has two tiles or more, in the order of kernels that are slow on the chip.
"""

from __future__ import annotations

from benchmarks.timing.questions import SMS
from benchmarks.timing.sharing.operands import Sharing, ordered

ORDERS = (((128, 64), 8, True), ((64, 128), 8, False), ((64, 128), 8, True), ((128, 128), 8, True),
          ((128, 128), 8, False))  # fmt: skip
"""Tile, how many blocks come first, and whether these are of A."""
LENGTHS = (2, 4, 8, 14)


def questions() -> tuple[Sharing, ...]:
    """Tiles one after the other, as fast as data come and asked for as products would."""
    found = []
    for rows, group, along_a in ORDERS:
        table = ordered(rows, group, along_a=along_a)
        for length in LENGTHS:
            if length > len(table[0]):
                continue
            some = tuple(tiles[:length] for tiles in table)
            which = "A" if along_a else "B"
            what = f"{length} tiles of 4096 cubed, {group} blocks of {which} first"
            for pace in (0, 4 * max(rows[0] // 64, 1) * rows[1] // 2):
                found.append(Sharing(what, rows, some, pace=pace, late=(0,) * SMS))
                found.append(Sharing(what, rows, some, pace=pace))
    return tuple(found)

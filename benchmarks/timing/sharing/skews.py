"""Boxes of few rows; operands that some SMs copy later than others, or share as far as they lie;
and tile after tile from a common start.

SMs that read the same rows at about the same time are served once. These questions say how late
one may be, and at which of its neighbours' requests: of the pair of SMs of a TPC, of a GPC, of all.
"""

from __future__ import annotations

from typing import Final

from benchmarks.timing.questions import SMS
from benchmarks.timing.sharing.operands import Sharing, Table, by_groups, in_a_row, ordered

WIDE: Final = (128, 128)
LATE: Final = (0, 50, 100, 150, 200, 300, 400, 600, 900, 1300, 2000, 4000)
"""Cycles."""
PACES: Final = (0, 448)
FEW: Final = (
    *(((256, rows), 3) for rows in (8, 16, 32, 48, 64)),
    *(((rows, rows), 8) for rows in (8, 16, 32)), ((48, 48), 4), ((64, 64), 3),
    *(((many, few), 4) for many in (64, 128) for few in (8, 16, 32, 48)),
)  # fmt: skip
"""Rows of A and B, and boxes of each in a step."""
ORDERS: Final = (
    ((128, 64), 8, True), ((64, 128), 8, False), ((64, 128), 8, True), ((128, 128), 8, True),
    ((128, 128), 8, False),
)  # fmt: skip
"""Tile, how many blocks come first, and whether these are of A."""
LENGTHS: Final = (2, 4, 8, 14)
Groups = list[list[int]]


def levels(gpcs: Groups) -> dict[str, Groups]:
    """SMs by who may share with them."""
    return {
        "own": [[sm] for gpc in gpcs for sm in gpc],
        "TPC": [gpc[k : k + 2] for gpc in gpcs for k in range(0, len(gpc), 2)],
        "GPC": gpcs,
        "all": [[sm for gpc in gpcs for sm in gpc]],
    }


def crossing(of_a: Groups, of_b: Groups) -> Table:
    """SMs of a group of the first kind copy the same rows of A, of the second the same of B."""
    first, second = by_groups(of_a), by_groups(of_b)
    return tuple(((a[0][0], b[0][1]),) for a, b in zip(first, second, strict=True))


def second_half(groups: Groups, cycles: int) -> tuple[int, ...]:
    """The SMs in the second half of each group begin so many cycles later."""
    late = [0] * SMS
    for group in groups:
        for sm in group[len(group) // 2 :]:
            late[sm] = cycles
    return tuple(late)


def far(gpcs: Groups) -> Groups:
    """Pairs of SMs of a GPC that are of two TPCs."""
    pairs = []
    for gpc in gpcs:
        half = len(gpc) // 2
        if half % 2 or half < 2:
            pairs += [gpc[k : k + 2] for k in range(0, len(gpc), 2)]
        else:
            pairs += [[gpc[k], gpc[k + half]] for k in range(half)]
    return pairs


def few_rows() -> tuple[Sharing, ...]:
    """Of an SM that is alone."""
    alone = (((0, 0),),)
    return tuple(
        Sharing("alone", rows, alone, wide=wide, pairs=pairs if wide == 32 else 2)
        for wide in (32, 64, 128)
        for rows, pairs in FEW
        if wide < 128 or sum(rows) < 200
    )


def questions(gpcs: Groups) -> tuple[Sharing, ...]:
    """All that is asked of a chip whose SMs lie in these groups (GPCs)."""
    at = levels(gpcs)
    late = {"TPC": at["TPC"], "two TPCs": far(gpcs), "GPC": gpcs, "all": at["all"]}
    return (
        *few_rows(),
        *(Sharing(f"{name} the same", WIDE, by_groups(groups), by_sm=True, pace=pace,
                  late=second_half(groups, cycles))
          for name, groups in late.items() for pace in PACES for cycles in LATE),
        *(Sharing(f"A of {a}, B of {b}", WIDE, crossing(at[a], at[b]), by_sm=True, pace=pace)
          for pace in (0, 448, 512, 640, 768) for a in at for b in at),
        *(Sharing("8 in a row the same A", WIDE, in_a_row(8), slots=2, pace=pace)
          for pace in PACES),
        *(Sharing(f"{n} in a row the same A", rows, in_a_row(n), late=(0,) * SMS, pace=pace)
          for rows, paces in ((WIDE, (0, 400, 448, 512)), ((128, 64), (0, 256, 288, 320)))
          for n in (4, 8, 16, 64) for pace in paces),
    )  # fmt: skip


def tiles() -> tuple[Sharing, ...]:
    """Operands of a GEMM, tile after tile, as fast as data come and asked for as products would.

    CTAs of a launch begin within 180 cycles of one another (`starts`). Here they meet before each
    round, or not, and a round has two tiles or more, in the order of kernels that are slow on the
    chip: how long do SMs that go from tile to tile stay in step?
    """
    found = []
    for rows, group, along_a in ORDERS:
        table = ordered(rows, group, along_a=along_a)
        for length in LENGTHS:
            if length > len(table[0]):
                continue
            some = tuple(own[:length] for own in table)
            which = "A" if along_a else "B"
            what = f"{length} tiles of 4096 cubed, {group} blocks of {which} first"
            for pace in (0, 4 * max(rows[0] // 64, 1) * rows[1] // 2):
                found.append(Sharing(what, rows, some, pace=pace, late=(0,) * SMS))
                found.append(Sharing(what, rows, some, pace=pace))
    return tuple(found)

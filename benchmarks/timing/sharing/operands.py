"""Operands of a GEMM by boxes, where a table says which rows each CTA or SM copies.

What an SM gets depends on who else copies its rows, on where those SMs are, on how fast each asks,
and on products that read shared memory meanwhile. Where CTAs stay with their rows, these are in the
L2 after the first round; others go through the tiles of a product of 4096 cubed, in some order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.timing.more_questions import FLAG
from benchmarks.timing.questions import DATA, ROUNDS, ROW_BYTES, SMS, set_up
from benchmarks.timing.sharing.meeting import meeting
from testing.hardware.case import SENTINEL, Case, MapArgs, filled
from testing.hardware.micro.shared import BASE, SMEM
from testing.hardware.micro.wgmma.programs import Form

SLOTS: Final = 4
STEPS: Final = (60, 188)
"""Steps of the two lengths; with those that fill the ring, rounds end where they began."""
TILE_STEPS: Final = 64
"""Steps of a tile of a product."""
STEP_COLUMNS: Final = 64
"""Of a box: 128 bytes of two each."""
WORDS: Final = ROUNDS + 1
"""The SM, and the cycles of each round."""
SHARED: Final = 200 * 1024
"""So much that an SM holds one CTA."""
OPERANDS_SIZE: Final = 65536
WARM_BYTES: Final = 16 << 20
"""What all CTAs copy is at most as much, so that it stays in the L2."""
COLUMNS: Final = 4096
SWIZZLES: Final = {32: 1, 64: 2, 128: 3}
"""Bytes of a row of a box -> the swizzle that its tensor map names."""


@dataclass(frozen=True)
class Sharing:
    """Boxes of A and B in each of some CTAs, step after step.

    Attributes:
        pattern: says what `table` holds. rows: of A and B in a step.
        table: for each CTA, or each SM if `by_sm`, which block of A and of B it copies, tile after
            tile.
        shift: steps that a CTA begins later in its rows than the one before.
        pace: cycles between steps where data come fast enough, as if products followed.
        groups, columns: warp groups that issue wgmmas of so many columns meanwhile.
        slots: of the ring; with one, a step takes the time of a copy.
        wide: bytes of a row of a box: 32, 64 or 128.
        pairs: boxes of A, and of B, that a step copies one after the other.
        late: cycles after a common start at which each CTA or SM begins a round; () for no start.
    """

    pattern: str
    rows: tuple[int, int]
    table: tuple[tuple[tuple[int, int], ...], ...]
    by_sm: bool = False
    shift: int = 0
    pace: int = 0
    groups: int = 0
    columns: int = 0
    slots: int = SLOTS
    wide: int = ROW_BYTES
    pairs: int = 1
    late: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Unique."""
        text = f"{self.rows[0]} and {self.rows[1]} rows, {len(self.table)} CTAs, {self.pattern}"
        text += f", each {self.shift} steps later" if self.shift else ""
        text += f", asked for every {self.pace} cycles" if self.pace else ""
        text += f" of {self.wide} bytes" if self.wide != ROW_BYTES else ""
        text += f", {self.slots} slots" if self.slots != SLOTS else ""
        text += f", {self.pairs} of each" if self.pairs > 1 else ""
        text += f", some {max(self.late)} cycles later" if self.late else ""
        beside = f", beside n{self.columns} of {self.groups} warp groups"
        return text + (beside if self.groups else "")

    @property
    def distinct(self) -> tuple[int, int]:
        """Blocks of A and of B."""
        blocks = [block for tiles in self.table for block in tiles]
        return max(a for a, _ in blocks) + 1, max(b for _, b in blocks) + 1

    @property
    def tiles(self) -> int:
        """That a CTA goes through."""
        return len(self.table[0])

    @property
    def steps(self) -> tuple[int, int]:
        """Of the two lengths."""
        if self.tiles == 1:
            return STEPS
        return self.tiles // 2 * TILE_STEPS - self.slots, self.tiles * TILE_STEPS - self.slots

    @property
    def size(self) -> int:
        """Bytes of a step."""
        return sum(self.rows) * self.wide * self.pairs

    def case(self, steps: int) -> Case:
        """The micro-kernel; its output is SM and cycles by round, by CTA."""
        tall = sum(n * rows for n, rows in zip(self.distinct, self.rows, strict=True))
        columns = COLUMNS
        while self.tiles == 1 and 2 * tall * columns > WARM_BYTES:
            columns //= 2
        first_b = self.distinct[0] * self.rows[0]
        later = self.shift * STEP_COLUMNS
        words = [
            (a * self.rows[0], first_b + b * self.rows[1], k * later % columns, late)
            for k, (tiles, late) in enumerate(
                zip(self.table, self.late or (0,) * len(self.table), strict=True)
            )
            for a, b in tiles
        ]
        table = np.array(words, np.uint32).ravel()
        boxes = tuple(
            MapArgs(
                1,
                "FLOAT16",
                (columns, tall),
                (2 * columns,),
                (self.wide // 2, rows),
                swizzle=SWIZZLES[self.wide],
            )
            for rows in self.rows
        )
        grid = len(self.table)
        return Case(
            name=f"{self.name} x {steps}", family="timing", body=self._body(columns),
            inputs=(table, filled(tall * columns * 2)),
            outputs=(filled(grid * WORDS + bool(self.late), np.uint32),),
            numbers=(steps, int(self.by_sm), self.pace), maps=boxes, grid=grid,
            block=128 * self.groups + 32, smem=SHARED, shared=SMEM,
        )  # fmt: skip

    def _slot(self, number: int, columns: int) -> str:
        at = OPERANDS_SIZE * bool(self.groups) + DATA + number * self.size
        load = (
            "@!%q3 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%r1+{to}], [%m{k}, {{%r35, %r{row}}}], [%r1+{bar}]; "
        )
        text = f"@!%q3 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1+{8 * number}], {self.size}; "
        for _ in range(self.pairs):
            for k, row in enumerate((40, 41)):
                text += load.format(to=at, k=k, row=row, bar=8 * number)
                at += self.rows[k] * self.wide
        return text + f"add.u32 %r35, %r35, {self.wide // 2}; and.b32 %r35, %r35, {columns - 1}; "

    def _wait(self, number: int, side: str) -> str:
        return (
            f"{side}{number}: mbarrier.try_wait.parity.shared.b64 %q6, [%r1+{8 * number}], %r32;"
            f"@!%q6 bra {side}{number}; "
        )

    def _paced(self, number: int) -> str:
        """The nth step is asked for `pace` cycles after the one before, or as soon as it can be."""
        return (
            "add.u32 %r38, %r38, %n2; "
            f"P{number}: mov.u32 %r36, %clock; sub.u32 %r37, %r36, %r38; setp.lt.s32 %q7, %r37, 0;"
            f"@%q7 bra P{number}; "
        )

    def _body(self, columns: int) -> str:
        first = 128 * self.groups
        set_bars = "".join(
            f"mbarrier.init.shared.b64 [%r1+{8 * k}], 1;\n" for k in range(self.slots)
        )
        turn = "".join(
            self._wait(k, "W") + (self._paced(k) if self.pace else "") + self._slot(k, columns)
            for k in range(self.slots)
        )
        begin, work = self._products()
        return (
            BASE + "mov.u32 %r62, %ctaid.x; mov.u32 %r61, %smid; mov.u32 %r60, 0; mov.u32 %r32, 0;"
            f"st.volatile.shared.b32 [%r1+{FLAG}], 0; {begin}"
            "setp.ne.u32 %q5, %n1, 0; selp.b32 %r10, %r61, %r62, %q5;"
            f"mul.wide.u32 %rd1, %r10, {16 * self.tiles}; add.s64 %rd1, %rd1, %p0;"
            f"mul.wide.u32 %rd62, %r62, {4 * WORDS}; add.s64 %rd62, %rd62, %p2;"
            f"setp.ne.u32 %q3, %r0, {first}; @%q3 bra SET; {set_bars} st.global.b32 [%rd62], %r61;"
            "fence.mbarrier_init.release.cluster; fence.proxy.async; SET: bar.sync 0; "
            f"setp.lt.u32 %q8, %r0, {first}; @%q8 bra PRODUCTS; "
            "ROUND: bar.warp.sync -1; ld.global.v4.b32 {%r40, %r41, %r42, %r43}, [%rd1];"
            f"{self._common_start()} mov.u32 %r50, %clock; mov.u32 %r38, %r50; mov.u32 %r35, %r42;"
            "mov.u32 %r46, 0; mov.u32 %r31, %n0; "
            + self._next_tile()
            + "".join(self._slot(k, columns) for k in range(self.slots))
            + f"TURN: setp.eq.u32 %q10, %r35, %r42; @%q10 mov.u32 %r40, %r44; "
            f"@%q10 mov.u32 %r41, %r45; @!%q10 bra SAME; {self._next_tile()} SAME: "
            f"{turn} xor.b32 %r32, %r32, 1; sub.u32 %r31, %r31, {self.slots};"
            "setp.ne.u32 %q9, %r31, 0; @%q9 bra TURN; "
            + "".join(self._wait(k, "E") for k in range(self.slots))
            + "xor.b32 %r32, %r32, 1; mov.u32 %r51, %clock; sub.u32 %r52, %r51, %r50;"
            "@!%q3 st.global.b32 [%rd62+4], %r52; add.s64 %rd62, %rd62, 4; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND;"
            f"st.volatile.shared.b32 [%r1+{FLAG}], 1; bra READY; PRODUCTS: {work} READY: "
        )

    def _common_start(self) -> str:
        """All CTAs meet at the counter behind the output, which begins with its sentinels."""
        if not self.late:
            return ""
        grid = len(self.table)
        return f"mov.u32 %r47, %r43; add.u64 %rd3, %p2, {4 * grid * WORDS};" + meeting(
            grid, "%r47", SENTINEL * 0x01010101
        )

    def _next_tile(self) -> str:
        """%r44, %r45: rows of the next tile; after the last comes the first."""
        return (
            f"add.u32 %r46, %r46, 1; setp.eq.u32 %q11, %r46, {self.tiles};"
            "selp.b32 %r46, 0, %r46, %q11; mul.wide.u32 %rd2, %r46, 16; add.s64 %rd2, %rd2, %rd1;"
            "ld.global.v2.b32 {%r44, %r45}, [%rd2]; "
        )

    def _products(self) -> tuple[str, str]:
        """What sets products up, and products until the copies have ended."""
        if not self.groups:
            return "", ""
        form = Form("f32", "bf16", "bf16", self.columns)
        zero = " ".join(f"mov.b32 %d{k}, 0;" for k in range(form.results))
        used = " ".join(f"st.volatile.shared.b32 [%r1+512], %d{k};" for k in range(form.results))
        return set_up(form, zero), (
            "wgmma.fence.sync.aligned; " + form.instruction() * 16
            + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; "
            # All warps of a group end together: a wgmma is of four.
            f"ld.volatile.shared.b32 %r53, [%r1+{FLAG}]; setp.eq.u32 %q8, %r53, 0;"
            "shr.u32 %r54, %r0, 7; add.u32 %r54, %r54, 1;"
            "barrier.cta.red.or.pred.aligned %q8, %r54, 128, %q8; "
            f"@%q8 bra PRODUCTS; wgmma.wait_group.sync.aligned 0; {used}"
        )  # fmt: skip


def bytes_per_cycle(short: np.ndarray, long: np.ndarray, asked: Sharing) -> np.ndarray:
    """What each CTA gets, in CTAs' order, from the outputs of the two lengths."""
    words = len(asked.table) * WORDS
    cycles = [np.median(x[:words].reshape(-1, WORDS)[:, 2:], axis=1) for x in (short, long)]
    return np.asarray(asked.size * (asked.steps[1] - asked.steps[0]) / (cycles[1] - cycles[0]))


Table = tuple[tuple[tuple[int, int], ...], ...]


def in_a_row(across: int, ctas: int = SMS) -> Table:
    """So many CTAs in a row copy the same rows of A, and every so many-th the same rows of B."""
    return tuple(((k // across, k % across),) for k in range(ctas))


def by_groups(groups: list[list[int]], sms: int = SMS) -> Table:
    """SMs of a group copy the same rows of A and B."""
    table = [(0, 0)] * sms
    for k, group in enumerate(groups):
        for sm in group:
            table[sm] = (k, k)
    return tuple((block,) for block in table)


def crossed(groups: list[list[int]], sms: int = SMS) -> Table:
    """SMs of a group copy the same rows of A, those of one place in their groups the same of B."""
    table = [(0, 0)] * sms
    for k, group in enumerate(groups):
        for place, sm in enumerate(group):
            table[sm] = (k, place)
    return tuple((block,) for block in table)


def ordered(rows: tuple[int, int], group: int, *, along_a: bool, ctas: int = SMS) -> Table:
    """The tiles of a product of 4096 cubed by persistent CTAs, each so many tiles on.

    Tiles of `group` blocks of A (or of B) come first, then those of the next block of B (of A).
    """
    fast, slow = (COLUMNS // rows[0], COLUMNS // rows[1])[:: 1 if along_a else -1]
    found = []
    for tile in range(fast * slow // ctas * ctas):
        which, inside = divmod(tile, group * slow)
        place = (which * group + inside % group, inside // group)
        found.append(place if along_a else place[::-1])
    return tuple(tuple(found[k::ctas]) for k in range(ctas))


TILES: Final = ((128, 64), (64, 128), (128, 128))
ACROSS: Final = (1, 2, 4, 8, 16, 32, 64, SMS)


def questions(gpcs: list[list[int]]) -> tuple[Sharing, ...]:
    """All that is asked of a chip whose SMs lie in these groups (GPCs)."""
    alone, eight = (((0, 0),),), in_a_row(8)
    pairs = [gpc[k : k + 2] for gpc in gpcs for k in range(0, len(gpc), 2)]
    places = [
        [gpc[k] for gpc in gpcs if k < len(gpc)] for k in range(max(len(gpc) for gpc in gpcs))
    ]
    halves = [gpc[k::2] for gpc in gpcs for k in range(2)]
    wide = (128, 128)
    where = {
        "every SM its own": [[sm] for gpc in gpcs for sm in gpc],
        "neighbours the same": pairs,
        "one SM of each GPC the same": places,
        "half a GPC the same": halves,
        "a GPC the same": gpcs,
        "all the same": [[sm for gpc in gpcs for sm in gpc]],
    }
    return (
        *(Sharing("alone", tile, alone) for tile in TILES),
        *(Sharing(f"{n} in a row the same A", tile, in_a_row(n)) for tile in TILES for n in ACROSS),
        *(Sharing(name, wide, by_groups(groups), by_sm=True) for name, groups in where.items()),
        Sharing("a GPC the same A, a place in all the same B", wide, crossed(gpcs), by_sm=True),
        Sharing("a place in all GPCs the same A, pairs of them B", wide, crossed(places), True),
        *(Sharing("8 in a row the same A", tile, eight, shift=shift)
          for tile in TILES for shift in (1, 5)),
        *(Sharing(name, wide, by_groups(where[name]), by_sm=True, shift=5)
          for name in ("neighbours the same", "a GPC the same", "all the same")),
        *(Sharing(f"{n} in a row the same A", tile, in_a_row(n), pace=pace) for n in (8, 64)
          for tile, paces in (((128, 64), (320, 384, 448, 512)), (wide, (448, 512, 576, 640)))
          for pace in paces),
        *(Sharing(f"tiles of 4096 cubed, {group} blocks of {'A' if a else 'B'} first", tile,
                  ordered(tile, group, along_a=a), groups=beside[0], columns=beside[1])
          for tile, beside in (((128, 64), (2, 64)), ((64, 128), (1, 128)), (wide, (2, 128)))
          for group in (8, 4096 // max(tile)) for a in (True, False)
          for beside in ((0, 0), beside)),
        *(Sharing(name, tile, table, slots=slots) for slots in (1, 2) for tile in (*TILES, (64, 64))
          for name, table in (("alone", alone), *((f"{n} in a row the same A", in_a_row(n))
                                                  for n in (1, 8, 64)))),
        *(Sharing("every SM its own", tile, by_groups(where["every SM its own"]), slots=1)
          for tile in (wide, (64, 64))),
        *(Sharing("alone", tile, alone, slots=slots, wide=bytes_)
          for slots in (1, SLOTS) for bytes_ in (32, 64)
          for tile in ((8, 8), (16, 16), (64, 64), (128, 128), (256, 256))),
        *(Sharing("alone", tile, alone, slots=slots) for slots in (1, SLOTS)
          for tile in ((8, 8), (16, 16))),
        Sharing("alone", (64, 64), alone),
        *(Sharing("alone", tile, alone, groups=g, columns=n)
          for tile, g, n in (((128, 64), 2, 64), ((64, 128), 1, 128), (wide, 2, 128),
                             (wide, 2, 256))),
        *(Sharing("8 in a row the same A", tile, eight, groups=g, columns=n)
          for tile, g, n in (((128, 64), 2, 64), ((64, 128), 1, 128), (wide, 2, 128))),
    )  # fmt: skip

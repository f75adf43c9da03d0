"""Where this package is not ahead by what it wants to be, what is left there to gain, and what the
page has no prediction for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.machine_state import CHIP, DRAWS
from benchmarks.timing.side_by_side.extents import BEYOND, MMAS
from benchmarks.timing.side_by_side.records import Row
from sm100sim.timing.chips import load_chip
from sm100sim.timing.predict import Band

WANTED: Final = 1.05
"""The ratio to the best of the others that this package wants, with the whole band above 1."""
NEEDED: Final = {MMAS: "MMAs", "HBM": "bytes"}
"""Units whose work no kernel with these tiles can do without, and what that work is."""
LAUNCH: Final = load_chip(CHIP).draw()["launch_cycles"]
"""Cycles before the first CTA begins."""
FOLLOWS: Final = 0.75
"""A rank correlation with a drawn value that says something: by chance 16 draws have one as large
with some of 42 values in one case of twenty."""
HEAD: Final = f"""## Where a row is below {WANTED}, or open, and why

Of each problem the column that is nearest, or ahead, among those with a ratio below {WANTED} or a
band that crosses 1. **At most** is what a perfect kernel of the same tiles would gain: its cycles
over those in which the busiest SM's tensor core works, or memory moves the bytes that must come
from it, and those before a launch begins ({LAUNCH:,.0f}), which no kernel is spared. Query tiles
are whole, so without a mask one of 148 SMs has 14 of 2,048, whoever gives them out, where the
average has 13.84; with a mask it has the average and the longest tile at least. That holds for both
sides alike. Starts, ends and all other waits count as gained, so no kernel gets all of it; one with
other tiles, or whose last tiles are split by keys, may gain more.
**Needed** is what this package's kernel would have to gain for {WANTED} with its whole band above
1. Where more is needed than can be had, the limit is reached; elsewhere there is room that this
package does not use. Exponentials are no limit, as polynomials can take their place; the busiest
unit is that of the code as it is, on average of all SMs. What is lost is the time in which an SM's
tensor core does not work: before a CTA begins and while it waits for the last ones, at the start
and the end of a CTA and of its query tiles, and between their key tiles. All shares are with the
chip's own values. **Follows** is the value of the chip that the ratio follows draw by draw, where
their rank correlation is {FOLLOWS:g} or more: what one would have to know better.
"""


NOT_RUN: Final = {
    "Modular's d128 for one tile of queries": "not run: at these sizes it chooses two tiles; "
    "[originals.md](originals.md) has it on a small problem",
    "FA4 with `FA_CLC=1`, decoding over pages of 128": "not run: memory takes 99 % of the time of "
    "its rows, or there are fewer query tiles than SMs, so that nobody has anything to take over",
    "FA4 with `FA_CLC=1`, packed with 8/8 heads, over pages of 64, dense without a mask, for pairs":
    "it does not honour the switch there",
    "fp16": "not run but as TIRx's: this package's PTX is that for bf16 but for names of types and "
    "descriptors of MMAs, which take as long on the clocked machine",
    "Prompts of fewer than 1,024 queries": "not run here but for those of one key tile and for "
    "chunks; [experiments](experiments.md#whole-launches) have some",
    "fp8 at 512": "not run: FlashAttention-4, CUTLASS, Gluon and TIRx have no kernel for that head "
    "dimension, and Modular's was not asked with fp8",
    "FA4 d192/128 all by pairs, spill-free": "12 bytes of stores and 28 of loads at each of eight "
    "splits of registers: most are two values of the start, with 128 registers a thread, and one "
    "load of each role, so `setmaxnreg` does not move them",
    "FA4 d256 all by CUDA 12, spill-free": "of five splits none is; its own (192, 120, 80) has 600 "
    "bytes of stores and 848 of loads, the best (192, 160, 80) 296 and 476",
    "FA4 with a bias, and d256 with a softcap, spill-free": "not tried: its lead would have to be "
    "several times what a spill was worth elsewhere",
    "FA4, steps of decoding and chunks, spill-free": "not tried: of 32/8 heads memory takes over "
    "90 % of the time; at 192/128 and 256 its kernels have 6 loads and stores, with keys split "
    "and combined 97 and 710, with fp8 194; of chunks 4 to 24, and split 24 to 889",
    "FA4, steps of sequences that differ, `num_splits` above 1": "not run: `num_splits=0` looks "
    "at the number of query tiles, and splits none here. A number that is given splits all alike: "
    "as 4 or 8 by hand, pages of 64, ptxas 13.4, the ratio is about 1.3 for the logarithms and 2.0 "
    "or 2.6 for one of many keys, with the launch that combines. With `cu_seqlens_q` a launch "
    "before it chooses one for each sequence, up to that number",
    "CUTLASS's other attention": "not run: of example 77 the programs for 192/128 "
    "(`77_blackwell_mla_fwd`), for one query a sequence without pages (`77_blackwell_fmha_gen`) "
    "and for latent decoding over pages (`77_blackwell_mla`); of its CuTe DSL examples "
    "`attention/fmha` (32, 64, 128; 192/128 in fp8 only), which runs and is right "
    "([foreign_kernels.md](foreign_kernels.md))",
}
"""Columns that the page should have, and why it does not."""


@dataclass(frozen=True)
class Cell:
    """A problem and the column that comes nearest.

    Attributes:
        title: the problem. group: what is told together, and member: of it.
        row: of the other column. base: this package's.
        ratio: with the chip's own values. band: draw by draw.
    """

    title: str
    group: str
    member: str
    row: Row
    base: Row
    ratio: float
    band: Band

    @property
    def short(self) -> bool:
        """Whether this package has less than it wants."""
        return self.ratio < WANTED or self.band.low <= 1

    @property
    def needed(self) -> float:
        """By what this package's kernel would have to be faster."""
        return max(WANTED / self.ratio, 1 / self.band.low)

    @property
    def limited(self) -> bool:
        """Whether that is more than can be gained."""
        return self.needed > at_most(self.base)


def bound(row: Row) -> str:
    """The unit with the most work that a kernel cannot do without."""
    return max(NEEDED, key=lambda unit: share(row, unit))


def share(row: Row, unit: str) -> float:
    """The share of the time in which a unit works: of MMAs, at least, where it has most to do."""
    return float(row["busy"].get(unit, 0.0) * (row.get("uneven", 1.0) if unit == MMAS else 1.0))


def at_most(row: Row) -> float:
    """What a perfect kernel would gain over a row's."""
    return 1 / (share(row, bound(row)) + launching(row))


def launching(row: Row) -> float:
    """The share of the time that passes before the launch begins."""
    return float(LAUNCH / row["cycles"][0])


def nearest(cells: Sequence[Cell]) -> list[Cell]:
    """Of each problem the cell that is short with the smallest ratio, where there is one."""
    found: dict[str, Cell] = {}
    for cell in sorted((cell for cell in cells if cell.short), key=lambda cell: cell.ratio):
        found.setdefault(cell.title, cell)
    return [found[title] for title in dict.fromkeys(cell.title for cell in cells) if title in found]


def limits(cells: Sequence[Cell]) -> Iterator[str]:
    """The section: a sentence for each group of cells, and a table of all."""
    short = nearest(cells)
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in short:
        key = (cell.limited, cell.group, cell.row["column"], bound(cell.base))
        groups.setdefault(key, []).append(cell)
    reached = sum(cell.limited for cell in short)
    yield HEAD
    yield (
        f"Of {len({cell.title for cell in cells})} problems {len(short)} are short: at {reached} "
        f"the limit is reached, at {len(short) - reached} there is room."
    )
    yield ""
    yield from map(sentence, sorted(groups.values(), key=lambda cells: not cells[0].limited))
    yield ""
    yield (
        "| problem | beside | ratio | draw by draw | follows | needed | this package | | "
        "the other | |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for cell in short:
        yield (
            f"| {cell.title} | {cell.row['column']} | {cell.ratio:.3f} | {cell.band.median:.2f} "
            f"({cell.band.low:.2f}–{cell.band.high:.2f}) | {followed(cell)} | "
            f"{cell.needed:.3f} | {told(cell.base)} | {told(cell.row)} |"
        )


def sentence(cells: Sequence[Cell]) -> str:
    """What follows for cells that are alike."""
    first = cells[0]
    unit = bound(first.base)
    shares = span([100 * share(cell.base, unit) for cell in cells], ".0f")
    launch = span([100 * launching(cell.base) for cell in cells], ".1f")
    most = span([at_most(cell.base) for cell in cells], ".2f")
    needed = span([cell.needed for cell in cells], ".3f")
    text = (
        f"* {first.group}, {'; '.join(cell.member for cell in cells)}: "
        f"{span([cell.ratio for cell in cells], '.3f')} "
        f"beside {first.row['column']}. The {NEEDED[unit]} take {shares} % of the time and the "
        f"launch {launch} %, so {most} is the most that could be gained; {needed} is needed: "
    )
    if first.limited:
        these = " with these tiles" if unit == MMAS else ""
        return text + f"**{WANTED} cannot be reached{these}.**"
    room = f"{text}**there is room.** The busiest unit of this code: {', '.join(busiest(cells))}"
    if unit == "HBM":
        return f"{room}."
    if not all("beyond" in cell.base for cell in cells):
        lost = span([100 * (1 - cell.base["taken"]) for cell in cells], ".0f")
        return f"{room}; for {lost} % of the time an SM has no CTA."
    parts = (
        f"{span([100 * cell.base['beyond'][part] for cell in cells], 'z.1f')} % {words}"
        for part, words in BEYOND.items()
    )
    return f"{room}. Lost are {', '.join(parts)}."


def busiest(cells: Sequence[Cell]) -> Iterator[str]:
    """The busiest units of this package's kernels, and their shares."""
    of: dict[str, list[float]] = {}
    for cell in cells:
        unit = max(cell.base["busy"], key=cell.base["busy"].__getitem__)
        of.setdefault(unit, []).append(100 * cell.base["busy"][unit])
    for unit, shares in of.items():
        yield f"{unit} {span(shares, '.0f')} %"


def span(values: Sequence[float], form: str) -> str:
    """One number, or the smallest and the largest."""
    low, high = (format(f(values), form) for f in (min, max))
    return low if low == high else f"{low} to {high}"


def told(row: Row) -> str:
    """What a row could gain at most, and by which unit."""
    unit = bound(row)
    return f"{NEEDED[unit]} {share(row, unit):.1%} | at most {at_most(row):.3f}"


def followed(cell: Cell) -> str:
    """The drawn value that the ratio follows, and how closely; nothing where it follows none."""
    base, row = (np.array(of["cycles"][1:]) for of in (cell.base, cell.row))
    if len(row) < DRAWS:
        return ""
    chip = load_chip(CHIP)
    draws = [chip.draw(number).values for number in range(1, len(row) + 1)]
    found = {
        name: correlation(np.array([float(draw[name]) for draw in draws]), row / base)
        for name in draws[0]
    }
    name = max(found, key=lambda name: abs(found[name]))
    return f"`{name}` {found[name]:+.2f}" if abs(found[name]) >= FOLLOWS else ""


def correlation(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """The rank correlation of two series (Spearman's); 0 where one does not vary."""
    first, second = (np.argsort(np.argsort(series)) for series in (one, other))
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def missing(rows: Sequence[Row]) -> Iterator[str]:
    """What has no prediction, and why: a line for each column and reason."""
    by: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "cycles" not in row:
            why = row.get("refused") or row["failed"]
            told = f"{'refuses it' if 'refused' in row else 'failed'}: {why}"
            by.setdefault((row["column"], told), []).append(row["name"])
    for (column, told), names in by.items():
        yield f"* {column}: {'; '.join(names)}: {told}"
    for what, why in NOT_RUN.items():
        yield f"* {what}: {why}."

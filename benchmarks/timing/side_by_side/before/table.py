"""The section of the side-by-side page that has each problem before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Final, NamedTuple

from benchmarks.timing.side_by_side.page import (
    OURS,
    base_of,
    columns,
    mean,
    own,
    place,
    problem,
    ratio,
    title,
    verdict,
)
from benchmarks.timing.side_by_side.records import Row

RECORDS: Final = Path(__file__).with_name("rows.json")
"""Rows of the page at commit b5be997: of each its problem, column, state and cycles."""
SHOWN: Final = f"{OURS}, CUDA 13"
"""The column whose cycles are shown."""
HEAD: Final = """## Before and after

Before is this page of 22 November 2026 (commit b5be997), the last one before orders, splits and
kernels were changed for its sake; of head dimension 64 its rows are of tiles of 192 keys.
**They are of other states of the clocked machine ({states}), so cycles of then over those of now
are no measure of the kernels alone.** Each ratio beside another package is by the machine of its
day. FlashAttention-4 is the same version in both (4.0.0b36): its {moved} rows take {drift:.3f} of
the cycles of then in the mean ({low:.2f} to {high:.2f}), which the machine moved, and the way from
executed clusters to launches; this package's rows beside them take {ours:.3f}, so that some
{kernels:.2f} are left for its kernels and their orders. The kernels of then were not predicted
again by the machine of now.

Of {problems} problems of now {known} were there, {beside} of them beside another package, and in
{behind_before} this package was behind a column with its whole band, now in {behind_now}.
**Nearest** is the lowest ratio of all columns that were there, by either assembler, now among the
same columns and then among all. The means of the {beside} are {nearest_before:.3f},
{nearest_now:.3f} and {nearest_all:.3f}.
"""


class Pair(NamedTuple):
    """A row of before and the row of the same problem and column now."""

    before: Row
    now: Row


def section(before: Sequence[Row], now: Sequence[Row]) -> Iterator[str]:
    """Lines of the section.

    Args:
        before: rows of `RECORDS`. now: those of the page.
    """
    old = [{**row, "star": False} for row in before]
    new = [{**row, "star": False} for row in now if "cycles" in row]
    pairs = _pairs(old, new)
    yield _head(old, new, pairs)
    yield from _columns(old, new, pairs)
    yield ""
    yield from _problems(old, new, pairs)
    yield ""


def _pairs(old: Sequence[Row], new: Sequence[Row]) -> list[Pair]:
    of = {(problem(row), row["column"]): row for row in old}
    found = [(of.get((problem(row), row["column"])), row) for row in new]
    return [Pair(was, row) for was, row in found if was]


def _head(old: Sequence[Row], new: Sequence[Row], pairs: Sequence[Pair]) -> str:
    theirs = [pair for pair in pairs if not pair.now["column"].startswith(OURS)]
    moved = [_quotient(pair) for pair in theirs]
    ours = mean([_quotient(Pair(_base(was, old), _base(now, new))) for was, now in theirs])
    rivals = {problem(pair.now) for pair in theirs}
    before, now = [was for was, _ in theirs], [now for _, now in theirs]
    every = [row for row in new if problem(row) in rivals and not row["column"].startswith(OURS)]
    text = HEAD.format(
        states=", ".join(sorted({row["model"] for row in old})), moved=len(moved),
        drift=mean(moved), low=min(moved), high=max(moved), ours=ours, kernels=ours / mean(moved),
        problems=len({problem(row) for row in new if row["column"].startswith(OURS)}),
        known=len({problem(pair.now) for pair in pairs}), beside=len(rivals),
        behind_before=_behind(before, old), behind_now=_behind(every, new),
        nearest_before=_mean_nearest(before, old), nearest_now=_mean_nearest(now, new),
        nearest_all=_mean_nearest(every, new),
    )  # fmt: skip

    return "\n\n".join(fill(part, 100) for part in text.split("\n\n")) + "\n"


def _behind(rows: Sequence[Row], among: Sequence[Row]) -> int:
    told = {problem(row): set[str]() for row in rows}
    for row in rows:
        told[problem(row)].add(verdict(ratio(row, _base(row, among))))
    return sum("behind" in words for words in told.values())


def _mean_nearest(rows: Sequence[Row], among: Sequence[Row]) -> float:
    of: dict[tuple[str, str, int], float] = {}
    for row in rows:
        value = own(row, _base(row, among))
        of[problem(row)] = min(value, of.get(problem(row), value))
    return mean(list(of.values()))


def _quotient(pair: Pair) -> float:
    return float(pair.now["cycles"][0] / pair.before["cycles"][0])


def _base(row: Row, rows: Sequence[Row]) -> Row:
    base = base_of(row, rows)
    assert base is not None, f"{title(row)} has no row of this package"
    return base


def _columns(old: Sequence[Row], new: Sequence[Row], pairs: Sequence[Pair]) -> Iterator[str]:
    yield "| column | rows | ahead/open/behind | mean | mean of medians |"
    yield "|---|---|---|---|---|"
    for column in columns([pair.now for pair in pairs]):
        if column.startswith(OURS):
            continue
        of = [pair for pair in pairs if pair.now["column"] == column]
        was = _summary([pair.before for pair in of], old)
        now = _summary([pair.now for pair in of], new)
        cells = (f"{a} -> {b}" for a, b in zip(was, now, strict=True))
        yield f"| {column} | {len(of)} | {' | '.join(cells)} |"


def _summary(rows: Sequence[Row], among: Sequence[Row]) -> tuple[str, str, str]:
    bases = [_base(row, among) for row in rows]
    bands = [ratio(row, base) for row, base in zip(rows, bases, strict=True)]
    told = [verdict(band) for band in bands]
    counts = "/".join(str(told.count(word)) for word in ("ahead", "open", "behind"))
    means = mean([own(row, base) for row, base in zip(rows, bases, strict=True)])
    return counts, f"{means:.3f}", f"{mean([band.median for band in bands]):.3f}"


def _problems(old: Sequence[Row], new: Sequence[Row], pairs: Sequence[Pair]) -> Iterator[str]:
    head = f"| problem | {SHOWN}: before | now | over before | nearest before | "
    yield head + "now, same columns | now, all |"
    yield "|---|---|---|---|---|---|---|"
    shared: dict[tuple[str, str, int], list[Pair]] = {}
    for pair in sorted(pairs, key=lambda pair: place(pair.now)):
        shared.setdefault(problem(pair.now), []).append(pair)
    for of, found in shared.items():
        shown = next(pair for pair in found if pair.now["column"] == SHOWN)
        same = [row for _, row in found]
        every = [row for row in new if problem(row) == of]
        cells = (
            _nearest([row for row, _ in found], old), _nearest(same, new), _nearest(every, new),
        )  # fmt: skip
        yield (
            f"| {title(shown.now)} | {shown.before['cycles'][0]:,} | {shown.now['cycles'][0]:,} | "
            f"{_quotient(shown):.3f} | {' | '.join(cells)} |"
        )


def _nearest(rows: Sequence[Row], among: Sequence[Row]) -> str:
    """The lowest ratio, and whose it is; nothing where nobody else has a row."""
    of: Mapping[str, float] = {
        row["column"]: own(row, _base(row, among))
        for row in rows if not row["column"].startswith(OURS)
    }  # fmt: skip
    if not of:
        return ""
    column = min(of, key=lambda name: of[name])
    return f"{of[column]:.3f} {column}"

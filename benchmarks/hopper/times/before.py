"""The table of an H200 before kernels were made faster, beside that of now: lines for a page.

python -m benchmarks.hopper.times.before docs/hopper_times.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from typing import Final, NamedTuple

RECORDS: Final = Path(__file__).with_name("before.json")
"""Rows of the page of 22 November 2026 (commit b5be997)."""
HEADS: Final = ("head dim", "keys", "length", "batch")


class Row(NamedTuple):
    """A row of a page: its table, its problem, and the fastest rival's time over this package's."""

    table: str
    problem: tuple[str, ...]
    ratio: float


def rows(page: str) -> Iterator[Row]:
    """Rows of a page that have a rival."""
    table, columns = "", [""]
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            table = line.removeprefix("## ")
        elif line.startswith("| head dim"):
            columns = cells
        elif line.startswith("| ") and (ratio := cells[columns.index("× best rival")]):
            named = dict(zip(columns, cells, strict=True))
            yield Row(table, tuple(named[head] for head in HEADS), float(ratio))


def recorded(path: Path = RECORDS) -> list[Row]:
    """Rows of before."""
    found = json.loads(path.read_text())
    return [Row(table, tuple(problem), ratio) for table, problem, ratio in found]


def table(before: Sequence[Row], now: Sequence[Row]) -> Iterator[str]:
    """Lines: a row for each head dimension and mask of the first table, one for each other table.

    Args:
        before, now: rows of two pages, with the same problems in the same order.
    """
    first = before[0].table
    lengths = list(dict.fromkeys(row.problem[2] for row in before if row.table == first))
    yield f"| head dim | keys | {' | '.join(lengths)} | mean |"
    yield f"|---|---|{'---|' * (len(lengths) + 1)}"
    kinds = list(dict.fromkeys(row.problem[:2] for row in before if row.table == first))
    for kind in kinds:
        pairs = _pairs(before, now, first, kind)
        cells = [f"{was.ratio:.2f} -> {after.ratio:.2f}" for was, after in pairs]
        yield f"| {' | '.join(kind)} | {' | '.join(cells)} | {_means(pairs)} |"
    yield ""
    yield "| table | rows | mean | lowest |"
    yield "|---|---|---|---|"
    for name in dict.fromkeys(row.table for row in before):
        pairs = _pairs(before, now, name)
        lowest = (f"{min(row.ratio for row in rows):.2f}" for rows in zip(*pairs, strict=True))
        yield f"| {name} | {len(pairs)} | {_means(pairs)} | {' -> '.join(lowest)} |"


def _pairs(
    before: Sequence[Row], now: Sequence[Row], name: str, kind: tuple[str, ...] = ()
) -> list[tuple[Row, Row]]:
    found = [row for row in before if row.table == name and row.problem[: len(kind)] == kind]
    after = [row for row in now if row.table == name and row.problem[: len(kind)] == kind]
    if [row.problem for row in found] != [row.problem for row in after]:
        raise ValueError(f"{name} {' '.join(kind)}: the two pages have other problems")
    return list(zip(found, after, strict=True))


def _means(pairs: Sequence[tuple[Row, Row]]) -> str:
    means = (
        exp(sum(log(row.ratio) for row in rows) / len(pairs)) for rows in zip(*pairs, strict=True)
    )
    return " -> ".join(f"{value:.2f}" for value in means)


if __name__ == "__main__":
    print("\n".join(table(recorded(), list(rows(Path(sys.argv[1]).read_text())))))

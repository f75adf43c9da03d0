"""Attention by several packages on one model of a B200: makes rows and draws their page.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.side_by_side docs/side_by_side.md \
        [--only REGEX] [--missing | --draw]

Rows lie in side_by_side.json; those that match `--only` ("column: problem") are made anew, with
`--missing` only those that are not there; `--draw` only draws the page. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

RECORDS: Final = Path(__file__).with_suffix(".json")
Row = Mapping[str, Any]


def key(row: Row) -> tuple[str, str, int]:
    """What a row is of: its column, and the problem."""
    return row["column"], row.get("name", row["family"]), row.get("length", 0)


def load(path: Path = RECORDS) -> list[dict[str, Any]]:
    """The rows of a file."""
    return list(json.loads(path.read_text())) if path.exists() else []


def save(rows: Sequence[Row], path: Path = RECORDS) -> None:
    """Write rows, one a line, in the order of their keys."""
    ordered = sorted(rows, key=key)
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in ordered) + "\n]\n")


def merged(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Rows with new ones of a column and a problem in the place of all that it had."""
    replaced = {key(row)[:2] for row in new}
    return [*(row for row in old if key(row)[:2] not in replaced), *new]


def made(only: str, known: set[tuple[str, str]]) -> Iterator[list[dict[str, Any]]]:
    """Rows that match, but for those of a known column and problem; what fails says why."""
    from benchmarks.timing.callers import Declined
    from benchmarks.timing.side_rows import COLUMNS, FAMILIES, OTHERS, Maker, Other, model, offered

    maker = Maker()
    problems: tuple[Any, ...] = (*FAMILIES, *OTHERS)
    for problem in problems:
        for column in COLUMNS:
            name = f"{column.name}: {problem.name}"
            if (column.name, problem.name) in known or not re.search(only, name):
                continue
            if not offered(column, problem):
                continue
            head = "other" if isinstance(problem, Other) else problem.name
            try:
                if isinstance(problem, Other):
                    rows = [maker.other(column, problem)]
                else:
                    rows = maker.family(column, problem)
            except Declined as reason:
                rows = [{"family": head, "name": problem.name, "column": column.name,
                         "refused": str(reason), "model": model()}]  # fmt: skip
            except Exception as error:  # a page shows what fails and goes on
                told = " ".join(f"{type(error).__name__}: {error}".split())[:400]
                rows = [{"family": head, "name": problem.name, "column": column.name,
                         "failed": told, "model": model()}]  # fmt: skip
            print(name, [row.get("cycles", [row])[0] for row in rows], flush=True)
            yield rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Make rows and write the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", default="", help="regular expression over column: problem")
    parser.add_argument("--missing", action="store_true", help="only rows that are not there")
    parser.add_argument("--draw", action="store_true", help="only draw the page")
    given = parser.parse_args(arguments)
    if not given.draw:
        import sm100sim

        warnings.simplefilter("ignore")
        sm100sim.activate(sm_count=148)  # before the DSL is imported
        known = {key(row)[:2] for row in load() if "failed" not in row} if given.missing else set()
        for rows in made(given.only, known):
            save(merged(load(), rows))
    from benchmarks.timing.side_page import page

    given.page.write_text(page(load()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

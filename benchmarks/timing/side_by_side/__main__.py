"""Attention by several packages on one model of a B200: makes rows and draws their page.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.side_by_side docs/side_by_side.md \
        [--only REGEX] [--missing | --repeat | --draw]

Rows lie in rows.json; those that match `--only` ("column: problem") are made anew, with
`--missing` only those that are not there or are of another state of the machine. `--repeat` makes
one of each column and state anew, and where all are equal notes that the states are one; `--draw`
only draws the page. No GPU is needed. Of others what `others` and `tirx` say has to be there.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine_state import model
from benchmarks.timing.side_by_side.before import table
from benchmarks.timing.side_by_side.page import page
from benchmarks.timing.side_by_side.records import (
    STATES,
    equal_states,
    key,
    load,
    merged,
    same_state,
    save,
    write,
)


def made(only: str, known: set[tuple[str, str]]) -> Iterator[list[dict[str, Any]]]:
    """Rows that match, but for those of a known column and problem; what fails says why."""
    from benchmarks.timing.side_by_side import problems as of
    from benchmarks.timing.side_by_side.callers import Declined
    from benchmarks.timing.side_by_side.rows import Maker

    maker = Maker()
    problems: tuple[Any, ...] = (*of.FAMILIES, *of.OTHERS)
    for problem in problems:
        for column in of.COLUMNS:
            name = f"{column.name}: {problem.name}"
            if (column.name, problem.name) in known or not re.search(only, name):
                continue
            if not of.offered(column, problem):
                continue
            head = "other" if isinstance(problem, of.Other) else problem.name
            try:
                if isinstance(problem, of.Other):
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


def current() -> set[tuple[str, str]]:
    """Columns and problems whose rows are of the machine as it is."""
    now = same_state(model(), equal_states())
    return {key(row)[:2] for row in load() if "failed" not in row and row["model"] in now}


def repeat(only: str) -> None:
    """Note which states are one with that of now: where a row of each column is equal."""
    now = same_state(model(), equal_states())
    of = {key(row): row for row in load() if "cycles" in row}
    for state in sorted({row["model"] for row in of.values()} - now):
        sample: dict[str, str] = {}
        for (column, name, _), row in of.items():
            if row["model"] == state and re.search(only, f"{column}: {name}"):
                sample.setdefault(column, re.escape(f"{column}: {name}"))
        again = made(f"^({'|'.join(sample.values())})$", set())
        # What is not here, or failed, says nothing of the machine; `made` has printed why.
        found = [row for together in again for row in together if "cycles" in row]
        changed = [row for row in found if row["cycles"] != of[key(row)]["cycles"]]
        print(state, f"{len(found) - len(changed)} of {len(found)} rows are equal", flush=True)
        if found and not changed:
            names = sorted({f"{row['column']}: {row.get('name', row['family'])}" for row in found})
            write([*load(STATES), {"states": [state, model()], "repeated": names}], STATES)


def drawn() -> str:
    """The page of the rows in their files."""
    rows = load()
    return page(rows, load(STATES), table.section(load(table.RECORDS), rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make rows and write the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", default="", help="regular expression over column: problem")
    parser.add_argument("--missing", action="store_true", help="only rows of another state")
    parser.add_argument("--repeat", action="store_true", help="which states are equal")
    parser.add_argument("--draw", action="store_true", help="only draw the page")
    given = parser.parse_args(arguments)
    if not given.draw:
        import sm100sim

        warnings.simplefilter("ignore")
        sm100sim.activate(sm_count=148)  # before the DSL is imported
        if given.repeat:
            repeat(given.only)
        else:
            for rows in made(given.only, current() if given.missing else set()):
                save(merged(load(), rows))
    given.page.write_text(drawn())
    return 0


if __name__ == "__main__":
    sys.exit(main())

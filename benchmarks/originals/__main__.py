"""Compare Modular's kernels with this package's, and rewrite docs/originals.md.

    python -m benchmarks.originals [--install] [--only REGEX] [--page]

`--install` makes the environments of Modular's releases that are missing, in .venv-originals.
Comparisons whose releases are not all installed keep their latest record.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import asdict
from typing import Any, Final

from benchmarks.originals.cases import CASES, Original
from benchmarks.originals.compare import compared
from benchmarks.originals.machine_code import assembler_version
from benchmarks.originals.page import RESULTS, render
from benchmarks.originals.programs import RELEASES, ROOT, install, installed

PAGE: Final = ROOT / "docs" / "originals.md"


def possible(original: Original) -> bool:
    """Whether all releases that a comparison takes are here."""
    return all(installed(release) for release in original.releases)


def merged(known: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The records with one more, in the order of the cases, without those of no case."""
    rows = {row["name"]: row for row in [*known, new]}
    return [rows[case.name] for case in CASES if case.name in rows]


def main() -> int:
    """Command line; the exit status is 1 when nothing could be compared."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install", action="store_true", help="make missing environments first")
    parser.add_argument("--only", default="", help="regular expression over names of comparisons")
    parser.add_argument("--page", action="store_true", help="only rewrite the page")
    given = parser.parse_args()
    record: dict[str, Any] = {"ptxas": "", "rows": []}
    if RESULTS.is_file():
        record = json.loads(RESULTS.read_text())
    for release in RELEASES if given.install else ():
        if not installed(release):
            install(release)
    chosen = [case for case in CASES if possible(case) and re.search(given.only, case.name)]
    for case in () if given.page else chosen:
        start = time.perf_counter()
        row = json.loads(json.dumps(asdict(compared(case))))
        record = {"ptxas": assembler_version(), "rows": merged(record["rows"], row)}
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{case.name}: {time.perf_counter() - start:.1f} s", flush=True)
    PAGE.write_text(render(record["rows"], record["ptxas"]))
    if not chosen:
        print("nothing to compare: no such name, or max-core is not installed (--install)")
    return int(not chosen)


if __name__ == "__main__":
    raise SystemExit(main())

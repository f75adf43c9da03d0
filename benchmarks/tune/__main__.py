"""Search the free choices of kernels in the timing model: ``make tune``.

    python -m benchmarks.tune [CLASS ..]           search, print the fronts, compare with the table
    python -m benchmarks.tune --write [CLASS ..]   and write the records and the table
    python -m benchmarks.tune --show [CLASS ..]    print what the records say

The search tries one free choice after the other, each with what was best of the others. A record is
judged anew when the PTX of its kernels, the assembler or the timing model changed. A choice of the
table stays until another one that changes as many values wins by its whole band. The exit status is
1 when the table is not what the records say. Predictions of a B200; nothing here was measured on
one. Needs the CuTe DSL and no GPU. All classes take some 13 minutes of a processor, one of them 30
to 100 seconds; where all records hold only their kernels are compiled.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path

import sm100sim
from benchmarks.tune.classes import CLASSES, ProblemClass
from benchmarks.tune.records import (
    DEFAULT,
    TABLE,
    Record,
    best,
    described,
    load,
    model_hash,
    of_class,
    pareto,
    save,
    table_text,
    today,
)
from fa4_cute.plan.config.tuning import Tuning


def made_with() -> dict[str, str]:
    """Return what predictions depend on besides the kernel."""
    from sm100sim.timing.sass.tools import tool

    assembler = hashlib.sha256(Path(tool("ptxas")).read_bytes()).hexdigest()[:16]
    return {"dsl": version("nvidia-cutlass-dsl"), "ptxas": assembler, "model": model_hash()}


class Search:
    """The search in one class, which keeps the records of before that still hold."""

    def __init__(self, of: ProblemClass, kept: dict[Tuning, Record]) -> None:
        """Take the class and its records."""
        self.of, self.kept = of, kept
        self.found: dict[Tuning, Record] = {}

    def judged(self, tuning: Tuning) -> Record | None:
        """Return the record of a choice, or None where no kernel, or no other one, comes of it."""
        from benchmarks.tune.measure import measured, ptx_hashes

        if tuning in self.found:
            return self.found[tuning]
        try:
            hashes = ptx_hashes(self.of, tuning)
        except ValueError as error:
            print(f"  {described(tuning)}: {error}")
            return None
        if same := [known for known, record in self.found.items() if record.ptx == hashes]:
            print(f"  {described(tuning)}: the kernel of {described(same[0])}")
            return None
        old = self.kept.get(tuning)
        kept = old is not None and old.ptx == hashes
        self.found[tuning] = old if old is not None and kept else measured(self.of, tuning, hashes)
        print(f"  {line(self.found[tuning], self.found[DEFAULT])}", flush=True)
        return self.found[tuning]

    def run(self) -> dict[Tuning, Record]:
        """Try the axes one after the other, then today's choice; return all records."""
        self.judged(DEFAULT)
        for axis, _ in self.of.choices(DEFAULT):
            start = best(self.found, today(self.of)).tuning
            for tuning in dict(self.of.choices(start))[axis]:
                self.judged(tuning)
        self.judged(today(self.of))
        return self.found


def line(record: Record, base: Record) -> str:
    """Return a record beside another one, in a line."""
    cells = "  ".join(
        f"{cell} {record.median(cell):,.0f} ×{band.median:.3f} ({band.low:.3f}–{band.high:.3f})"
        for cell, band in record.ratios(base).items()
    )
    facts = f"spills {record.spills}  T1 {record.t1}  turn {record.turn}"
    return f"{described(record.tuning):40} {facts}  {cells}"


def show(of: ProblemClass, records: dict[Tuning, Record]) -> None:
    """Print the Pareto front of a class beside today's choice, and the best."""
    now = records.get(today(of), records[DEFAULT])
    print(f"{of.name}: Pareto front of {len(records)} choices, beside {described(now.tuning)}")
    for record in sorted(pareto(records), key=lambda r: r.score(now).median):
        print(f"  {line(record, now)}")
    print(f"  best: {described(best(records, today(of)).tuning)}")


def _known(name: str) -> str:
    """The name of a class, e.g. "1q d64"."""
    names = [of.name for of in CLASSES]
    if name not in names:
        near = get_close_matches(name, names, n=1) or names
        raise argparse.ArgumentTypeError(f"{name!r}; nearest supported choice: {', '.join(near)}")
    return name


def main(arguments: list[str] | None = None) -> int:
    """Search or show; returns the exit status."""
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("classes", nargs="*", type=_known, help="names of classes; none takes all")
    parser.add_argument("--write", action="store_true", help="write the records and the table")
    parser.add_argument("--show", action="store_true", help="print what the records say")
    given = parser.parse_args(arguments)
    chosen = [of for of in CLASSES if not given.classes or of.name in given.classes]
    before, records = load()
    if not given.show:
        sm100sim.activate(sm_count=148)  # before the DSL is imported
        with_now = made_with()
    for of in chosen:
        found = of_class(records, of.name)
        if not given.show:
            print(of.name, flush=True)
            found = Search(of, found if before.get(of.name) == with_now else {}).run()
            records = [r for r in records if r.of != of.name] + list(found.values())
            if given.write:
                before[of.name] = with_now
                save(before, records)
        if found:
            show(of, found)
            if given.show and before[of.name]["model"] != model_hash():
                print("  judged by an older timing model")
    text = table_text(records)
    if given.write:
        TABLE.write_text(text)
    elif text != TABLE.read_text():
        print("the table is not what the records say; python -m benchmarks.tune --write writes it")
        return 1
    print("the table is what the records say")
    return 0


if __name__ == "__main__":
    sys.exit(main())

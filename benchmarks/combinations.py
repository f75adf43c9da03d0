"""Every pair of features in every kernel, with errors: ``python -m benchmarks.combinations FILE``.

    python -m benchmarks.combinations docs/combinations.md [--processes N] [KERNEL ..]
        [--beside FEATURE]

The cases are those of ``testing/cases.py``: ragged and cached batches hold sequences of
different lengths, an empty one among them, and memory that must not matter is NaN. Rewrites the
tables of FILE (docs/combinations.md), or only those of the kernels named after it; with
``--beside`` only pairs with that feature run, and other cells stay as FILE has them. The exit
status is 1 when a case failed.
"""

from __future__ import annotations

import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.processes import each
from testing.arguments import FEATURES
from testing.cases import HOPPER_KERNELS, KERNELS, Case, is_possible
from testing.runner import run

LEFT_OUT = ("alibi", "page64", "page256")
"""Features that stand in the table in another form; the tests have them all."""
NAMES = tuple(name for name in FEATURES if name not in LEFT_OUT)
THOUSAND = 1000
TITLES = {
    "two Q tiles": "SM100MHA2Q, two Q tiles per CTA, head_dim 64",
    "one Q tile": "SM100MHA2Q, one Q tile per CTA, head_dim 64",
    "two Q tiles per CTA of a pair": "SM100MHA2Q, `pair_cta=True`, head_dim 128",
    "CTA pair": "SM100MHADepth512, head_dim 256",
    "Hopper": "SM90MHA, head_dim 128",
    "Hopper, few rows": "SM90MHA, one Q tile per CTA, head_dim 128",
    "Hopper, wide": "SM90MHA, head_dim 256, fp8 operands",
}
ROWS = {"Hopper, wide": ("fp8", "tokens")}
"""Features that each pair of a kernel has one of; all where none are named."""
ALL_KERNELS = KERNELS | HOPPER_KERNELS


@dataclass(frozen=True)
class Cell:
    """One case of the table.

    Attributes:
        error: largest absolute error of O.
        share: the same as a share of what is allowed.
        lse_error: largest absolute error of the log-sum-exp.
        problem: what is wrong, or nothing.
    """

    error: float = 0.0
    share: float = 0.0
    lse_error: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        """Return the error in thousandths."""
        return "**fails**" if self.problem else f"{self.error * THOUSAND:.1f}"


def measure(features: frozenset[str], kernel: str) -> Cell:
    """Run one case."""
    try:
        outcome = run(Case.of(features, kernel))
    except Exception as error:  # a table shows what fails and goes on
        return Cell(problem=f"{type(error).__name__}: {str(error).splitlines()[0]}")
    found = outcome.comparison
    dirty = [verdict for verdict in outcome.verdicts if verdict != "clean"]
    problem = "; ".join((*found.failures, *dirty))
    share = found.max_error / found.limit if found.limit else 0.0
    return Cell(found.max_error, share, found.max_lse_error or 0.0, problem)


def rows_of(kernel: str) -> list[tuple[int, str]]:
    """Return the features that have a row in the table of a kernel, and their numbers."""
    return [(i, name) for i, name in enumerate(NAMES) if name in ROWS.get(kernel, NAMES)]


def possible_pairs(kernel: str) -> list[frozenset[str]]:
    """Return all pairs that the kernel has, and every feature alone."""
    pairs = (frozenset({row, column}) for i, row in rows_of(kernel) for column in NAMES[: i + 1])
    return [pair for pair in pairs if is_possible(pair, *ALL_KERNELS[kernel])]


def timed(pair: frozenset[str], kernel: str) -> tuple[Cell, float]:
    """Run one case; also return the seconds that it took."""
    start = time.perf_counter()
    return measure(pair, kernel), time.perf_counter() - start


def on_page(text: str, kernel: str) -> dict[frozenset[str], Cell]:
    """Return the cells that a page has of a kernel, without those that fail.

    Each has the worst share and error of the log-sum-exp that are said of all.
    """
    section = text.partition(f"\n## {TITLES[kernel]}\n")[2].partition("\n## ")[0]
    said = re.search(r"worst error is (\d+)% .* log-sum-exp (\S+)\.\n", section)
    worst = (int(said[1]) / 100, float(said[2])) if said else (0.0, 0.0)
    rows = [line.split("|")[1:-1] for line in section.split("\n") if line.startswith("|")]
    lines = [[cell.strip() for cell in row] for row in rows]
    columns = lines[0][1:] if lines else []
    return {
        frozenset({row.strip("*"), column}): Cell(float(cell) / THOUSAND, *worst)
        for row, *line in lines[2:]
        for column, cell in zip(columns, line, strict=True)
        if re.fullmatch(r"[\d.]+", cell)
    }


def cells(
    kernel: str, processes: int, known: Mapping[frozenset[str], Cell] = MappingProxyType({})
) -> dict[frozenset[str], Cell]:
    """Return the cells of all pairs, and of every feature alone, in one kernel.

    Those that are ``known`` are kept, the others run, ``processes`` at a time.
    """
    possible = possible_pairs(kernel)
    found = {pair: known[pair] for pair in possible if pair in known}
    pairs = [pair for pair in possible if pair not in known]
    results = each(timed, [(pair, kernel) for pair in pairs], processes)
    for pair, (cell, took) in zip(pairs, results, strict=True):
        found[pair] = cell
        print(f"{kernel}: {'+'.join(sorted(pair))}: {cell} {took:.1f} s", flush=True)
    return found


def table(kernel: str, found: dict[frozenset[str], Cell]) -> str:
    """Return the section of one kernel."""
    worst = max(found.values(), key=lambda cell: cell.share)
    lse = max(cell.lse_error for cell in found.values())
    failed = {pair: cell for pair, cell in found.items() if cell.problem}
    lines = [
        f"## {TITLES[kernel]}",
        "",
        f"{len(found)} cases, {len(failed)} of them failing. The worst error is {worst.share:.0%} "
        f"of what is allowed, the worst error of the log-sum-exp {lse:.1e}.",
        "",
        f"| | {' | '.join(NAMES)} |",
        "|---|" + "---|" * len(NAMES),
    ]
    for i, row in rows_of(kernel):
        pairs = (frozenset({row, column}) for column in NAMES[: i + 1])
        shown = [str(found[pair]) if pair in found else "–" for pair in pairs]
        shown += [""] * (len(NAMES) - len(shown))
        lines.append(f"| **{row}** | {' | '.join(shown)} |")
    lines += [f"* {'+'.join(sorted(pair))}: {cell.problem}" for pair, cell in failed.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables of the kernels that are named, or of all; 1 when a case failed."""
    parser = ArgumentParser(prog="python -m benchmarks.combinations", description=main.__doc__)
    parser.add_argument("path", type=Path, help="the page")
    parser.add_argument("kernels", nargs="*", metavar="kernel", help="; ".join(ALL_KERNELS))
    parser.add_argument("--processes", type=int, default=1, help="cases at a time")
    only = "run only pairs with it, and those of which the page has no value"
    parser.add_argument("--beside", choices=NAMES, default="", help=only)
    asked = parser.parse_intermixed_args(arguments)
    if unknown := [name for name in asked.kernels if name not in ALL_KERNELS]:
        parser.error(f"{', '.join(unknown)}: choose from {'; '.join(ALL_KERNELS)}")
    failed = False
    for kernel in asked.kernels or ALL_KERNELS:
        page = on_page(asked.path.read_text(), kernel) if asked.beside else {}
        known = {pair: cell for pair, cell in page.items() if asked.beside not in pair}
        found = cells(kernel, asked.processes, known)
        failed = failed or any(cell.problem for cell in found.values())
        # Written as far as it goes: all of it takes half an hour.
        replace_section(asked.path, table(kernel, found))
    return int(failed)


def replace_section(path: Path, section: str) -> None:
    """Put ``section`` in the place of the one with its title, or at the end."""
    head, *sections = path.read_text().split("\n## ")
    new = section.removeprefix("## ").rstrip()
    kept = {old.splitlines()[0]: old.rstrip() for old in sections} | {new.splitlines()[0]: new}
    ordered = [kept[title] for title in TITLES.values() if title in kept]
    path.write_text("\n\n## ".join([head.rstrip(), *ordered]) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""Every pair of features in every kernel, with errors: ``python -m benchmarks.combinations FILE``.

The cases are those of ``tests/kernel/feature_case.py``: ragged and cached batches hold sequences of
different lengths, an empty one among them, and memory that must not matter is NaN. Rewrites the
tables of FILE (docs/combinations.md); the exit status is 1 when a case failed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.kernel.feature_case import FEATURES, KERNELS, FeatureCase, is_possible, run

LEFT_OUT = ("page64",)
"""Features that the tables would hold three times; the tests have them."""
NAMES = tuple(name for name in FEATURES if name not in LEFT_OUT)
THOUSAND = 1000


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


def measure(features: frozenset[str], head_dim: int) -> Cell:
    """Run one case."""
    try:
        outcome = run(FeatureCase(features, head_dim))
    except Exception as error:  # a table shows what fails and goes on
        return Cell(problem=f"{type(error).__name__}: {str(error).splitlines()[0]}")
    found = outcome.comparison
    dirty = [verdict for verdict in outcome.verdicts if verdict != "clean"]
    problem = "; ".join((*found.failures, *dirty))
    lse_error = found.max_lse_error or 0.0
    share = found.max_error / found.limit if found.limit else 0.0
    return Cell(found.max_error, share, lse_error, problem)


def cells(head_dim: int) -> dict[frozenset[str], Cell]:
    """Run all pairs, and every feature alone, in one kernel."""
    found = {}
    for i, row in enumerate(NAMES):
        for column in NAMES[: i + 1]:
            pair = frozenset({row, column})
            if is_possible(pair):
                start = time.perf_counter()
                found[pair] = measure(pair, head_dim)
                took = time.perf_counter() - start
                name = "+".join(sorted(pair))
                print(f"d{head_dim} {name}: {found[pair]} {took:.1f} s", flush=True)
    return found


def table(kernel: str, head_dim: int, found: dict[frozenset[str], Cell]) -> str:
    """Return the section of one kernel."""
    worst = max(found.values(), key=lambda cell: cell.share)
    lse = max(cell.lse_error for cell in found.values())
    failed = {pair: cell for pair, cell in found.items() if cell.problem}
    lines = [
        f"## {kernel}, head_dim {head_dim}",
        "",
        f"{len(found)} cases, {len(failed)} of them failing. The worst error is {worst.share:.0%} "
        f"of what is allowed, the worst error of the log-sum-exp {lse:.1e}.",
        "",
        f"| | {' | '.join(NAMES)} |",
        "|---|" + "---|" * len(NAMES),
    ]
    for i, row in enumerate(NAMES):
        pairs = (frozenset({row, column}) for column in NAMES[: i + 1])
        shown = [str(found[pair]) if pair in found else "–" for pair in pairs]
        shown += [""] * (len(NAMES) - len(shown))
        lines.append(f"| **{row}** | {' | '.join(shown)} |")
    lines += [f"* {'+'.join(sorted(pair))}: {cell.problem}" for pair, cell in failed.items()]
    return "\n".join(lines)


def main(path: Path) -> int:
    """Write the tables and say whether all cases passed."""
    found = {head_dim: cells(head_dim) for head_dim in KERNELS}
    sections = [table(KERNELS[head_dim], head_dim, part) for head_dim, part in found.items()]
    text = path.read_text() if path.exists() else ""
    head = text.split("\n## ", 1)[0].rstrip()
    path.write_text("\n\n".join([head, *sections]) + "\n")
    return int(any(cell.problem for part in found.values() for cell in part.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Asks a Hopper GPU for latencies and rates, and puts the clocked machine's parameters beside them.

    python -m benchmarks.timing.micro run RESULTS.json [REGEX]     on a machine with a GPU
    python -m benchmarks.timing.micro show RESULTS.json    a table

Cycles of the slowest thread, in the fastest of the last rounds; the time of one is the difference
of two lengths' times over the difference of the lengths. With REGEX questions whose names it finds
are asked, and nothing about what lies between CTAs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from benchmarks.timing.beside import APART_QUESTIONS, BESIDE_QUESTIONS, LANE_QUESTIONS
from benchmarks.timing.mixtures import MIXTURE_QUESTIONS
from benchmarks.timing.more_questions import (
    ASKED_QUESTIONS,
    CONVERSION_QUESTIONS,
    GAPS,
    LASTS,
    MORE_QUESTIONS,
    gap_case,
    gaps_of,
)
from benchmarks.timing.questions import QUESTIONS, ROUNDS, Question
from testing.hardware.case import Case

ALL = (*QUESTIONS, *MORE_QUESTIONS, *BESIDE_QUESTIONS, *LANE_QUESTIONS, *APART_QUESTIONS,
       *CONVERSION_QUESTIONS, *MIXTURE_QUESTIONS, *ASKED_QUESTIONS)  # fmt: skip
Runner = Callable[[Case], list[np.ndarray]]


def answer(question: Question, run: Runner) -> dict[str, Any]:
    """Ask one question: cycles of both lengths, of one step, and what is left."""
    short, long = (_cycles(question, count, run) for count in question.counts)
    one = (long - short) / (question.counts[1] - question.counts[0])
    return {
        "name": question.name,
        "tells": question.tells,
        "counts": question.counts,
        "cycles": [short, long],
        "one": one,
        "rest": short - one * question.counts[0],
    }


def _cycles(question: Question, count: int, run: Runner) -> float:
    (raw,) = run(question.case(count))
    rounds = raw.reshape(ROUNDS, question.grid, -1)[1:]  # the first one fetches code
    return float(rounds[..., question.first :].max(axis=(1, 2)).min())


class Named(Protocol):
    """A question of any kind."""

    @property
    def name(self) -> str:
        """Unique."""


Asked = TypeVar("Asked", bound=Named)


def answered(
    questions: Iterable[Asked], run: Runner, of: Callable[[Asked, Runner], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Answers to all questions, `of` each; one that fails says how, and the others are asked."""
    for question in questions:
        try:
            yield of(question, run)
        except Exception as error:
            yield {"name": question.name, "failed": f"{type(error).__name__}: {error}"[:300]}


def ask(only: str = "") -> dict[str, Any]:
    """Ask a GPU everything, or what a regular expression finds; one that fails says how."""
    from testing.hardware.device import opened

    device = opened()
    answers = [*answered((q for q in ALL if re.search(only, q.name)), device.run, answer)]
    found = {**device.describe(), "answers": answers}
    return found if only else {**found, "gaps": [*gaps(device.run)]}


def gaps(run: Runner) -> Iterator[dict[str, Any]]:
    """What lies between a CTA and the next one: 5 %, 50 % and 95 % of all, and the mean."""
    for threads, resident in GAPS:
        for lasts in LASTS:
            found = gaps_of(run(gap_case(threads, resident, lasts))[0], resident)
            yield {
                "block": threads, "resident": resident, "spin": lasts[0], "mask": lasts[1],
                "gap": np.percentile(found, (5, 50, 95)).tolist(), "mean": float(found.mean()),
            }  # fmt: skip


def table(results: dict[str, Any]) -> str:
    """The answers as a table."""
    lines = ["| what | cycles | fixed part | tells |", "|---|---|---|---|"]
    for entry in results["answers"]:
        if "failed" in entry:
            lines.append(f"| {entry['name']} | {entry['failed']} | | |")
        else:
            numbers = f"{entry['one']:.1f} | {entry['rest']:.0f}"
            lines.append(f"| {entry['name']} | {numbers} | {entry['tells']} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run or show; returns the exit status."""
    match arguments:
        case ["run", path, *only]:
            Path(path).write_text(json.dumps(ask(*only), indent=1) + "\n")
        case ["show", path]:
            print(table(json.loads(Path(path).read_text())))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

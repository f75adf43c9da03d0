"""The clocked machine asked what a GPU was asked: the same micro-kernels, in the machine's cycles.

    python -m benchmarks.timing.replayed benchmarks/timing/h200.json

A value of a chip that comes from a question is one with which the machine gives the GPU's answer.
One CTA is replayed; no GPU is needed.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from benchmarks.timing.questions import QUESTIONS, ROUNDS, Question
from sm100sim.contract.codes import LANES
from sm100sim.crew.recording import recording
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import run_cluster
from sm100sim.timing.model.machine import replay
from sm100sim.timing.records import ClusterTrace, LaunchTrace
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.trace import traced
from testing.hardware.case import Case
from testing.hardware.device import TARGET
from testing.hardware.simulate import simulate

CHIP: Final = "h200"
WARM: Final = {"icache_next": 0.0, "icache_jump": 0.0}
"""The GPU's first round, which fetches code, does not count."""


class Asked(Protocol):
    """A micro-kernel of two lengths."""

    @property
    def counts(self) -> tuple[int, int]:
        """Its steps."""

    @property
    def grid(self) -> int:
        """CTAs."""

    def case(self, count: int) -> Case:
        """The micro-kernel with `count` steps."""


def trace_of(question: Asked, count: int) -> ClusterTrace:
    """What the first CTA of a micro-kernel executes.

    Raises:
        Unmatched: the compiler left steps out, or what a warp did has no way through its code.
    """
    return trace_of_case(question.case(count))


def launch_of_case(case: Case) -> LaunchTrace:
    """A micro-kernel's launch, of which the first cluster is executed; errors as of `trace_of`.

    Statements have lines of their own: a way through the machine code follows from lines.
    """
    case = replace(case, body=case.body.replace(";", ";\n"))
    with recording([0], others=False) as launches:
        simulate(case)
    return traced(compiled(case.text(TARGET), TARGET, "k"), launches[0])


def trace_of_case(case: Case) -> ClusterTrace:
    """What the first cluster of a micro-kernel's launch executes; errors as of `trace_of`."""
    return launch_of_case(case).traces[0]


def draw_for(question: Asked, chip: str = CHIP) -> Draw:
    """The chip's values; a CTA that is alone has its port to the L2 to itself."""
    draw = load_chip(chip).draw()
    pressure = {"l2_pressure": float(question.grid > 1)}
    return draw.having({**WARM, **pressure})


def cycles_of_one(question: Asked, draw: Draw) -> float:
    """Cycles of one step: the difference of two lengths, over all rounds."""
    short, long = (run_cluster(trace_of(question, count), draw).cycles for count in question.counts)
    return (long - short) / ROUNDS / (question.counts[1] - question.counts[0])


def clocked(question: Question, draw: Draw) -> list[float]:
    """Cycles of both lengths as a GPU says them: between readings of the clock by whom it watches.

    Of the slowest warp in the fastest of the rounds but the first.
    """
    found = []
    for count in question.counts:
        trace = trace_of(question, count)
        issued = np.array(replay(trace, draw, stand_room=1).issued)
        reads = [k for k, i in enumerate(trace.kernel.instructions) if "CLOCK" in i.operands]
        at, slowest = 0, np.zeros(ROUNDS)
        for stream in trace.streams:
            times = issued[at : at + len(stream.order)][np.isin(stream.order, reads)]
            at += len(stream.order)
            if stream.warp * LANES >= question.first:
                slowest = np.maximum(slowest, np.diff(times.reshape(ROUNDS, -1)).ravel())
        found.append(float(slowest[1:].min()))
    return found


def compared(answers: Mapping[str, float]) -> Iterator[tuple[str, float, float | str]]:
    """Each question of the record: its name, what the GPU said, and the machine or why not."""
    for question in QUESTIONS:
        said = answers[question.name]
        try:
            yield question.name, said, cycles_of_one(question, draw_for(question))
        except Exception as error:  # a table shows what fails and goes on
            yield question.name, said, f"{type(error).__name__}: {str(error)[:80]}"


def answers_of(recorded: Mapping[str, Any]) -> dict[str, float]:
    """Cycles of one step by question."""
    return {entry["name"]: entry["one"] for entry in recorded["answers"] if "one" in entry}


def main(arguments: list[str]) -> int:
    """Compare with a record; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="what a GPU answered")
    record = parser.parse_args(arguments).record
    print("| what | GPU | machine |\n|---|---|---|")
    for name, said, machine in compared(answers_of(json.loads(record.read_text()))):
        shown = machine if isinstance(machine, str) else f"{machine:.1f}"
        print(f"| {name} | {said:.1f} | {shown} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

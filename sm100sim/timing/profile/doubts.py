"""Where the way through machine code may be another than the run's: blocks that it has too seldom,
and loads and stores that it makes too often.

ptxas may unroll a loop that has neither barriers nor accesses; then nothing tells how often its
code ran. The run knows how often each block of PTX was entered, so a block whose instructions were
executed less often on machine code is named; and how many bytes the lanes of a warp moved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from ...crew.recording import Recording
from ..records import ClusterTrace, LaunchTrace
from ..sass.script import Program
from ..sass.turns import OPCODES, PLAIN, access_bytes, lane_bytes

SELDOM: Final = 0.7
"""Part of a block's executions below which it is named."""
FEW_LINES: Final = 3
"""Lines with machine code that a block needs: what is left of fewer may belong elsewhere."""
LEAST: Final = 0.01
"""Part of all instructions that must be missing."""
OFTEN: Final = 1.5
"""Times the bytes of a load or store from which it is named."""


def too_seldom(recorded: Recording, launch: LaunchTrace) -> list[str]:
    """Return sentences about the blocks whose machine code ran less often than they did."""
    executed = _by_line(launch)
    whole = sum(executed.values())
    entered = _entered(recorded, launch, masked=True)
    starts = np.flatnonzero(entered).tolist()
    lines: dict[int, set[int]] = defaultdict(set)
    for index, line in enumerate(recorded.assembled.code["line"].tolist()):
        at = bisect_right(starts, index) - 1
        if at >= 0 and line in executed:
            lines[starts[at]].add(line)
    found = []
    for start, of in lines.items():
        times = int(entered[start])
        most = np.array([min(executed[line] / times, 1) for line in of])
        missing = times * float((1 - most).sum())
        if len(of) >= FEW_LINES and most.max() < SELDOM and missing > LEAST * whole:
            found.append(
                f"PTX lines {min(of)} to {max(of)} ran {times:,} times, and their machine code "
                f"only {most.max():.0%} as often"
            )
    return found


def too_often(recorded: Recording, launch: LaunchTrace) -> list[str]:
    """Return sentences about loads and stores whose machine code moved more than they did.

    Instructions under a guard, which may not have moved anything, do not count.
    """
    program = Program(recorded)
    ran = _entered(recorded, launch, masked=False).tolist()
    asked: dict[int, int] = defaultdict(int)
    for k, name in enumerate(program.names):
        if name in PLAIN and ran[k] and access_bytes(program, k):
            asked[program.lines[k]] += ran[k] * access_bytes(program, k)
    moved: dict[int, int] = defaultdict(int)
    for trace, index, count in _executions(launch):
        instruction = trace.kernel.instructions[index]
        sure = instruction.opcode in OPCODES and not instruction.guarded
        if sure and instruction.ptx_line in asked:
            moved[instruction.ptx_line] += count * lane_bytes(instruction)
    return [
        f"machine code of PTX line {line} moves {size / asked[line]:.1f} times the bytes that the "
        "run moved: a loop may turn too often"
        for line, size in sorted(moved.items())
        if size > OFTEN * asked[line]
    ]


def _entered(recorded: Recording, launch: LaunchTrace, *, masked: bool) -> np.ndarray:
    """How often warps of the traced clusters came to each instruction of the PTX.

    Args:
        masked: whether it counts where no lane executed it.
    """
    clusters = [number for trace in launch.traces for number in trace.clusters]
    chosen = np.isin(recorded.steps["cluster"], clusters)
    if not masked:
        chosen &= recorded.steps["mask"] > 0
    of = recorded.steps["instruction"][chosen]
    return np.bincount(of, minlength=len(recorded.assembled.code))


def _executions(launch: LaunchTrace) -> Iterator[tuple[ClusterTrace, int, int]]:
    """Instructions of machine code that warps executed, and how often those of all clusters did."""
    for trace in launch.traces:
        order = np.concatenate([stream.order for stream in trace.streams])
        for index, count in enumerate(np.bincount(order).tolist()):
            if count:
                yield trace, index, count * len(trace.clusters)


def _by_line(launch: LaunchTrace) -> dict[int, int]:
    """Executed warp instructions of the traced clusters by PTX line."""
    found: dict[int, int] = defaultdict(int)
    for trace, index, count in _executions(launch):
        line = trace.lines.get(index, trace.kernel.instructions[index].ptx_line)
        if line is not None:
            found[line] += count
    return dict(found)

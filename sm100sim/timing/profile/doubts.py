"""Where the way through machine code may be another than the run's: blocks that it has too seldom.

ptxas may unroll a loop that has neither barriers nor copies; then nothing tells how often its code
ran. The run knows how often each block of PTX was entered, so a block whose instructions were
executed less often on machine code is named.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Final

import numpy as np

from ...crew.recording import Recording
from ..records import LaunchTrace

SELDOM: Final = 0.7
"""Part of a block's executions below which it is named."""
FEW_LINES: Final = 3
"""Lines with machine code that a block needs: what is left of fewer may belong elsewhere."""
LEAST: Final = 0.01
"""Part of all instructions that must be missing."""


def too_seldom(recorded: Recording, launch: LaunchTrace) -> list[str]:
    """Return sentences about the blocks whose machine code ran less often than they did."""
    executed = _by_line(launch)
    whole = sum(executed.values())
    clusters = [number for trace in launch.traces for number in trace.clusters]
    steps = recorded.steps[np.isin(recorded.steps["cluster"], clusters)]
    entered = np.bincount(steps["instruction"], minlength=len(recorded.assembled.code))
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


def _by_line(launch: LaunchTrace) -> dict[int, int]:
    """Executed warp instructions of the traced clusters by PTX line."""
    found: dict[int, int] = defaultdict(int)
    for trace in launch.traces:
        instructions = trace.kernel.instructions
        order = np.concatenate([stream.order for stream in trace.streams])
        for index, count in enumerate(np.bincount(order).tolist()):
            line = trace.lines.get(index, instructions[index].ptx_line)
            if count and line is not None:
                found[line] += count * len(trace.clusters)
    return dict(found)

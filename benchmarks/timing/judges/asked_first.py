"""Who of the CTAs that share rows asks first, launch by launch: what the machine has not. No GPU.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.judges.asked_first [--only REGEX]

The machine has one CTA for all, and each that shares rows waits for memory. Here CTAs take SMs in
the order of the launch, and a row is asked for once: who asks for it while it is under way waits
for the rest, who asks later finds it in the L2 (`sharing/cold.py`, whose CTAs that begin 800 cycles
apart do). Both times of a CTA, with rows of the L2 and of memory, are the machine's; the
difference over what memory takes longer is how often it waits. Those who share follow one another
in the launch, as the query tiles of a head do in Triton's attention: a launch does not say so.
"""

from __future__ import annotations

import argparse
import heapq
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Final

MEASURED: Final = Path(__file__).with_name("measured.json")
FAMILY: Final = "Triton attention"
LONGER: Final = "copy_memory_latency"


@dataclass(frozen=True)
class Shared:
    """A launch whose CTAs share rows.

    Attributes:
        groups: that share nothing. sharers: CTAs of each, one behind another in the launch.
        near, far: cycles of a CTA whose rows all lie in the L2, and all come from memory.
        longer: cycles that a row takes longer from memory. places: CTAs that run at once.
        gap: cycles from one CTA of a place to its next.
    """

    groups: int
    sharers: int
    near: float
    far: float
    longer: float
    places: int
    gap: float

    @property
    def waits(self) -> int:
        """How often a CTA waits for rows."""
        return round((self.far - self.near) / self.longer)


@dataclass(frozen=True)
class Run:
    """What a launch takes: in all, of each CTA in the order of their ends, and waits' mean."""

    cycles: float
    ctas: tuple[float, ...]
    wait: float


def run(launch: Shared) -> Run:
    """Let CTAs take places in their order, and ask for rows as evenly as they wait."""
    count, step = launch.groups * launch.sharers, launch.near / max(launch.waits, 1)
    asked: dict[tuple[int, int], float] = {}
    # Time, place, CTA, rows it has had, and when it began.
    events = [(launch.gap, p, p, 0, launch.gap) for p in range(min(launch.places, count))]
    following, ends, ctas, waited = len(events), 0.0, [], []
    while events:
        now, place, cta, had, begun = heapq.heappop(events)
        if had < launch.waits:
            first = asked.setdefault((cta // launch.sharers, had), now)
            waited.append(max(0.0, first + launch.longer - now))
            event = (now + waited[-1] + step, place, cta, had + 1, begun)
            heapq.heappush(events, event)
            continue
        ends = max(ends, now)
        ctas.append(now - begun)
        if following < count:
            begin = now + launch.gap
            heapq.heappush(events, (begin, place, following, 0, begin))
            following += 1
    return Run(ends, tuple(ctas), mean(waited) if waited else 0.0)


def main() -> None:
    """Print Triton's attention of one CTA an SM beside the machine and an H200."""
    from benchmarks.timing.judges.cases import CASES
    from benchmarks.timing.judges.launches import begin, trace_of
    from benchmarks.timing.judges.predictions import CHIP
    from benchmarks.timing.judges.problems import Attention
    from sm100sim.timing.chips import load_chip
    from sm100sim.timing.predict.gpu import asked_of_l2, time_launch

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over names")
    only = parser.parse_args().only
    begin()
    rows = json.loads(MEASURED.read_text())["rows"]
    measured = {row["name"]: row["cycles"] for row in rows if "cycles" in row}
    for case in (c for c in CASES if c.family == FAMILY and re.search(only, c.name)):
        launch = trace_of(case)
        draw = asked_of_l2(launch, load_chip(CHIP).draw())
        near_draw = replace(draw, values={**draw.values, LONGER: 0.0})
        near, far = (time_launch(launch, d, cold=True) for d in (near_draw, draw))
        if far.resident > 1 or not isinstance(case.problem, Attention) or case.problem.causal:
            continue
        sharers, groups = launch.grid[:2]
        found = run(Shared(
            groups, sharers, near.longest.cycles, far.longest.cycles, draw[LONGER],
            far.places, draw["cta_cycles"],
        ))  # fmt: skip
        cycles, chip = found.cycles + draw["launch_cycles"], measured[case.name]
        print(
            f"{case.name}: measured {chip:,.0f}, machine {far.cycles / chip - 1:+.1%}, here "
            f"{cycles / chip - 1:+.1%}; a wait {found.wait:.0f} of {draw[LONGER]:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

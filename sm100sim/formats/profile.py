"""Where a kernel's instructions and waits are, as far as a functional run knows.

Executed warp instructions are counted exactly. Cycles are modelled from published throughputs and
latencies: warps do not compete for issue slots, and nothing was measured on a chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..ptx.places import SourcePlace
from ..report import EventKind, HotSpot, Report
from ..timeline import warp_spans

CYCLES = "modelled cycles (published throughputs and latencies; not measured on a chip)"


@dataclass(frozen=True)
class Wait:
    """A line at which warps of the traced cluster waited.

    Attributes:
        line, source, place: the PTX line, its text, and its source line if that is known.
        cycles: modelled, of all warps together.
        times: how often.
    """

    line: int
    source: str
    place: SourcePlace | None
    cycles: int
    times: int

    def __str__(self) -> str:
        ptx = f"PTX line {self.line}: {self.source.strip()}"
        return ptx if self.place is None else f"{self.place}\n        {ptx}"


@dataclass(frozen=True)
class WarpTime:
    """Modelled cycles of one warp of the traced cluster, and the line that it waited at most."""

    rank: int
    warp: int
    busy: int
    waiting: int
    line: int


@dataclass(frozen=True)
class Profile:
    """All launches of one kernel.

    Attributes:
        kernel: its name.
        launches: how many.
        instructions: executed warp instructions of all of them.
        cycles: modelled, of the slowest launch.
        tensor_cycles: modelled, in which the tensor pipes of its traced cluster work.
        operations: engine operation -> executed warp instructions.
        hot_spots: source lines by executed warp instructions, of the slowest launch.
        waits: lines by modelled waiting, of the same.
        warps: its warps' modelled time.
    """

    kernel: str
    launches: int
    instructions: int
    cycles: int
    tensor_cycles: int
    operations: Mapping[str, int]
    hot_spots: Sequence[HotSpot]
    waits: Sequence[Wait]
    warps: Sequence[WarpTime]


def profiles(reports: Iterable[Report], most: int = 10) -> list[Profile]:
    """One profile per kernel, in the order of their first launches.

    Args:
        reports: of launches with a traced cluster (`RunOptions.trace_cluster`).
        most: how many lines of each kind.
    """
    kernels: dict[str, list[Report]] = {}
    for report in reports:
        kernels.setdefault(report.kernel, []).append(report)
    return [_profile(name, launches, most) for name, launches in kernels.items()]


def _profile(kernel: str, launches: Sequence[Report], most: int) -> Profile:
    slowest = max(launches, key=lambda report: report.cycles)
    operations: Counter[str] = Counter()
    for report in launches:
        operations.update(report.opcode_counts)
    return Profile(
        kernel=kernel,
        launches=len(launches),
        instructions=sum(report.instructions for report in launches),
        cycles=slowest.cycles,
        tensor_cycles=sum(e.end - e.start for e in slowest.events if e.kind is EventKind.MMA),
        operations=dict(operations.most_common()),
        hot_spots=slowest.hot_spots(most),
        waits=_waits(slowest)[:most],
        warps=_warps(slowest),
    )


def _waits(report: Report) -> list[Wait]:
    cycles: Counter[int] = Counter()
    times: Counter[int] = Counter()
    for event in report.events:
        if event.kind is EventKind.WAIT:
            cycles[event.line] += event.end - event.start
            times[event.line] += 1
    places = report.places
    return [
        Wait(line, places.ptx_line(line), places.at(line), spent, times[line])
        for line, spent in cycles.most_common()
    ]


def _warps(report: Report) -> list[WarpTime]:
    own = (EventKind.WAIT, EventKind.MARK)
    found = []
    for rank, warp in sorted({(e.rank, e.warp) for e in report.events if e.kind in own}):
        spans = warp_spans(report, warp, rank)
        lines: Counter[int] = Counter()
        for span in spans:
            if span.label == "wait":
                lines[span.line] += span.end - span.start
        busy = sum(span.end - span.start for span in spans if span.label == "busy")
        line = lines.most_common(1)[0][0] if lines else 0
        found.append(WarpTime(rank, warp, busy, lines.total(), line))
    return found


def profile_text(found: Profile, most: int = 10) -> str:
    """A profile for people."""
    lines = [
        f"{found.kernel}: {found.launches} launches, {found.instructions:,} warp instructions",
        f"  {found.cycles:,} {CYCLES}; tensor pipes of cluster 0 busy for {found.tensor_cycles:,}",
        "  source lines by executed warp instructions (slowest launch):",
        *(f"    {spot}" for spot in found.hot_spots),
        "  operations by executed warp instructions:",
    ]
    for name, count in list(found.operations.items())[:most]:
        lines.append(f"    {count:,} ({_share(count, found.instructions)}) {name}")
    lines.append("  waits of cluster 0 by modelled cycles, all warps together:")
    lines += [f"    {wait.cycles:,} in {wait.times:,} waits, {wait}" for wait in found.waits]
    lines.append("  warps of cluster 0 in modelled cycles:")
    for warp in found.warps:
        share = _share(warp.waiting, warp.busy + warp.waiting)
        where = f", most at PTX line {warp.line}" if warp.line else ""
        name = f"CTA rank {warp.rank}, warp {warp.warp}"
        lines.append(f"    {name}: busy {warp.busy:,}, waits {warp.waiting:,} ({share}){where}")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"

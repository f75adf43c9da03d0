"""What a run on the virtual SM100 tells: findings, counts, timeline events."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .events import Event, EventKind, Finding
from .findings.suppress import Suppressed
from .options import Ambient, RunOptions
from .ptx.errors import Unsupported
from .ptx.places import Places, SourcePlace

__all__ = [
    "Event",
    "EventKind",
    "Finding",
    "FindingsError",
    "HotSpot",
    "Report",
    "SimulationFault",
    "UnsupportedExecuted",
    "keep",
    "record",
]


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A line of the program and the warp instructions it executed.

    Attributes:
        place: the source line, or None where the PTX has no line information for it.
        lines: the PTX lines that belong to it, ascending.
        instructions: executed warp instructions of all of them.
        source: text of the PTX line among them that executed the most.
    """

    place: SourcePlace | None
    lines: tuple[int, ...]
    instructions: int
    source: str = ""

    def __str__(self) -> str:
        more = f" and {len(self.lines) - MOST_LINES} more" if len(self.lines) > MOST_LINES else ""
        shown = ", ".join(str(line) for line in self.lines[:MOST_LINES])
        ptx = f"PTX line {shown}{more}: {self.source.strip()}"
        where = ptx if self.place is None else f"{self.place}\n        {ptx}"
        return f"{self.instructions:,} {where}"


MOST_LINES = 8
"""PTX lines of a hot spot that its text names."""


@dataclass(frozen=True, repr=False)
class Report:
    """The result of one launch.

    Attributes:
        kernel, grid, block, cluster: what was launched.
        verdict: "clean", "findings" (rules broken, see `findings`) or "incomplete" (nothing was
            found, but the run did not end, or a finding or access history had to be dropped).
        complete: the run ended and nothing was dropped; with findings, there may be others if not.
        findings: in the order in which they were found.
        instructions: executed warp instructions; `thread_instructions` counts active lanes.
        seconds: wall time of the execution; `prepare_seconds`: parsing and lowering of the PTX.
        opcode_counts: engine operation -> executed warp instructions.
        line_counts: PTX line -> executed warp instructions.
        events: timeline of the traced cluster.
        memory_check: what global accesses were checked against.
        output: what the kernel printed, of all lanes in the order of their calls.
        places: source lines by PTX line, where the PTX has line information.
        suppressed: findings that are accepted (`RunOptions.suppressions`), with the reasons.
        options: how it ran; the same options repeat the run.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    verdict: str
    complete: bool
    findings: tuple[Finding, ...]
    instructions: int
    thread_instructions: int
    clusters: int
    seconds: float
    prepare_seconds: float
    tma_bytes_loaded: int
    tma_bytes_stored: int
    mma_instructions: int
    mma_flops: int
    opcode_counts: Mapping[str, int]
    line_counts: Mapping[int, int]
    events: Sequence[Event] = field(default=())
    memory_check: str = "registered allocations"
    output: str = ""
    places: Places = field(default_factory=Places, compare=False)
    suppressed: tuple[Suppressed, ...] = ()
    options: RunOptions = field(default_factory=RunOptions)

    @classmethod
    def not_run(cls, kernel: str, *shape: tuple[int, int, int]) -> Report:
        """Of a launch that was kept for later.

        Args:
            kernel: its name.
            shape: grid, block and cluster.
        """
        grid, block, cluster = shape
        return cls(
            kernel, grid, block, cluster, "incomplete", False, (), instructions=0,
            thread_instructions=0, clusters=0, seconds=0.0, prepare_seconds=0.0,
            tma_bytes_loaded=0, tma_bytes_stored=0, mma_instructions=0, mma_flops=0,
            opcode_counts={}, line_counts={},
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        """Whether every CTA ran to its end; `complete` also asks that nothing was dropped."""
        stopped = any(finding.fatal for finding in self.findings)
        return not stopped and self.clusters * math.prod(self.cluster) == math.prod(self.grid)

    @property
    def instructions_per_second(self) -> float:
        """Executed warp instructions per second of wall time."""
        return self.instructions / self.seconds if self.seconds > 0 else 0.0

    def hot_spots(self, most: int = 10) -> list[HotSpot]:
        """The source lines that executed the most warp instructions, the largest number first.

        Args:
            most: number of lines; each PTX line without line information counts separately.
        """
        counts: Counter[tuple[str, int]] = Counter()
        lines: dict[tuple[str, int], list[int]] = {}
        for line, count in sorted(self.line_counts.items()):
            place = self.places.at(line) if count else None
            key = (place.file, place.line) if place else ("", line)
            counts[key] += count
            lines.setdefault(key, []).append(line)
        return [
            HotSpot(
                self.places.at(lines[key][0]) if key[0] else None, tuple(lines[key]), count,
                self.places.ptx_line(max(lines[key], key=lambda line: self.line_counts[line])),
            )
            for key, count in counts.most_common(most)
            if count
        ]  # fmt: skip

    def draw(self, path: str | Path, finding: int | None = None) -> Path:
        """Write the timeline as a picture, with the accesses of a finding marked.

        Args:
            path: a file name whose suffix gives the format, e.g. "race.svg".
            finding: index in `findings`; by default the first one that names two accesses, if any.

        Raises:
            ValueError: no timeline was recorded, or the finding is not in the traced cluster.
        """
        from .timeline import draw

        if finding is None:
            pairs = [k for k, f in enumerate(self.findings) if f.line and f.line2]
            finding = pairs[0] if pairs else None
        return draw(self, path, finding=finding)

    def __repr__(self) -> str:
        """One line; :meth:`summary` and the fields hold the rest."""
        return (
            f"<Report of {self.kernel}: {self.verdict}, {len(self.findings)} findings, "
            f"grid {self.grid}, {self.instructions:,} warp instructions in {self.seconds:.3f} s>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the launch in a line, the findings in a table."""
        head = f"<b>{html.escape(self.kernel)}</b>: {html.escape(self.verdict)}"
        line = html.escape(self.summary().splitlines()[1].strip())
        rows = "".join(_html_row(f) for f in self.findings)
        titles = "".join(f"<th>{t}</th>" for t in ("finding", "message", "where", "who", "times"))
        table = f"<table><tr>{titles}</tr>{rows}</table>" if rows else ""
        table += f"<br>{len(self.suppressed)} suppressed" if self.suppressed else ""
        return f"<div>{head}, grid {self.grid}, block {self.block}<br>{line}{table}</div>"

    def summary(self) -> str:
        """A summary of a few lines."""
        lines = [
            f"{self.kernel}: {self.verdict}; "
            f"grid {self.grid}, cluster {self.cluster}, block {self.block}",
            f"  {self.instructions:,} warp instructions in {self.seconds:.3f} s "
            f"({self.instructions_per_second:,.0f}/s), {self.mma_instructions:,} MMAs, "
            f"{self.tma_bytes_loaded:,} bytes loaded and {self.tma_bytes_stored:,} stored by TMA",
        ]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [
            f"  suppressed {finding.code} at PTX line {finding.line}: {rule.reason}"
            for finding, rule in self.suppressed
        ]
        return "\n".join(lines)


def _html_row(finding: Finding) -> str:
    places = [
        (finding.place, finding.line, finding.source),
        (finding.place2, finding.line2, finding.source2),
    ]
    ptx = "<br>".join(
        (f"{html.escape(str(place))}<br>" if place else "")
        + f"PTX line {line}: <code>{html.escape(source.strip())}</code>"
        for place, line, source in places
        if line
    )
    who = "" if finding.warp is None else f"CTA {finding.ctaid}, warp {finding.warp}"
    name = html.escape(finding.code)
    cells = (f"<b>{name}</b>" if finding.fatal else name, html.escape(finding.message), ptx, who)
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in (*cells, finding.count))}</tr>"


class FindingsError(RuntimeError):
    """A launch broke rules (`RunOptions.raise_on_findings`); `.report` holds all that is known."""

    def __init__(self, report: Report, what: str = "") -> None:
        self.report = report
        shown = what or "\n".join(str(f) for f in report.findings)
        count = len(report.findings)
        head = "stopped" if what else f"has {count} finding{'s' if count > 1 else ''}"
        super().__init__(f"{report.kernel} {head} on the virtual SM100\n{shown}")


class SimulationFault(FindingsError):
    """A launch broke a rule and stopped; `.report` holds everything known about it."""

    def __init__(self, report: Report) -> None:
        super().__init__(report, "\n".join(str(f) for f in report.findings if f.fatal))


class UnsupportedExecuted(SimulationFault, Unsupported):
    """A launch reached an instruction that can be parsed but is not supported."""

    def __init__(self, report: Report, why: Unsupported) -> None:
        SimulationFault.__init__(self, report)
        self.line, self.text, self.what, self.column = why.line, why.text, why.what, why.column


_recording: Ambient[tuple[list[Report], ...]] = Ambient("sm100sim_recording", ())


def keep(report: Report) -> None:
    """Add a report to the lists of all the `record` blocks around its launch."""
    for reports in _recording.get():
        reports.append(report)


@contextmanager
def record(
    reports: list[Report] | None = None, *, everywhere: bool = False
) -> Iterator[list[Report]]:
    """Collect the reports of all launches inside the block, faulted ones too, in their order.

    Example: ``with sm100sim.record() as reports: ...``. The block records the launches of its own
    thread or asynchronous task, as with `run_options`; blocks may be nested.

    Args:
        reports: the list that they are added to; a new one if not given.
        everywhere: also record all threads that have no `record` block of their own.
    """
    reports = [] if reports is None else reports
    with _recording.put((*_recording.get(), reports), everywhere):
        yield reports

"""What a run on the virtual SM100 tells: findings, counts, modelled time, timeline events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .events import Event, EventKind, Finding

__all__ = ["Event", "EventKind", "Finding", "Report", "SimulationFault"]


@dataclass(frozen=True)
class Report:
    """The result of one launch.

    Attributes:
        kernel, grid, block, cluster: what was launched.
        verdict: "clean", "findings" (rules broken, see `findings`) or "incomplete" (nothing was
            found, but the run did not end, or a finding or access history had to be dropped).
        complete: the run ended and nothing was dropped; with findings, there may be others if not.
        findings: in the order they were met.
        instructions: executed warp instructions; `thread_instructions` counts active lanes.
        seconds: wall time of the execution; `prepare_seconds`: parsing and lowering of the PTX.
        cycles: modelled time of the slowest warp of the slowest cluster, from published
            throughputs and latencies; nothing here was measured on a chip.
        opcode_counts: engine operation -> executed warp instructions.
        line_counts: PTX line -> executed warp instructions.
        events: timeline of the traced cluster.
        memory_check: what global accesses were checked against.
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
    cycles: int
    tma_bytes_loaded: int
    tma_bytes_stored: int
    mma_instructions: int
    mma_flops: int
    opcode_counts: Mapping[str, int]
    line_counts: Mapping[int, int]
    events: Sequence[Event] = field(default=())
    memory_check: str = "registered allocations"

    @property
    def instructions_per_second(self) -> float:
        """Executed warp instructions per second of wall time."""
        return self.instructions / self.seconds if self.seconds > 0 else 0.0

    def draw(self, path: str | Path, finding: int | None = None) -> Path:
        """Write the timeline as a picture, with the accesses of a finding marked.

        Args:
            path: a file name whose suffix gives the format, e.g. "race.svg".
            finding: index in `findings`; without it the first that names two accesses, if any.

        Raises:
            ValueError: no timeline was recorded, or the finding is not in the traced cluster.
        """
        from .timeline import draw

        if finding is None:
            pairs = [k for k, f in enumerate(self.findings) if f.line and f.line2]
            finding = pairs[0] if pairs else None
        return draw(self, path, finding=finding)

    def summary(self) -> str:
        """A few lines for people."""
        lines = [
            f"{self.kernel}: {self.verdict}; "
            f"grid {self.grid}, cluster {self.cluster}, block {self.block}",
            f"  {self.instructions:,} warp instructions in {self.seconds:.3f} s "
            f"({self.instructions_per_second:,.0f}/s), {self.mma_instructions:,} MMAs, "
            f"{self.tma_bytes_loaded:,} bytes loaded and {self.tma_bytes_stored:,} stored by TMA",
        ]
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)


class SimulationFault(RuntimeError):
    """A launch broke a rule and stopped; `.report` holds everything known about it."""

    def __init__(self, report: Report) -> None:
        self.report = report
        shown = "\n".join(str(f) for f in report.findings if f.fatal)
        super().__init__(f"{report.kernel} stopped on the virtual SM100\n{shown}")

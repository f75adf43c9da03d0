"""What a launch leaves behind, of one machine or of several that shared its clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..contract.records import RawFinding, Totals
from ..events import Event, EventKind

SUMS = (
    "instructions", "thread_instructions", "clusters_done", "tma_bytes_loaded", "tma_bytes_stored",
    "mma_instructions", "mma_flops",
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """Counts, findings and timeline of a launch.

    Attributes:
        totals: counts of the run.
        per_opcode, per_instruction: executed warp instructions, by engine opcode and by position.
        findings: in the order they were met, the fault among them.
        events: timeline of the traced cluster.
        output: what the kernel printed.
    """

    totals: Totals
    per_opcode: Sequence[int]
    per_instruction: Sequence[int]
    findings: Sequence[RawFinding]
    events: Sequence[Event]
    output: str


def _key(finding: RawFinding) -> tuple[bytes, int, int]:
    return finding.code, finding.line, finding.line2


def _findings(parts: Sequence[Results]) -> dict[tuple[bytes, int, int], RawFinding]:
    """All findings in the order in which one thread would have met them.

    A machine runs its clusters by ascending index, so its list is ordered by the cluster of the
    first sight; what two machines saw belongs to the lower index.
    """
    found: dict[tuple[bytes, int, int], RawFinding] = {}
    for finding in sorted((f for part in parts for f in part.findings), key=lambda f: f.cluster):
        first = found.setdefault(_key(finding), finding)
        if first is not finding:
            first.count += finding.count
    return found


def _events(
    parts: Sequence[Results], order: dict[tuple[bytes, int, int], int], kept: set[int]
) -> list[Event]:
    """The timeline; marks of findings count in the common list, and other clusters' are left out.

    Args:
        parts: results of all machines.
        order: place of each finding in the common list.
        kept: `id` of the findings in that list.
    """
    out = []
    for part in parts:
        for event in part.events:
            if event.kind is not EventKind.FINDING:
                out.append(event)
            elif id(part.findings[event.a]) in kept:
                out.append(replace(event, a=order[_key(part.findings[event.a])]))
    return out


def merged(parts: Sequence[Results], max_findings: int) -> Results:
    """What one machine would have told that had run the clusters of all, none of which faulted.

    Args:
        parts: one per machine; their findings are complete, and they printed nothing.
        max_findings: further findings are dropped.
    """
    found = _findings(parts)
    findings = list(found.values())[:max_findings]
    order = {_key(finding): place for place, finding in enumerate(findings)}
    first = parts[0].totals
    totals = Totals(clusters_total=first.clusters_total)
    for name in SUMS:
        setattr(totals, name, sum(getattr(part.totals, name) for part in parts))
    totals.lost = int(len(found) > max_findings)
    return Results(
        totals,
        [sum(counts) for counts in zip(*(p.per_opcode for p in parts), strict=True)],
        [sum(counts) for counts in zip(*(p.per_instruction for p in parts), strict=True)],
        findings,
        _events(parts, order, {id(finding) for finding in findings}),
        "",
    )

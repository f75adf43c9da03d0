"""Timelines of a traced run: spans per warp, a picture, and Perfetto's trace format.

Times are modelled cycles: every instruction costs its published issue cycles, waits end when what
they wait for is done, MMAs follow one another through the tensor pipe, copies take a published
latency.  Warps do not compete for issue slots in this model.  Nothing here was measured on a chip.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .report import Event, EventKind, Report


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of modelled time with a label, e.g. ("busy", 100, 240)."""

    label: str
    start: int
    end: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a timeline: a warp of a CTA, or one of its asynchronous units.

    Attributes:
        name: what is written beside it.
        source: a warp index, "tensor" (the MMA pipe) or "tma".
        rank: rank of the CTA in its cluster.
    """

    name: str
    source: int | Literal["tensor", "tma"]
    rank: int = 0


def warp_spans(report: Report, warp: int, rank: int = 0) -> list[Span]:
    """Busy and waiting spans of one warp, from its start to its exit."""
    own = [e for e in report.events if e.rank == rank and e.warp == warp]
    waits = sorted((e.start, e.end, e.line) for e in own if e.kind is EventKind.WAIT)
    marks = [e.end for e in own if e.kind is EventKind.MARK]
    finish = max(marks + [end for _, end, _ in waits] + [0])
    spans, at = [], 0
    for start, end, line in waits:
        if end <= at:
            continue
        begin = max(start, at)
        if begin > at:
            spans.append(Span("busy", at, begin))
        spans.append(Span("wait", begin, end, line))
        at = end
    if finish > at:
        spans.append(Span("busy", at, finish))
    return spans


def unit_spans(
    report: Report,
    unit: Literal["tensor", "tma"],
    rank: int = 0,
    label: Callable[[Event], str] | None = None,
) -> list[Span]:
    """Spans of the MMA pipe or of the TMA copies of one CTA; `label` names an event."""
    kinds = (
        {EventKind.MMA: "mma"}
        if unit == "tensor"
        else {EventKind.TMA_LOAD: "load", EventKind.TMA_STORE: "store"}
    )
    found = [
        Span(label(e) if label else kinds[e.kind], e.start, e.end, e.line)
        for e in report.events
        if e.rank == rank and e.kind in kinds
    ]
    return _merge(sorted(found, key=lambda s: s.start))


def _merge(spans: Sequence[Span]) -> list[Span]:
    """Join touching spans of the same label, so that pictures stay small."""
    out: list[Span] = []
    for span in spans:
        if out and out[-1].label == span.label and span.start <= out[-1].end + 1:
            out[-1] = Span(span.label, out[-1].start, max(out[-1].end, span.end), out[-1].line)
        else:
            out.append(span)
    return out


def spans_of(report: Report, row: Row, label: Callable[[Event], str] | None = None) -> list[Span]:
    """The spans of one row."""
    if isinstance(row.source, int):
        return warp_spans(report, row.source, row.rank)
    return unit_spans(report, row.source, row.rank, label)


def overlap_cycles(first: Sequence[Span], second: Sequence[Span]) -> int:
    """Cycles during which a span of `first` and a span of `second` run at the same time."""
    total = 0
    for a in first:
        for b in second:
            total += max(0, min(a.end, b.end) - max(a.start, b.start))
    return total


COLOURS = {
    "busy": "#4878a8",
    "wait": "#e4e4e4",
    "mma": "#c0504d",
    "load": "#6a9f58",
    "store": "#b5793a",
}
PALETTE = ("#c0504d", "#8064a2", "#d99a2b", "#3f8f8b", "#7f6084", "#967f4a")


def draw(
    report: Report,
    path: str | Path,
    rows: Sequence[Row],
    *,
    title: str = "",
    label: Callable[[Event], str] | None = None,
    window: tuple[int, int] | None = None,
) -> Path:
    """Write the timeline of `rows` as a picture (format by the file's suffix).

    Args:
        report: a run with `trace_cluster` set.
        label: names MMA and TMA events; each name gets a colour and a legend entry.
        window: first and last modelled cycle to show.

    Raises:
        ValueError: the report holds no events.
    """
    if not report.events:
        raise ValueError("report: no timeline was recorded; run with trace_cluster=0")
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    colours: dict[str, str] = dict(COLOURS)
    figure = Figure(figsize=(13, 0.42 * len(rows) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    seen: dict[str, None] = {}
    for y, row in enumerate(rows):
        for span in spans_of(report, row, label):
            if span.label not in colours:
                colours[span.label] = PALETTE[(len(colours) - len(COLOURS)) % len(PALETTE)]
            seen.setdefault(span.label)
            axes.broken_barh(
                [(span.start, span.end - span.start)],
                (y - 0.4, 0.8),
                facecolors=colours[span.label],
                linewidth=0,
            )
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("modelled cycles (published throughputs and latencies; not measured on a B200)")
    axes.set_xlim(window or (0, max(e.end for e in report.events)))
    axes.set_title(title or report.kernel[:80], fontsize=10)
    figure.legend(
        handles=[Patch(color=colours[name], label=name) for name in seen],
        loc="outside lower center", ncols=8, fontsize=8, frameon=False,
    )  # fmt: skip
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130)
    return out


def to_perfetto(
    report: Report, path: str | Path, names: Mapping[tuple[int, int], str] | None = None
) -> Path:
    """Write the events as trace-event JSON, which Perfetto opens; one cycle is one microsecond.

    Args:
        names: (rank, warp) -> thread name.
    """
    if not report.events:
        raise ValueError("report: no timeline was recorded; run with trace_cluster=0")
    entries: list[dict[str, Any]] = []
    ranks = sorted({e.rank for e in report.events})
    for rank in ranks:
        entries.append(
            {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"CTA rank {rank}"}}
        )
        warps = sorted(
            {
                e.warp
                for e in report.events
                if e.rank == rank and e.kind in (EventKind.WAIT, EventKind.MARK)
            }
        )
        units = [Row("tensor pipe", "tensor", rank), Row("TMA", "tma", rank)]
        rows = [Row((names or {}).get((rank, w), f"warp {w}"), w, rank) for w in warps] + units
        for thread, row in enumerate(rows):
            entries.append(
                {
                    "name": "thread_name",
                    "ph": "M",
                    "pid": rank,
                    "tid": thread,
                    "args": {"name": row.name},
                }
            )
            entries += [
                {"name": s.label, "ph": "X", "pid": rank, "tid": thread, "ts": s.start,
                 "dur": s.end - s.start, "args": {"ptx_line": s.line}}
                for s in spans_of(report, row)
            ]  # fmt: skip
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"traceEvents": entries, "displayTimeUnit": "ns"}))
    return out

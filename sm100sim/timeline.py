"""Timelines of a traced run: spans per warp, and a picture with the accesses of a finding.

They show the order of a functional run, to explain findings. Times are those of the run's own
clock, which predicts no chip: every instruction costs its published issue cycles, waits end when
what they wait for is done, MMAs follow one another through the tensor pipe, and copies take a
published latency. Warps do not compete for issue slots; timelines that predict a chip come from
`sm100sim.profile` (`timing.profile.views`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .events import Event, EventKind, Traced
from .timeline_marks import Mark, access_marks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the run's own time with a label, e.g. ("busy", 100, 240)."""

    label: str
    start: int
    end: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a timeline: a warp of a CTA, or one of its asynchronous units.

    Attributes:
        name: what is written next to it.
        source: a warp index, "tensor" (the MMA pipe) or "tma".
        rank: rank of the CTA in its cluster.
    """

    name: str
    source: int | Literal["tensor", "tma"]
    rank: int = 0


def all_rows(report: Traced, names: Mapping[tuple[int, int], str] | None = None) -> list[Row]:
    """One row per warp that did something, and per CTA its tensor pipe and TMA.

    Args:
        names: (rank, warp) -> name; others are called "warp 3", with the rank in a cluster.
    """
    rows: list[Row] = []
    ranks = sorted({e.rank for e in report.events})
    for rank in ranks:
        suffix = f", rank {rank}" if len(ranks) > 1 else ""
        own = (EventKind.WAIT, EventKind.MARK, EventKind.ACCESS)
        warps = sorted({e.warp for e in report.events if e.rank == rank and e.kind in own})
        rows += [
            Row((names or {}).get((rank, w), f"warp {w}{suffix}"), w, rank) for w in warps
        ]  # fmt: skip
        rows += [Row(f"tensor pipe{suffix}", "tensor", rank), Row(f"TMA{suffix}", "tma", rank)]
    return rows


def warp_spans(report: Traced, warp: int, rank: int = 0) -> list[Span]:
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
    report: Traced,
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


def spans_of(report: Traced, row: Row, label: Callable[[Event], str] | None = None) -> list[Span]:
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


def _require_events(report: Traced) -> None:
    if not report.events:
        raise ValueError("report: no timeline was recorded; run with trace_cluster=0")


def draw(
    report: Traced,
    path: str | Path,
    rows: Sequence[Row] | None = None,
    *,
    title: str = "",
    label: Callable[[Event], str] | None = None,
    window: tuple[int, int] | None = None,
    finding: int | None = None,
) -> Path:
    """Write the timeline of `rows` as a picture (format by the file's suffix).

    Args:
        report: a run with `trace_cluster` set.
        rows: the rows to show; by default every warp and unit that did something.
        label: names MMA and TMA events; each name gets a colour and a legend entry.
        window: first and last modelled cycle to show.
        finding: index of a finding whose accesses are marked (`access_marks`).

    Raises:
        ValueError: the report holds no events, or the finding is not among them.
    """
    _require_events(report)
    shown = all_rows(report) if rows is None else list(rows)
    marks = [] if finding is None else access_marks(report, finding)
    if finding is not None and not title:
        title = f"{report.kernel[:60]}: {report.findings[finding].code}"
    figure = picture(report, shown, marks, title=title, label=label, window=window)
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130)
    return out


def drawing() -> tuple[type[Figure], type[Patch]]:
    """Return what pictures are made of: matplotlib's ``Figure`` and ``Patch``.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; names the extra that installs it.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"pictures need matplotlib, which the extra 'viz' installs: "
            f"pip install 'sm100sim[viz]' ({error})",
            name=error.name,
        ) from error
    return Figure, Patch


def picture(
    report: Traced,
    rows: Sequence[Row],
    marks: Sequence[Mark] = (),
    *,
    title: str = "",
    label: Callable[[Event], str] | None = None,
    window: tuple[int, int] | None = None,
) -> Figure:
    """The matplotlib figure that `draw` writes; a mark on a row that is not shown is left out.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; names the extra that installs it.
    """
    figure_class, patch_class = drawing()
    colours: dict[str, str] = dict(COLOURS)
    figure = figure_class(figsize=(13, 0.42 * len(rows) + 1.6), layout="constrained")
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
    axes.set_xlabel("order of the run, on a clock of its own (sm100sim.profile predicts cycles)")
    axes.set_xlim(window or (0, max(e.end for e in report.events)))
    axes.set_title(title or report.kernel[:80], fontsize=10)
    _draw_marks(axes, rows, marks)
    figure.legend(
        handles=[patch_class(color=colours[name], label=name) for name in seen],
        loc="outside lower center", ncols=8, fontsize=8, frameon=False,
    )  # fmt: skip
    return figure


def _draw_marks(axes: Axes, rows: Sequence[Row], marks: Sequence[Mark]) -> None:
    """A line at the cycle of each access, a diamond on its row and its label beside that."""
    places = {(row.source, row.rank): y for y, row in enumerate(rows)}
    for number, mark in enumerate(marks):
        y = places.get((mark.source, mark.rank))
        if y is None:
            continue
        axes.axvline(mark.time, color="#d00000", linewidth=0.8, linestyle="--")
        axes.plot([mark.time], [y], marker="D", color="#d00000", markersize=6, label=mark.label)
        axes.annotate(
            mark.label, (mark.time, y), xytext=(6, 7 if number else -12), fontsize=8,
            textcoords="offset points", color="#d00000",
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1},
        )  # fmt: skip

"""Name the rows and events of a traced attention run after the kernel's own plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fa4_cute.plan.kernel_spec import KernelSpec
from fa4_cute.plan.tmem import AttentionTmem
from sm100sim.report import Event, EventKind, Report
from sm100sim.timeline import Row, draw


def rows_of(spec: KernelSpec) -> list[Row]:
    """Return one row per warp role (the first warp of each), then the asynchronous units."""
    roles = [
        Row(f"{role.name} (warp {role.first_warp})", role.first_warp)
        for role in spec.schedule.roles
        if role.name != "idle"
    ]
    return [*roles, Row("tensor cores", "tensor"), Row("TMA", "tma")]


def label_of(spec: KernelSpec) -> Callable[[Event], str]:
    """Return a function that names MMAs by the accumulator they write: S0, S1, O0 or O1."""
    columns = AttentionTmem.of(spec.config)
    meaning = {
        columns.s(0).start: "S0 = Q0 K'",
        columns.s(1).start: "S1 = Q1 K'",
        columns.o(0).start: "O0 += P0 V",
        columns.o(1).start: "O1 += P1 V",
    }

    def label(event: Event) -> str:
        if event.kind is EventKind.MMA:
            return meaning.get(event.a, f"MMA to column {event.a}")
        return "TMA load" if event.kind is EventKind.TMA_LOAD else "TMA store"

    return label


def draw_attention(report: Report, spec: KernelSpec, path: Path, title: str) -> Path:
    """Write the picture of a run with a traced cluster; errors as ``sm100sim.timeline.draw``."""
    return draw(report, path, rows_of(spec), title=title, label=label_of(spec))

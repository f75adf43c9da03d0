"""Reports in values that JSON has, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sm100sim

from ..calls.explore import Exploration
from ..report import Report

VERSION = 2
"""Of the document; it grows when a field changes its meaning."""

_FIELDS = (
    "kernel", "grid", "block", "cluster", "verdict", "complete", "instructions",
    "thread_instructions", "seconds", "prepare_seconds", "mma_instructions", "mma_flops",
    "tma_bytes_loaded", "tma_bytes_stored", "memory_check", "output",
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """What is written.

    Attributes:
        reports: of the launches, in order.
        exploration: whose launches they are, or None.
        program: the file that was run, for findings without a source line; "" when there is none.
        exit_code: of the command, or None.
    """

    reports: tuple[Report, ...]
    exploration: Exploration | None = None
    program: str = ""
    exit_code: int | None = None


def launch(report: Report, hot_spots: int = 10) -> dict[str, Any]:
    """One report."""
    used = report.options
    return {
        **{name: getattr(report, name) for name in _FIELDS},
        "options": {
            "mode": used.mode,
            "seed": used.seed,
            "checks": [check.name for check in used.checks],
        },
        "findings": [asdict(finding) for finding in report.findings],
        "suppressed": [
            {"finding": asdict(finding), "reason": rule.reason, "origin": rule.origin}
            for finding, rule in report.suppressed
        ],
        "hot_spots": [asdict(spot) for spot in report.hot_spots(hot_spots)],
    }


def schedules(exploration: Exploration) -> list[dict[str, Any]]:
    """The schedules of an exploration, without their launches."""
    return [
        {
            "mode": s.mode, "seed": s.seed, "verdict": s.verdict, "launches": len(s.reports),
            "error": None if s.error is None else f"{type(s.error).__name__}: {s.error}",
        }
        for s in exploration.schedules
    ]  # fmt: skip


def document(results: Results) -> dict[str, Any]:
    """All reports, for `json.dumps`."""
    made: dict[str, Any] = {
        "version": VERSION,
        "tool": {"name": "sm100sim", "version": sm100sim.__version__},
        "program": results.program,
        "verdict": verdict(results.reports),
        "launches": [launch(report) for report in results.reports],
    }
    if results.exit_code is not None:
        made["exit_code"] = results.exit_code
    if results.exploration is not None:
        made["verdict"] = results.exploration.verdict
        made["schedules"] = schedules(results.exploration)
    return made


def verdict(reports: Sequence[Report]) -> str:
    """The worst of several reports; "incomplete" without any."""
    met = {report.verdict for report in reports} or {"incomplete"}
    return next(name for name in ("findings", "incomplete", "clean") if name in met)

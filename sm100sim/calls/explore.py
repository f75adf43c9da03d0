"""`sm100sim.explore`: a program under many orders of events, in one record."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..findings.suppress import Suppression, unused
from ..options import Check, RunOptions, current_options, run_options
from ..report import Finding, Report, SimulationFault, record
from .values import checksum

FAILURES = ("fault", "findings", "error", "differs", "incomplete")
"""What a schedule can end as, other than clean; the worst first."""


@dataclass(frozen=True)
class Schedule:
    """The program under one order of events.

    Attributes:
        mode, seed: the order.
        verdict: "clean"; "findings" (rules were broken) or "fault" (one of them stopped a launch);
            "error" (the program raised something else); "differs" (it returned other values than
            under the first schedule); "incomplete" (nothing was launched, or not all was seen).
        reports: those of all its launches.
        error: what the program raised, if anything.
        values: checksum of what it returned, "" without arrays or numbers.
    """

    mode: str
    seed: int
    verdict: str
    reports: tuple[Report, ...]
    error: Exception | None = None
    values: str = ""

    @property
    def order(self) -> str:
        """Mode and, where it matters, seed: "late", "random 3"."""
        return f"{self.mode} {self.seed}" if self.mode == "random" else self.mode


@dataclass(frozen=True)
class Merged:
    """A finding that one or more schedules reported at the same place.

    Attributes:
        kernel: the kernel's name.
        finding: as the first of the schedules reported it.
        schedules: numbers of the schedules that met it, from 0.
    """

    kernel: str
    finding: Finding
    schedules: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Exploration:
    """What `explore` found.

    Attributes:
        options: those of all schedules, except mode and seed.
        schedules: in the order in which they ran.
        findings: those of all schedules, merged by kernel, code and place.
        unused: suppressions that accepted nothing.
    """

    options: RunOptions
    schedules: tuple[Schedule, ...]
    findings: tuple[Merged, ...]
    unused: tuple[Suppression, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst verdict of a schedule."""
        met = {schedule.verdict for schedule in self.schedules}
        return next((verdict for verdict in FAILURES if verdict in met), "clean")

    @property
    def reports(self) -> tuple[Report, ...]:
        """Of all launches of all schedules."""
        return tuple(report for schedule in self.schedules for report in schedule.reports)

    @property
    def first_failing(self) -> Schedule | None:
        """The first schedule that is not clean."""
        return next((s for s in self.schedules if s.verdict != "clean"), None)

    def repeating(self, schedule: Schedule) -> dict[str, Any]:
        """The options that repeat a schedule: ``with run_options(**x.repeating(s)): fn()``."""
        return {"mode": schedule.mode, "seed": schedule.seed, "checks": self.options.checks}

    def __repr__(self) -> str:
        """One line; :meth:`summary` and the fields hold the rest."""
        clean = sum(schedule.verdict == "clean" for schedule in self.schedules)
        return (
            f"<Exploration: {self.verdict}, {clean} of {len(self.schedules)} schedules clean, "
            f"{len(self.findings)} findings>"
        )

    def summary(self) -> str:
        """A few lines for people: the schedules, the findings, and how to repeat the first."""
        lines = [repr(self)[1:-1]]
        for verdict in FAILURES:
            orders = [s.order for s in self.schedules if s.verdict == verdict]
            if orders:
                lines.append(f"  {verdict}: {', '.join(orders)}")
        for merged in self.findings:
            count = f"{len(merged.schedules)} of {len(self.schedules)} schedules"
            lines.append(f"  {merged.kernel}, {count}: {merged.finding}")
        first = self.first_failing
        if first is not None:
            names = [c.name or "" for c in self.options.checks]
            said = {**self.repeating(first), "checks": ", ".join(names).lower()}
            shown = ", ".join(f"{name}={value!r}" for name, value in said.items())
            lines.append(f"  repeat the first: run_options({shown})")
            if first.error is not None and not isinstance(first.error, SimulationFault):
                lines.append(f"  its error: {type(first.error).__name__}: {first.error}")
        lines += [f"  suppression without use: {rule}" for rule in self.unused]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows: verdicts in a line, the rest as text."""
        head, *rest = self.summary().splitlines()
        text = html.escape("\n".join(rest))
        return f"<div><b>{html.escape(head)}</b><pre>{text}</pre></div>"


class ExplorationError(RuntimeError):
    """Not every schedule was clean; `.exploration` holds everything known about them."""

    def __init__(self, exploration: Exploration) -> None:
        self.exploration = exploration
        super().__init__(exploration.summary())


def orders(schedules: int) -> list[tuple[str, int]]:
    """Timed, at once, late, then random with the seeds 1, 2, ...: mode and seed of each.

    Raises:
        ValueError: not even one.
    """
    if schedules < 1:
        raise ValueError(f"schedules: {schedules} is less than 1")
    fixed = [("timed", 0), ("fast", 0), ("late", 0)]
    return [*fixed, *(("random", k) for k in range(1, schedules))][:schedules]


def explore(
    fn: Callable[[], Any],
    schedules: int = 18,
    *,
    stop_at_first: bool = False,
    raise_on_findings: bool = False,
    everywhere: bool = False,
    **options: Any,
) -> Exploration:
    """Run a program under several orders of events: plausible, at once, late, and random ones.

    A correct program has no findings and returns the same bits under all of them.

    Args:
        fn: a function that launches kernels and makes its inputs anew each time. The numbers,
            arrays and CPU tensors that it returns are compared bit by bit with those of the first
            schedule.
        schedules: number of orders.
        stop_at_first: stop after the first schedule that is not clean.
        raise_on_findings: raise `ExplorationError` if a schedule was not clean.
        everywhere: apply to the launches of other threads as well, and record them (`run_options`).
        options: fields of `RunOptions`; checks are "all" unless others are given or current.

    Raises:
        ExplorationError: only with `raise_on_findings`.
        ValueError: fewer than one schedule.
        Exception: what `fn` raised before its first launch.
    """
    given = {"checks": current_options().checks or Check.ALL, **options}
    ran: list[Schedule] = []
    with run_options(everywhere=everywhere, **given) as used:
        for mode, seed in orders(schedules):
            ran.append(_one(fn, mode, seed, everywhere, ran))
            if stop_at_first and ran[-1].verdict != "clean":
                break
    reports = [report for schedule in ran for report in schedule.reports]
    spare = tuple(unused(used.suppressions, reports))
    found = Exploration(used, tuple(ran), tuple(_merged(ran)), spare)
    if raise_on_findings and found.verdict != "clean":
        raise ExplorationError(found)
    return found


def _one(
    fn: Callable[[], Any], mode: str, seed: int, everywhere: bool, before: Sequence[Schedule]
) -> Schedule:
    ordered = run_options(everywhere=everywhere, mode=mode, seed=seed, raise_on_findings=False)
    with ordered, record(everywhere=everywhere) as reports:
        error: Exception | None = None
        value = None
        try:
            value = fn()
        except Exception as raised:
            if not reports:
                raise
            error = raised
    ran = Schedule(mode, seed, "clean", tuple(reports), error, checksum(value))
    return replace(ran, verdict=_verdict(ran, before[0] if before else ran))


def _verdict(ran: Schedule, first: Schedule) -> str:
    findings = [finding for report in ran.reports for finding in report.findings]
    if any(finding.fatal for finding in findings):
        return "fault"
    if findings:
        return "findings"
    if ran.error is not None:
        return "error"
    if ran.values != first.values and first.error is None:
        return "differs"
    complete = ran.reports and all(report.complete for report in ran.reports)
    return "clean" if complete else "incomplete"


def _place(finding: Finding) -> tuple[object, ...]:
    """Where a finding is: source lines where they are known, else PTX lines."""
    sides = ((finding.place, finding.line), (finding.place2, finding.line2))
    return tuple((place.file, place.line) if place else line for place, line in sides)


def _merged(schedules: Sequence[Schedule]) -> Iterator[Merged]:
    found: dict[tuple[object, ...], tuple[str, Finding, dict[int, None]]] = {}
    for k, schedule in enumerate(schedules):
        for report in schedule.reports:
            for finding in report.findings:
                key = (report.kernel, finding.code, *_place(finding))
                found.setdefault(key, (report.kernel, finding, {}))[2][k] = None
    for kernel, finding, met in found.values():
        yield Merged(kernel, finding, tuple(met))

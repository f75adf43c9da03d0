"""Which tests are watched, with which options, and what their launches have to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..findings.suppress import Suppression
    from ..report import Finding, Report

NAME = "sm100sim"
FIXTURE = "sm100sim_reports"
EXPECT = "expect"
"""Argument of the marker: codes of findings that the test is about."""
SCHEDULES = "schedules"
"""Argument of the marker: how many orders of events."""
ORDER = "sm100sim_order"
"""Parameter of such a test: mode and seed."""

RULES = pytest.StashKey[Sequence["Suppression"]]()
WATCH = pytest.StashKey["Watch"]()


@dataclass
class Watch:
    """A watched test.

    Attributes:
        options: fields of `RunOptions` for its launches.
        expected: codes that its launches must have, and may.
        reports: of its launches so far.
    """

    options: dict[str, Any]
    expected: tuple[str, ...] = ()
    reports: list[Report] = field(default_factory=list)

    @property
    def unexpected(self) -> list[tuple[Report, Finding]]:
        """Findings that the test is not about."""
        return [(r, f) for r in self.reports for f in r.findings if f.code not in self.expected]

    def said(self) -> str:
        """The unexpected findings for people, with the options that repeat them."""
        lines = [f"{report.kernel}: {finding}" for report, finding in self.unexpected]
        orders = dict.fromkeys((r.options.mode, r.options.seed) for r, _ in self.unexpected)
        lines += [f"repeat: run_options(mode={mode!r}, seed={seed})" for mode, seed in orders]
        return "\n".join(lines)

    def complaint(self) -> str:
        """What is wrong with the launches; "" when nothing is."""
        if self.unexpected:
            return f"findings of the virtual SM100\n{self.said()}"
        met = {finding.code for report in self.reports for finding in report.findings}
        missing = [code for code in self.expected if code not in met]
        if missing:
            return f"no launch had the expected finding {', '.join(missing)}"
        partly = [report.kernel for report in self.reports if report.verdict == "incomplete"]
        return f"not everything was seen of {', '.join(partly)}" if partly else ""

    def totals(self, rules: Sequence[Suppression]) -> dict[str, Any]:
        """Numbers for the summary: launches, how many were clean, findings, rules with a use."""
        used = {accepted.by for report in self.reports for accepted in report.suppressed}
        return {
            "launches": len(self.reports),
            "clean": sum(report.verdict == "clean" for report in self.reports),
            "findings": sum(len(report.findings) for report in self.reports),
            "used": [k for k, rule in enumerate(rules) if rule in used],
        }


def watch_of(item: pytest.Item) -> Watch | None:
    """How a test is watched, or None when nobody asked for it.

    Raises:
        pytest.UsageError: the marker has an argument without a name.
    """
    if WATCH in item.stash:
        return item.stash[WATCH]
    mode = item.config.getoption(f"--{NAME}")
    marker = item.get_closest_marker(NAME)
    if mode is None and marker is None and FIXTURE not in getattr(item, "fixturenames", ()):
        return None
    options: dict[str, Any] = {"checks": "all", "suppressions": item.config.stash[RULES]}
    if mode is not None:
        options["mode"] = mode
    if marker is not None:
        if marker.args:
            raise pytest.UsageError(f"{item.nodeid}: arguments of the marker {NAME} have names")
        options |= marker.kwargs
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if ORDER in parameters:
        options["mode"], options["seed"] = parameters[ORDER]
    options.pop(SCHEDULES, None)
    expected = options.pop(EXPECT, ())
    expected = (expected,) if isinstance(expected, str) else tuple(expected)
    item.stash[WATCH] = Watch(options, expected)
    return item.stash[WATCH]

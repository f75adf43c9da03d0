"""What all tests together have launched: lines at the end of pytest's output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from .watched import NAME

if TYPE_CHECKING:
    from ..findings.suppress import Suppression


class Totals:
    """Adds up what the tests say of their launches, also those that other processes ran."""

    def __init__(self, rules: Sequence[Suppression]) -> None:
        self._rules = rules
        self._sums = dict.fromkeys(("launches", "clean", "findings"), 0)
        self._used: set[int] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the numbers of a test when it has ended."""
        if report.when != "teardown":
            return
        for name, said in report.user_properties:
            if name == NAME and isinstance(said, dict):
                self._add(said)

    def _add(self, said: dict[str, Any]) -> None:
        for name in self._sums:
            self._sums[name] += said[name]
        self._used.update(said["used"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sums, and the suppressions without a use."""
        if not self._sums["launches"]:
            return
        shown = ", ".join(f"{count} {name}" for name, count in self._sums.items())
        terminalreporter.write_line(f"{NAME}: {shown}")
        for k, rule in enumerate(self._rules):
            if k not in self._used:
                terminalreporter.write_line(f"{NAME}: suppression without use: {rule}")

"""What the commands say about launches: lines for people, files for programs, an exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..findings.suppress import unused
from ..formats.document import Results
from ..formats.save import format_of, rendered
from ..report import Report
from .options import USAGE

CLEAN, FINDINGS, FAULT, UNPROVEN = 0, 1, 2, 3
"""Exit codes. UNPROVEN: no launch was seen, one was incomplete, or the program failed by itself."""


VERDICTS = {
    "clean": CLEAN, "findings": FINDINGS, "differs": FINDINGS, "fault": FAULT,
    "incomplete": UNPROVEN, "error": UNPROVEN,
}  # fmt: skip
"""What launches, or schedules, end as -> exit code."""


def verdict(results: Results) -> str:
    """The worst that the launches say; "fault" where one stopped."""
    if results.exploration is not None:
        return results.exploration.verdict
    found = [finding for report in results.reports for finding in report.findings]
    if found:
        return "fault" if any(finding.fatal for finding in found) else "findings"
    proven = results.reports and all(report.verdict == "clean" for report in results.reports)
    return "clean" if proven else "incomplete"


def show(results: Results, given: argparse.Namespace, ended: int = CLEAN) -> int:
    """Print the launches on standard error, write the report; returns the exit code.

    Args:
        results: what ran.
        given: the command line.
        ended: how the program ended by itself, which counts where nothing was found.
    """
    code = VERDICTS[verdict(results)]
    if code in (FINDINGS, FAULT):
        code = code if given.error_exitcode is None else given.error_exitcode
    elif ended != CLEAN:
        code = ended
        print(f"sm100sim: the program ended with exit code {ended}", file=sys.stderr)
    _print(results, given.hot_spots)
    for rule in unused(given.suppressions, results.reports):
        print(f"sm100sim: suppression without use: {rule}", file=sys.stderr)
    print(_total(results.reports), file=sys.stderr)
    return code if write(replace(results, exit_code=code), given) else USAGE


def _print(results: Results, hot_spots: int) -> None:
    if results.exploration is not None:
        print(results.exploration.summary(), file=sys.stderr)
    for report in results.reports:
        if results.exploration is None and (report.verdict != "clean" or hot_spots):
            print(report.summary(), file=sys.stderr)
        for spot in report.hot_spots(hot_spots):
            print(f"  hot: {spot}", file=sys.stderr)


def _total(reports: Sequence[Report]) -> str:
    count = sum(len(report.findings) for report in reports)
    clean = sum(report.verdict == "clean" for report in reports)
    accepted = sum(len(report.suppressed) for report in reports)
    more = f", {accepted} suppressed" if accepted else ""
    return f"sm100sim: {len(reports)} launches, {clean} clean, {count} findings{more}"


def write(results: Results, given: argparse.Namespace) -> bool:
    """Write what `--format` and `--output` ask for; whether that went well."""
    if given.output is None and given.format in (None, "text"):
        return True
    return _put(lambda: rendered(results, given.format or format_of(given.output)), given)


def refuses_format(given: argparse.Namespace) -> bool:
    """Say why what is no list of reports cannot be written as asked; whether that is so.

    A program may run for long; so this is asked before it does.
    """
    try:
        kind = _kind(given)
        if kind not in OWN_FORMATS:
            known = " or ".join(OWN_FORMATS)
            raise ValueError(f"format: {given.action} writes {known}, not {kind}")
    except ValueError as error:
        print(f"sm100sim: {error}", file=sys.stderr)
        return True
    return False


def _kind(given: argparse.Namespace) -> str:
    return given.format or (format_of(given.output) if given.output else "text")


def write_own(text: str, document: dict[str, Any], given: argparse.Namespace) -> bool:
    """Write what is no list of reports, as text or JSON; whether that went well."""

    def made() -> str:
        return text if _kind(given) == "text" else json.dumps(document, indent=1) + "\n"

    return _put(made, given)


def _put(made: Callable[[], str], given: argparse.Namespace) -> bool:
    """Print a text, or write it to `--output`; says so when it cannot be made or written."""
    try:
        text = made()
        if given.output is None:
            print(text, end="")
        else:
            Path(given.output).write_text(text)
    except (OSError, ValueError) as error:
        print(f"sm100sim: {error}", file=sys.stderr)
        return False
    return True


OWN_FORMATS = ("text", "json")
"""Of `profile` and `mutate`."""

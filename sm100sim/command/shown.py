"""What the commands say about launches: lines for people, JSON for programs, an exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..options import MODES, Check, checks_of
from ..report import Report

CLEAN, FINDINGS, FAULT, UNPROVEN = 0, 1, 2, 3
"""Exit codes. UNPROVEN: no launch was seen, one was incomplete, or the program failed by itself."""

TOOLS = {
    "memcheck": Check.NONE,
    "racecheck": Check.RACES,
    "initcheck": Check.UNINITIALISED,
    "synccheck": Check.PROTOCOL,
}
"""compute-sanitizer's names; addresses, shapes, counts and deadlocks are checked with each."""


def tools(text: str) -> Check:
    """The checks of a comma-separated list of tools or names of `Check`.

    Raises:
        argparse.ArgumentTypeError: a name is neither.
    """
    found = Check.NONE
    for name in text.split(","):
        try:
            found |= TOOLS[name] if name in TOOLS else checks_of(name)
        except ValueError as error:
            known = ", ".join(TOOLS)
            raise argparse.ArgumentTypeError(f"{error}; tools: {known}") from error
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that launches."""
    parser.add_argument(
        "--tool", type=tools, default=Check.ALL, metavar="NAMES",
        help=f"what to check: all (default), {', '.join(TOOLS)}, strict-lanes, ...",
    )  # fmt: skip
    parser.add_argument("--mode", choices=MODES, default="fast", help="when async work lands")
    parser.add_argument("--seed", type=int, default=0, help="of mode random, and of random arrays")
    parser.add_argument(
        "--error-exitcode", type=int, metavar="N", help="instead of 1 for findings and 2 for faults"
    )
    parser.add_argument(
        "--print-limit", type=int, default=64, metavar="N", help="findings per launch (default 64)"
    )
    parser.add_argument("--hot-spots", type=int, default=0, metavar="N", help="lines to list")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the reports there, too")


def run_settings(given: argparse.Namespace) -> dict[str, Any]:
    """The fields of `RunOptions` that the command line says."""
    return {
        "mode": given.mode,
        "seed": given.seed,
        "checks": given.tool,
        "max_findings": given.print_limit,
    }


def exit_code(reports: Sequence[Report], error_code: int | None = None) -> int:
    """The worst that the reports say; `error_code` stands for findings and faults when given."""
    found = [finding for report in reports for finding in report.findings]
    if found:
        code = FAULT if any(finding.fatal for finding in found) else FINDINGS
        return code if error_code is None else error_code
    proven = reports and all(report.verdict == "clean" for report in reports)
    return CLEAN if proven else UNPROVEN


def show(reports: Sequence[Report], given: argparse.Namespace) -> int:
    """Print the launches on standard error, write the JSON file; returns the exit code."""
    for report in reports:
        if report.verdict != "clean" or given.hot_spots:
            print(report.summary(), file=sys.stderr)
        for spot in report.hot_spots(given.hot_spots):
            print(f"  hot: {spot}", file=sys.stderr)
    code = exit_code(reports, given.error_exitcode)
    count = sum(len(report.findings) for report in reports)
    clean = sum(report.verdict == "clean" for report in reports)
    print(f"sm100sim: {len(reports)} launches, {clean} clean, {count} findings", file=sys.stderr)
    if given.json is not None:
        document = {"exit_code": code, "launches": [record(report) for report in reports]}
        given.json.write_text(json.dumps(document, indent=1) + "\n")
    return code


def record(report: Report) -> dict[str, Any]:
    """A report in values that JSON has."""
    names = (
        "kernel", "grid", "block", "cluster", "verdict", "complete", "instructions", "cycles",
        "seconds", "mma_instructions", "tma_bytes_loaded", "tma_bytes_stored", "memory_check",
    )  # fmt: skip
    return {
        **{name: getattr(report, name) for name in names},
        "findings": [asdict(finding) for finding in report.findings],
        "hot_spots": [asdict(spot) for spot in report.hot_spots()],
    }

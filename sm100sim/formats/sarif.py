"""SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"): findings for code review."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sm100sim

from ..ptx.places import SourcePlace
from ..report import Finding, Report
from .document import Results

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
"""Name of the folder that relative paths count from: the current one."""


def sarif(results: Results) -> dict[str, Any]:
    """All findings, for `json.dumps`; those of several launches at a place are one result."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    codes: dict[str, int] = {}
    for report in results.reports:
        for finding, reason in _findings(report):
            key = (report.kernel, finding.code, finding.line, finding.line2, finding.place, reason)
            if key in found:
                found[key]["occurrenceCount"] += finding.count
                continue
            index = codes.setdefault(finding.code, len(codes))
            found[key] = _result(report, finding, reason, results.program) | {"ruleIndex": index}
    driver = {
        "name": "sm100sim",
        "version": sm100sim.__version__,
        "rules": [
            {"id": code, "shortDescription": {"text": code.replace("-", " ")}} for code in codes
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
        "invocations": [_invocation(results)],
        "results": list(found.values()),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _findings(report: Report) -> Iterator[tuple[Finding, str]]:
    """Findings, with the reason where one is suppressed."""
    yield from ((finding, "") for finding in report.findings)
    yield from ((finding, rule.reason) for finding, rule in report.suppressed)


def _invocation(results: Results) -> dict[str, Any]:
    stopped = [r for r in results.reports if r.verdict == "incomplete"]
    made: dict[str, Any] = {
        "executionSuccessful": bool(results.reports) and not stopped,
        "toolExecutionNotifications": [
            {"level": "warning", "message": {"text": f"{r.kernel}: not everything was seen"}}
            for r in stopped
        ],
    }
    return made if results.exit_code is None else made | {"exitCode": results.exit_code}


def _result(report: Report, finding: Finding, reason: str, program: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "ruleId": finding.code,
        "level": "error" if finding.fatal else "warning",
        "kind": "fail",
        "message": {"text": finding.message or finding.code},
        "locations": [_location(report, finding.line, finding.source, finding.place, program)],
        "occurrenceCount": finding.count,
        "properties": {
            "kernel": report.kernel, "ctaid": finding.ctaid, "warp": finding.warp,
            "mode": report.options.mode, "seed": report.options.seed,
        },
    }  # fmt: skip
    if finding.line2:
        other = _location(report, finding.line2, finding.source2, finding.place2, program)
        made["relatedLocations"] = [other | {"id": 1, "message": {"text": "the other access"}}]
    if reason:
        made["suppressions"] = [{"kind": "external", "justification": reason}]
    return made


def _location(
    report: Report, line: int, source: str, place: SourcePlace | None, program: str
) -> dict[str, Any]:
    """The source line if it is known, else the PTX line; the PTX line by name in either case."""
    ptx = f"PTX line {line}: {source.strip()}"
    logical = {
        "name": report.kernel,
        "kind": "function",
        "fullyQualifiedName": f"{report.kernel}, {ptx}",
    }
    made: dict[str, Any] = {"logicalLocations": [logical]}
    if place is not None:
        region: dict[str, Any] = {"startLine": place.line}
        if place.column:
            region["startColumn"] = place.column
        if place.text:
            region["snippet"] = {"text": place.text}
        made["physicalLocation"] = {"artifactLocation": _file(place.file), "region": region}
    elif program:
        made["physicalLocation"] = {"artifactLocation": _file(program)}
        if program.endswith(".ptx") and line:
            region = {"startLine": line, "snippet": {"text": source.strip()}}
            made["physicalLocation"]["region"] = region
    return made


def _file(name: str) -> dict[str, Any]:
    """Below the current folder a relative path, else a whole one."""
    path = Path.cwd() / name
    if path.is_relative_to(Path.cwd()):
        return {"uri": quote(path.relative_to(Path.cwd()).as_posix()), "uriBaseId": ROOT}
    return {"uri": path.as_uri()}

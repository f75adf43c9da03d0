"""JUnit XML: each launch is a test case, as continuous integration shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from ..report import Report
from .document import Results

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold ("Characters", production 2)."""


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)


def junit(results: Results) -> str:
    """All launches, as text."""
    cases = [_case(report, number) for number, report in enumerate(results.reports, 1)]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "skipped": "0",
        "time": f"{_seconds(results.reports):.6f}",
    }
    suites = Xml.Element("testsuites", {"name": "sm100sim", **counts})
    suite = Xml.SubElement(suites, "testsuite", {"name": results.program or "sm100sim", **counts})
    suite.extend(cases)
    Xml.indent(suites)
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _seconds(reports: Sequence[Report]) -> float:
    return sum(report.prepare_seconds + report.seconds for report in reports)


def _case(report: Report, number: int) -> Xml.Element:
    """A launch: a failure when rules were broken, an error when it stopped or was incomplete."""
    used = report.options
    case = Xml.Element("testcase", {
        "classname": _clean(report.kernel),
        "name": f"launch {number}, grid {report.grid}, {used.mode} {used.seed}",
        "time": f"{_seconds([report]):.6f}",
    })  # fmt: skip
    if report.verdict != "clean":
        stopped = any(finding.fatal for finding in report.findings) or not report.findings
        codes = dict.fromkeys(finding.code for finding in report.findings)
        first = report.findings[0].message if report.findings else "not everything was seen"
        words = {"type": ", ".join(codes) or report.verdict, "message": _clean(first)}
        bad = Xml.SubElement(case, "error" if stopped else "failure", words)
        bad.text = _clean("\n".join(str(finding) for finding in report.findings))
    if report.suppressed:
        output = Xml.SubElement(case, "system-out")
        lines = (f"suppressed {f.code}: {rule.reason}" for f, rule in report.suppressed)
        output.text = _clean("\n".join(lines))
    return case

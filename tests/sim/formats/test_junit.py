"""JUnit XML: launches as test cases."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import sm100sim
from sm100sim.formats.document import Results
from sm100sim.formats.junit import junit
from testing.harness import run_ptx
from tests.sim.formats.launches import race, stopped


def read(*reports: sm100sim.Report, program: str = "") -> ElementTree.Element:
    return ElementTree.fromstring(junit(Results(reports, program=program)))


def test_verdicts_are_passes_failures_and_errors(tmp_path: Path) -> None:
    suites = read(run_ptx(""), race(tmp_path), stopped(tmp_path), program="x & y.py")
    suite = suites.find("testsuite")
    assert suite is not None
    counts = {"tests": "3", "failures": "1", "errors": "1", "skipped": "0"}
    assert counts.items() <= suite.attrib.items()
    assert counts.items() <= suites.attrib.items()
    assert suite.get("name") == "x & y.py"
    passed, failed, error = suite.findall("testcase")
    assert list(passed) == []
    assert float(passed.get("time", "")) > 0
    (failure,) = failed
    assert (failure.tag, failure.get("type")) == ("failure", "race-shared")
    assert "s[t] = a[t]" in (failure.text or "")
    assert [(e.tag, e.get("type")) for e in error] == [("error", "trap")]
    assert len({case.get("name") for case in suite}) == 3


def test_suppressed_findings_are_output(tmp_path: Path) -> None:
    rule = sm100sim.Suppression("race-shared", "all <write> the same")
    case = read(race(tmp_path, suppressions=rule)).find("testsuite/testcase")
    assert case is not None
    assert [child.tag for child in case] == ["system-out"]
    assert "suppressed race-shared: all <write> the same" in (case[0].text or "")


def test_incomplete_launches_are_errors(tmp_path: Path) -> None:
    report = race(tmp_path, max_findings=0)
    assert report.verdict == "incomplete"
    error = read(report).find("testsuite/testcase/error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == ("incomplete", "not everything was seen")


def test_characters_that_xml_lacks_are_replaced(tmp_path: Path) -> None:
    failure = read(race(tmp_path, 'trap; // "\x01\x0c" & <é>')).find("testsuite/testcase/error")
    assert failure is not None
    assert '// "??" & <é>' in (failure.text or "")

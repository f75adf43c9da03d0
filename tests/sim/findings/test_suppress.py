"""Suppressions: what an entry accepts, what it never does, and errors of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sm100sim
from sm100sim.findings.suppress import Suppression, read, suppressions_of, unused
from sm100sim.report import Report
from testing.harness import SMEM, run_ptx
from tests.sim.formats.launches import PROGRAM, RACE


def race(path: Path, body: str = RACE, **options: Any) -> Report:
    source = path / "kernel.py"
    source.write_text(PROGRAM)
    shared = f'{SMEM}\n.file 1 "{source}"'
    checks = {"checks": "races", "raise_on_fault": False, **options}
    return run_ptx(body, np.zeros(64, np.uint32), shared=shared, smem=256, block=64, **checks)


COVERING: dict[str, dict[str, Any]] = {
    "code": {},
    "kernel": {"kernel": "k*"},
    "file": {"file": "kernel.py"},
    "a pattern of the path": {"file": "*/ker*.py"},
    "the second place's line": {"file": "kernel.py", "line": 2},
    "PTX text": {"ptx": "ld.shared"},
    "PTX text of the second place": {"ptx": "st.shared", "file": "kernel.py", "line": 2},
}
OTHER: dict[str, dict[str, Any]] = {
    "code": {"code": "race-global"},
    "kernel": {"kernel": "other*"},
    "file": {"file": "ernel.py"},
    "line": {"file": "kernel.py", "line": 1},
    "PTX text": {"ptx": "st.global"},
    "PTX text at the other place": {"ptx": "ld.shared", "file": "kernel.py", "line": 2},
}


@pytest.mark.parametrize("name", COVERING)
def test_an_entry_accepts_what_it_describes(name: str, tmp_path: Path) -> None:
    rule = Suppression(**{"code": "race-shared", "reason": "tested"} | COVERING[name])
    before = race(tmp_path)
    report = race(tmp_path, suppressions=rule)
    assert {f.code for f in before.findings} == {"race-shared"}
    assert (report.verdict, report.findings) == ("clean", ())
    assert [accepted.finding for accepted in report.suppressed] == list(before.findings)
    assert {accepted.by for accepted in report.suppressed} == {rule}
    assert "suppressed race-shared at PTX line" in report.summary()
    assert unused([rule], [report]) == []


@pytest.mark.parametrize("name", OTHER)
def test_an_entry_accepts_nothing_else_and_is_called_unused(name: str, tmp_path: Path) -> None:
    rule = Suppression(**{"code": "race-shared", "reason": "tested"} | OTHER[name])
    report = race(tmp_path, suppressions=[rule])
    assert report.verdict == "findings"
    assert not report.suppressed
    assert unused([rule, rule], [report]) == [rule]


def test_a_fault_is_never_accepted(tmp_path: Path) -> None:
    rule = Suppression("trap", "no reason is good enough")
    report = race(tmp_path, "trap;", suppressions=rule)
    assert [(f.code, f.fatal) for f in report.findings] == [("trap", True)]


def test_inlined_code_is_found_by_its_caller(tmp_path: Path) -> None:
    body = RACE.replace(".loc 1 2 4", ".loc 1 2 4, function_name $L, inlined_at 1 40 1\n.loc 1 2 4")
    body = body.replace("\n.loc 1 2 4\nst", "\nst")
    rule = Suppression("race-shared", "tested", file="kernel.py", line=40)
    found = race(tmp_path, body).findings[0]
    places = [p for p in (found.place, found.place2) if p]
    assert any(p.inlined_at for p in places), places
    assert race(tmp_path, body, suppressions=rule).verdict == "clean"


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(
        '[[suppress]]\ncode = "race-shared"\nreason = "tested"\nfile = "kernel.py"\nline = 3\n'
        '[[suppress]]\ncode = "deadlock"\nreason = "never"\nkernel = "x*"\nptx = "bar"\n'
    )
    first, second = read(path)
    assert (first.file, first.line, first.kernel) == ("kernel.py", 3, "*")
    assert str(second) == f"{path}, entry 2: deadlock (kernel x*, PTX 'bar'): never"
    for given in (path, str(path), [path], (first, second)):
        assert suppressions_of(given) == (first, second)
        with sm100sim.run_options(suppressions=given):
            assert race(tmp_path, suppressions=given).verdict == "clean"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[suppress]]\ncode = "a"', "entry 1: reason: is required"),
        ('[[suppress]]\nreason = "a"', "entry 1: code: is required"),
        ('[[suppress]]\ncode = "a"\nreason = " "', "entry 1: reason: is required"),
        ('[[suppress]]\ncode = "a"\nreason = "b"\nkernal = "c"', "did you mean 'kernel'"),
        ('[[suppress]]\ncode = "a"\nreason = "b"\nzz = "c"', "choose from code, reason, kernel"),
        ('[[suppress]]\ncode = "a"\nreason = "b"\nline = 3', "line: 3 needs `file`"),
        (
            '[[suppress]]\ncode = "a"\nreason = "b"\nfile = "c"\nline = "3"',
            "'3' is no whole number",
        ),
        ('[[suppress]]\ncode = 1\nreason = "b"', "code: 1 is no text"),
        ('[suppress]\ncode = "a"', r"expected entries \[\[suppress\]\]"),
        ('[[ignore]]\ncode = "a"', "'ignore' is not known"),
        ("code = ", "accepted.toml: Invalid value"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=words):
        read(path)
    with pytest.raises(TypeError, match="suppressions: int given"):
        suppressions_of(3)


def test_findings_raise_on_request(tmp_path: Path) -> None:
    with pytest.raises(
        sm100sim.FindingsError, match=r"k has \d+ findings? on the.*\nrace-sh"
    ) as caught:
        race(tmp_path, raise_on_findings=True)
    assert caught.value.report.verdict == "findings"
    assert not isinstance(caught.value, sm100sim.SimulationFault)
    rule = Suppression("race-shared", "tested")
    assert race(tmp_path, raise_on_findings=True, suppressions=rule).verdict == "clean"
    assert race(tmp_path, "", raise_on_findings=True).verdict == "clean"
    with pytest.raises(sm100sim.FindingsError, match="k stopped") as stopped:
        race(tmp_path, "trap;", raise_on_fault=True, raise_on_findings=True)
    assert isinstance(stopped.value, sm100sim.SimulationFault)


def test_a_report_holds_the_options_that_repeat_it(tmp_path: Path) -> None:
    report = race(tmp_path, mode="random", seed=7)
    assert (report.options.mode, report.options.seed) == ("random", 7)

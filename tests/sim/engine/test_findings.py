"""Findings in the engine: counted where they are the same, apart where code or severity differ."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import SimulationFault
from tests.sim.harness import run_ptx

READ_UNSET = "add.u32 %r1, %r0, 1;"


def test_one_finding_counts_what_is_the_same() -> None:
    body = "mov.u32 %r5, 0;\nAGAIN:\nadd.u32 %r1, %r0, 1;\nadd.u32 %r5, %r5, 1;\n"
    body += "setp.lt.u32 %q0, %r5, 3;\n@%q0 bra AGAIN;"
    report = run_ptx(body, checks=Check.REGISTERS)
    (found,) = report.findings
    assert (found.code, found.count, found.fatal) == ("uninitialised-register", 3, False)


def test_a_fault_has_its_own_entry_and_severity() -> None:
    report = run_ptx(READ_UNSET + "\ntrap;", checks=Check.REGISTERS, raise_on_fault=False)
    assert [(f.code, f.fatal, f.count) for f in report.findings] == [
        ("uninitialised-register", False, 1),
        ("trap", True, 1),
    ]
    assert report.findings[1].message == "the kernel executed trap"


def test_a_fault_is_kept_when_there_is_no_room_for_more_findings() -> None:
    with pytest.raises(SimulationFault, match="the kernel executed trap") as caught:
        run_ptx(READ_UNSET + "\ntrap;", checks=Check.REGISTERS, max_findings=1)
    assert [f.fatal for f in caught.value.report.findings] == [False, True]


def test_dropped_findings_make_a_run_incomplete() -> None:
    body = "add.u32 %r1, %r0, 1;\nadd.u32 %r2, %r3, 1;"
    report = run_ptx(body, np.zeros(1, np.uint32), checks=Check.REGISTERS, max_findings=1)
    assert len(report.findings) == 1
    assert not report.complete

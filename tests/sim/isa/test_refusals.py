"""What has no meaning here stops the run where it is executed, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sm100sim.ptx.errors import PtxError, Unsupported
from sm100sim.report import SimulationFault, UnsupportedExecuted
from testing.harness import run_ptx

FUNCTIONS = """
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.extern .func (.param .b32 func_retval0) vscanf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 words[4] = {37, 117, 10, 0};
.visible .func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %x<3>; frobnicate %x1; ret; }
"""
EXTERNAL = """{
.param .b64 param0;
.param .b64 param1;
.param .b32 retval0;
mov.b64 %rd9, words; st.param.b64 [param0], %rd9; st.param.b64 [param1], 0;
call.uni (retval0), vscanf, (param0, param1);
ld.param.b32 %r9, [retval0];
}"""
CALL = "{ .param .b32 r; .param .b32 a; call (r), twice, (a); ld.param.b32 %r9, [r]; }"
CASES = {
    "external": (EXTERNAL, "call of vscanf, an external function that this module does not hold"),
    "function": (CALL, "opcode 'frobnicate' is not in the instruction set"),
    "pointer": ("call %rd9, (%r1);", "an indirect call needs .calltargets or .callprototype"),
    "parameter": ("st.param.b32 [a0], 1;", "kernel parameters cannot be stored to"),
    "opcode": ("frobnicate.b32 %r1, %r2;", "opcode 'frobnicate' is not in the instruction set"),
    "modifier": ("add.odd.u32 %r1, %r2, 1;", "modifier .odd is not understood"),
    "operands": ("add.u32 %r1;", "3 operands expected, 1 given"),
    "width": ("add.u32 %rd1, %r2, 1;", "%rd1 has 64 bits, the form writes 32"),
}
DIVERGED = "mov.u32 %r1, %tid.x; setp.eq.u32 %q0, %r1, {}; @!%q0 bra OVER;\n{}\nOVER:\n"
STORE = "mad.wide.u32 %rd1, %r1, 4, %p0; add.u32 %r2, %r1, 7; st.global.u32 [%rd1], %r2;"


@pytest.mark.parametrize("name", CASES)
def test_a_path_that_nobody_takes_changes_nothing(name: str) -> None:
    out = np.zeros(32, np.uint32)
    report = run_ptx(DIVERGED.format(99, CASES[name][0]) + STORE, out, shared=FUNCTIONS)
    assert report.verdict == "clean"
    assert (out == np.arange(32) + 7).all()


@pytest.mark.parametrize("name", CASES)
def test_a_path_that_is_taken_stops_in_words(name: str) -> None:
    statement, words = CASES[name]
    body = DIVERGED.format(5, statement) + STORE
    with pytest.raises(UnsupportedExecuted) as caught:
        run_ptx(body, np.zeros(32, np.uint32), shared=FUNCTIONS)
    fault = caught.value
    assert isinstance(fault, SimulationFault)
    assert isinstance(fault, Unsupported)
    assert words in fault.what
    assert words in str(fault)
    (found,) = fault.report.findings
    assert (found.code, found.fatal, found.lane) == ("unsupported", True, 5)
    assert f"PTX line {fault.line}: {found.source.strip()}" in str(fault)
    report = run_ptx(body, np.zeros(32, np.uint32), shared=FUNCTIONS, raise_on_fault=False)
    assert report.findings == fault.report.findings


def test_a_guard_keeps_it_from_being_executed() -> None:
    statement = "setp.eq.u32 %q0, 1, {}; @%q0 frobnicate %r1;"
    assert run_ptx(statement.format(2)).verdict == "clean"
    with pytest.raises(UnsupportedExecuted, match="frobnicate"):
        run_ptx(statement.format(1))


def test_the_source_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('scanf("%u", &i);\n')
    files = f'.file 1 "{tmp_path}/k.cu"'
    with pytest.raises(UnsupportedExecuted, match=r"vscanf(.|\n)*k\.cu:1: scanf\("):
        run_ptx(f".loc 1 1\n{EXTERNAL}", shared=FUNCTIONS + files)


@pytest.mark.parametrize("statement", ["add.u32 %r1, %nobody, 1;", "add.u32 %r1 %r2", "bra NONE;"])
def test_syntax_errors_fail_before_the_run(statement: str) -> None:
    with pytest.raises(PtxError) as caught:
        run_ptx(DIVERGED.format(99, statement), np.zeros(32, np.uint32))
    assert not isinstance(caught.value, SimulationFault)

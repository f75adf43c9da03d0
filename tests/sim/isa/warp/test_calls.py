"""Device functions: arguments, results, recursion, pointers, divergence (PTX ISA, "call")."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sm100sim import launch
from sm100sim.options import Check, RunOptions
from sm100sim.report import SimulationFault, UnsupportedExecuted
from testing.harness import run_ptx

COMPILED = (Path(__file__).parent / "data/calls.ptx").read_text()
"""Written by nvcc 13.0 from calls.cu."""
LANES = np.arange(32)
CHECKED = RunOptions(checks=Check.ALL)

TWICE = """
.func (.param .b32 r) twice(.param .b32 a) {
.reg .b32 %x<3>; ld.param.b32 %x1, [a]; add.u32 %x2, %x1, %x1; st.param.b32 [r], %x2; ret;
}
"""
FACTORIAL = """
.func (.param .b32 r) factorial(.param .b32 a) {
.reg .b32 %x<4>; .reg .pred %q;
ld.param.b32 %x1, [a]; mov.u32 %x3, 1; setp.le.u32 %q, %x1, 1; @%q bra OUT;
{ .param .b32 p; .param .b32 s; sub.u32 %x2, %x1, 1; st.param.b32 [p], %x2;
  call (s), factorial, (p); ld.param.b32 %x2, [s]; }
mul.lo.u32 %x3, %x1, %x2;
OUT: st.param.b32 [r], %x3; ret;
}
"""
THREAD = "mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 4, %p0;"
KEEP = "st.global.u32 [%rd1], %r9;"


def call(name: str, guard: str = "") -> str:
    """A call of a function of one argument in %r1; the result goes to %r9."""
    return (
        "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; "
        f"{guard} call (r), {name}, (a); {guard} ld.param.b32 %r9, [r]; }}"
    )


def results(body: str, functions: str, **options: Any) -> list[int]:
    out = np.zeros(32, np.uint32)
    report = run_ptx(THREAD + body + KEEP, out, shared=functions, **options)
    assert report.verdict == "clean"
    return [int(x) for x in out]


def stops(body: str, functions: str, **options: Any) -> str:
    with pytest.raises(SimulationFault) as caught:
        run_ptx(THREAD + body + KEEP, np.zeros(32, np.uint32), shared=functions, **options)
    return str(caught.value)


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def polynomial(x: float, count: int) -> float:
    total = 0.0
    for k in range(count):
        total = total * x + k
    return total


PAIR = np.dtype(
    {
        "names": ["a", "b", "c"],
        "formats": ["i4", "f8", "12u1"],
        "offsets": [0, 8, 16],
        "itemsize": 32,
    }
)


def test_what_nvcc_makes_of_functions_recursion_and_structures() -> None:
    floats, numbers = np.zeros(32, np.float32), np.zeros(32, np.uint32)
    found, pairs = np.zeros(32, np.int32), np.zeros(32, PAIR)
    args = [floats, numbers, found, pairs.view(np.uint8)]
    report = launch(COMPILED, CHECKED, kernel="direct", grid=1, block=32, args=args)
    assert report.verdict == "clean"
    assert np.allclose(floats, [polynomial(k / 4, k % 5 + 1) for k in range(32)])
    assert numbers.tolist() == [fibonacci(k % 9) for k in range(32)]
    first = [next((n for n in range(8) if n * k % 7 > 5), -1) for k in LANES]
    assert found.tolist() == first
    assert (pairs["a"] == 2 * LANES).all()
    assert (pairs["b"] == LANES).all()
    for k in LANES:
        expected = np.arange(12)
        expected[k % 12] = k
        assert (pairs["c"][k] == expected).all()


def test_pointers_to_functions_and_virtual_functions() -> None:
    out = np.zeros(64, np.int32)
    report = launch(COMPILED, CHECKED, kernel="indirect", grid=1, block=32, args=[out])
    assert report.verdict == "clean"
    assert out[:32].tolist() == [(k + 7, k - 7, k * 7)[k % 3] for k in LANES]
    assert out[32:].tolist() == [k * (k % 3 + 1) for k in LANES]


@pytest.mark.parametrize("checks", [Check.NONE, Check.ALL])
def test_lanes_recurse_to_different_depths(checks: Check) -> None:
    body = "and.b32 %r1, %r1, 7;" + call("factorial")
    expected = [int(np.prod(np.arange(1, k % 8 + 1))) for k in LANES]
    assert results(body, FACTORIAL, checks=checks) == expected
    deep = "min.u32 %r1, %r1, 1; mul.lo.u32 %r1, %r1, 500;" + call("factorial")
    assert results(deep, FACTORIAL)[0] == 1


def test_functions_that_call_each_other_keep_their_registers() -> None:
    parity = """
    .func (.param .b32 r) odd(.param .b32 a);
    .func (.param .b32 r) even(.param .b32 a) {
      .reg .b32 %x<4>; .reg .pred %q; ld.param.b32 %x1, [a]; mov.u32 %x2, 1; setp.eq.u32 %q, %x1, 0;
      @!%q sub.u32 %x3, %x1, 1;
      { .param .b32 p; .param .b32 s; @!%q st.param.b32 [p], %x3; @!%q call (s), odd, (p);
        @!%q ld.param.b32 %x2, [s]; }
      @!%q mad.lo.u32 %x2, %x1, 1000, %x2;
      st.param.b32 [r], %x2; ret; }
    .func (.param .b32 r) odd(.param .b32 a) {
      .reg .b32 %x<4>; .reg .pred %q; ld.param.b32 %x1, [a]; mov.u32 %x2, 0; setp.eq.u32 %q, %x1, 0;
      @!%q sub.u32 %x3, %x1, 1;
      { .param .b32 p; .param .b32 s; @!%q st.param.b32 [p], %x3; @!%q call (s), even, (p);
        @!%q ld.param.b32 %x2, [s]; }
      @!%q mad.lo.u32 %x2, %x1, 1000, %x2;
      st.param.b32 [r], %x2; ret; }
    """
    body = "and.b32 %r1, %r1, 7;" + call("even")
    expected = [int(k % 2 == 0) + 1000 * sum(range(k + 1)) for k in range(8)] * 4
    assert results(body, parity, checks=Check.ALL) == expected


def test_lanes_that_return_early_wait_behind_the_call() -> None:
    function = """
    .func (.param .b32 r) f(.param .b32 a) {
    .reg .b32 %x<4>; .reg .pred %q; ld.param.b32 %x1, [a]; setp.lt.u32 %q, %x1, 10;
    st.param.b32 [r], 1; @%q ret; setp.lt.u32 %q, %x1, 20; st.param.b32 [r], 2; @%q bra OUT;
    activemask.b32 %x2; st.param.b32 [r], %x2; OUT: ret; }
    """
    body = call("f") + "activemask.b32 %r2; add.u32 %r9, %r9, %r2;"
    expected = [1] * 10 + [2] * 10 + [0xFFF00000] * 12
    assert results(body, function) == [(k - 1) & 0xFFFFFFFF for k in expected]


def test_a_guarded_call_is_made_by_the_lanes_of_its_guard() -> None:
    body = "mov.u32 %r9, 7; setp.gt.u32 %q1, %r1, 20;" + call("twice", "@%q1")
    body += "activemask.b32 %r2; setp.ne.u32 %q2, %r2, -1; @%q2 trap;"
    assert results(body, TWICE) == [2 * k if k > 20 else 7 for k in range(32)]


def test_lanes_that_leave_the_kernel_in_a_function_are_not_waited_for() -> None:
    function = """
    .func (.param .b32 r) f(.param .b32 a) {
    .reg .b32 %x<4>; .reg .pred %q; ld.param.b32 %x1, [a]; setp.lt.u32 %q, %x1, 3; @%q exit;
    st.param.b32 [r], %x1; ret; }
    """
    out = np.full(32, 99, np.uint32)
    run_ptx(THREAD + call("f") + "activemask.b32 %r9;" + KEEP, out, shared=function)
    assert out.tolist() == [99] * 3 + [0xFFFFFFF8] * 29


def test_registers_as_parameters() -> None:
    function = ".func (.reg .b32 r) f(.reg .b32 a, .reg .b32 b) { mad.lo.u32 r, a, b, 1; ret; }"
    assert results("call (%r9), f, (%r1, 3);", function) == [3 * k + 1 for k in range(32)]


def test_each_call_has_local_variables_of_its_own_and_may_be_given_a_pointer_to_others() -> None:
    function = """
    .func (.param .b32 r) f(.param .b64 p, .param .b32 n) {
    .local .align 8 .b8 mine[8]; .reg .b32 %x<6>; .reg .b64 %d<6>; .reg .pred %q;
    ld.param.b64 %d1, [p]; ld.param.b32 %x1, [n]; ld.b32 %x2, [%d1]; add.u32 %x2, %x2, 1;
    mov.b64 %d2, mine; cvta.local.u64 %d2, %d2; st.local.b32 [mine], %x2; setp.eq.u32 %q, %x1, 0;
    sub.u32 %x1, %x1, 1; mov.u32 %x3, 0;
    { .param .b64 p1; .param .b32 n1; .param .b32 s; st.param.b64 [p1], %d2; st.param.b32 [n1], %x1;
      @!%q call (s), f, (p1, n1); @!%q ld.param.b32 %x3, [s]; }
    ld.b32 %x4, [%d2]; mad.lo.u32 %x3, %x3, 10, %x4; st.param.b32 [r], %x3; ret; }
    """
    body = """
    .local .b32 depot; .reg .b64 %SP; mov.b64 %SP, depot; cvta.local.u64 %SP, %SP;
    st.local.b32 [depot], 0; { .param .b64 p; .param .b32 n; .param .b32 s; st.param.b64 [p], %SP;
    and.b32 %r2, %r1, 3; st.param.b32 [n], %r2; call (s), f, (p, n); ld.param.b32 %r9, [s]; }
    """
    assert results(body, function, checks=Check.ALL) == [1, 21, 321, 4321] * 8


def test_targets_of_an_indirect_call_may_be_listed() -> None:
    body = (
        "T: .calltargets twice; mov.b64 %rd2, twice;"
        "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; "
        "call (r), %rd2, (a), T; ld.param.b32 %r9, [r]; }"
    )
    assert results(body, TWICE + FACTORIAL) == [2 * k for k in range(32)]
    other = body.replace("%rd2, twice", "%rd2, factorial")
    assert "call-target" in stops(other, TWICE + FACTORIAL)
    wild = body.replace("mov.b64 %rd2, twice", "mov.b64 %rd2, 64")
    assert "0x40 is not the address of a function" in stops(wild, TWICE)


def test_a_fault_in_a_function_says_where_it_was_called() -> None:
    functions = ".func inner() { trap; ret; }\n.func outer() {\ncall inner;\nret; }\n"
    message = stops("\ncall outer;", functions)
    lines = re.search(r"executed trap; called at PTX line (\d+), PTX line (\d+) ", message)
    assert lines is not None, message
    inner, outer = (int(number) for number in lines.groups())
    assert inner == 6
    assert outer > inner
    assert "stack-overflow" in stops("call f;", ".func f() { call f; ret; }")


def test_recursion_without_an_end_is_a_stack_overflow() -> None:
    endless = ".func f() { call f; ret; }"
    assert "stack-overflow" in stops("call f;", endless)


def test_a_function_ends_with_a_return() -> None:
    assert "ran-off-end" in stops("call f;", ".func f() { }")


def test_what_cannot_be_called_stops_when_it_is() -> None:
    external = ".extern .func (.param .b32 r) far(.param .b32 a);\n"
    broken = ".func (.param .b32 r) bad(.param .b32 a) { frobnicate %nobody; ret; }\n"
    for name, functions, words in (
        ("far", external, "call of far, an external function"),
        ("bad", broken, "bad: PTX line 4: %nobody is neither declared"),
        ("twice", TWICE, ""),
    ):
        never = "setp.gt.u32 %q1, %r1, 99; @!%q1 bra OVER;" + call(name) + "OVER: mov.u32 %r9, 1;"
        assert results(never, functions) == [1] * 32
        if words:
            with pytest.raises(UnsupportedExecuted, match=words):
                run_ptx(call(name), shared=functions, block=1)
    wide = call("twice").replace(".param .b32 a", ".param .b64 a")
    with pytest.raises(UnsupportedExecuted, match="8 bytes, the function's a 4"):
        run_ptx(wide, shared=TWICE)
    with pytest.raises(UnsupportedExecuted, match="0 arguments given, the function has 1"):
        run_ptx("{ .param .b32 r; call (r), twice; }", shared=TWICE)


def test_a_result_that_the_linked_function_does_not_give_is_left_as_it_is() -> None:
    """As numba-cuda calls functions of C that it declares with a result and links without."""
    function = """
    .func store(.param .b64 to) { .reg .b64 %t; .reg .b32 %x;
    ld.param.b64 %t, [to]; mov.u32 %x, 42; st.global.b32 [%t], %x; ret; }
    """
    out = np.zeros(32, np.uint32)
    given = ".param .b32 r; .param .b64 a; st.param.b64 [a], %rd1;"
    body = THREAD + f"{{ {given} call (r), store, (a); }}"
    run_ptx(body, out, shared=function, checks=Check.ALL)
    assert out.tolist() == [42] * 32


def test_registers_of_a_function_begin_without_a_value() -> None:
    function = """
    .func (.param .b32 r) f(.param .b32 a) { .reg .b32 %x<4>; .reg .pred %q;
    ld.param.b32 %x1, [a]; setp.eq.u32 %q, %x1, 0; @%q mov.u32 %x2, 5; st.param.b32 [r], %x2; ret; }
    """
    body = "mov.u32 %r1, 0;" + call("f")
    assert results(body, function, checks=Check.ALL) == [5] * 32
    again = body + "mov.u32 %r1, 1;" + call("f")
    out = np.zeros(32, np.uint32)
    report = run_ptx(THREAD + again + KEEP, out, shared=function, checks=Check.ALL)
    assert {f.code for f in report.findings} == {"uninitialised-register"}


SWITCH = "T: .branchtargets A, B, C; {} brx.idx %r2, T;"
WAYS = "A: mov.u32 %r9, 10; bra END; B: mov.u32 %r9, 20; bra END; C: mov.u32 %r9, 30; END:"


def test_lanes_of_an_indirect_branch_meet_again() -> None:
    body = SWITCH.format("rem.u32 %r2, %r1, 3;") + WAYS
    body += "activemask.b32 %r3; and.b32 %r9, %r9, %r3;"
    assert results(body, "") == [(10, 20, 30)[k % 3] for k in range(32)]
    same = SWITCH.format("mov.u32 %r2, 1;") + WAYS
    assert results(same, "") == [20] * 32


def test_a_guarded_indirect_branch() -> None:
    body = "mov.u32 %r9, 1; setp.lt.u32 %q1, %r1, 8; rem.u32 %r2, %r1, 3;"
    body += SWITCH.format("").replace("brx", "@%q1 brx") + "mov.u32 %r9, 2; bra END;" + WAYS
    assert results(body, "") == [(10, 20, 30)[k % 3] if k < 8 else 2 for k in range(32)]


def test_an_index_beyond_the_table_stops() -> None:
    body = SWITCH.format("setp.eq.u32 %q1, %r1, 31; selp.u32 %r2, 3, 0, %q1;") + WAYS
    assert "index 3 (lane 31) is beyond the 3 entries" in stops(body, "")

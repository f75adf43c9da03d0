"""printf, assert, malloc and free of CUDA C++, as its programming guide documents them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from sm100sim import launch
from sm100sim.options import Check, RunOptions
from sm100sim.report import SimulationFault
from testing.harness import run_ptx

COMPILED = (Path(__file__).parent / "data/calls.ptx").read_text()
DECLARED = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"


def text_variable(name: str, text: str) -> str:
    data = [*text.encode(), 0]
    return f".global .align 1 .b8 {name}[{len(data)}] = {{{', '.join(map(str, data))}}};\n"


def printed(form: str, *values: int | float | str, block: int = 1) -> str:
    """What one printf prints; strings are given as variables."""
    declared, stores, offset = DECLARED + text_variable("form", form), [], 0
    for k, value in enumerate(values):
        size = 4 if isinstance(value, int) and abs(value) < 2**32 else 8
        offset = (offset + size - 1) // size * size
        if isinstance(value, str):
            declared += text_variable(f"s{k}", value)
            stores.append(f"mov.b64 %rd1, s{k}; st.local.b64 [depot+{offset}], %rd1;")
        elif isinstance(value, float):
            bits = np.float64(value).view(np.uint64)
            stores.append(f"mov.b64 %rd1, {bits:#x}; st.local.b64 [depot+{offset}], %rd1;")
        else:
            stores.append(f"mov.b{8 * size} %{'r' if size == 4 else 'rd'}1, {value};")
            stores.append(f"st.local.b{8 * size} [depot+{offset}], %{'r' if size == 4 else 'rd'}1;")
        offset += size
    body = ".local .align 8 .b8 depot[320];" + "".join(stores) + (
        "mov.b64 %rd2, depot; cvta.local.u64 %rd2, %rd2; mov.b64 %rd3, form;"
        "{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd3;"
        "st.param.b64 [b], %rd2; call.uni (r), vprintf, (a, b); ld.param.b32 %r9, [r]; }"
        "st.global.u32 [%p0], %r9;"
    )  # fmt: skip
    count = np.zeros(1, np.int32)
    heard: list[str] = []
    report = run_ptx(body, count, shared=declared, block=block, print_to=heard.append)
    assert heard == ([report.output] if report.output else [])
    assert count[0] == len(values)
    return report.output


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("%d %i %u|", (-5, 7, 2**32 - 1), "-5 7 4294967295|"),
        ("%x %X %#x %o %08x", (255, 255, 255, 8, 0xBEEF), "ff FF 0xff 10 0000beef"),
        ("%ld %lld", (2**40, -(2**40)), f"{2**40} {-(2**40)}"),
        ("%llu %lx", (2**63, 2**36), f"{2**63} 1000000000"),
        ("%f %.3f %10.2f|", (0.5, math.pi, 2.345), "0.500000 3.142       2.35|"),
        ("%-10.1f|%+g", (2.5, 1e-7), "2.5       |+1e-07"),
        ("%e %E %a", (12345.678, 0.0, 1.0), "1.234568e+04 0.000000E+00 0x1p+0"),
        ("%g %G %F", (math.inf, -math.inf, math.nan), "inf -INF NAN"),
        ("[%s] [%8s] [%-6s]", ("text", "right", "left"), "[text] [   right] [left  ]"),
        ("[%.2s]", ("cut",), "[cu]"),
        ("[%5.1s] [%s]", ("x" * 300, "y" * 300), f"[    x] [{'y' * 300}]"),
        ("%c%c%c", (72, 105, 33), "Hi!"),
        ("100%% %5d%%", (42,), "100%    42%"),
        ("%*d|%-*d|%.*f", (6, 1, 4, 2, 2, 0.125), "     1|2   |0.12"),
        ("%hd %hhx %zu %p", (3, 9, 2**33, 2**34), "3 9 8589934592 0x400000000"),
        ("no values\n", (), "no values\n"),
    ],
)  # fmt: skip
def test_conversions(form: str, values: tuple[float | str, ...], expected: str) -> None:
    assert printed(form, *values) == expected


@pytest.mark.parametrize(("form", "answer", "text"), [("0", -1, ""), ("form", 1, "[(null)]")])
def test_null_pointers(form: str, answer: int, text: str) -> None:
    """Without a format nothing is printed and the answer is -1; a null string is shown as such."""
    declared, out = DECLARED + text_variable("form", "[%s]"), np.zeros(1, np.int32)
    body = f"""
    .local .align 8 .b8 depot[8]; st.local.b64 [depot], 0; mov.b64 %rd2, depot;
    cvta.local.u64 %rd2, %rd2; mov.b64 %rd3, {form}; {{ .param .b64 a; .param .b64 b;
    .param .b32 r; st.param.b64 [a], %rd3; st.param.b64 [b], %rd2; call (r), vprintf, (a, b);
    ld.param.b32 %r9, [r]; }} st.global.u32 [%p0], %r9;
    """
    report = run_ptx(body, out, shared=declared, block=1, print_to=len)
    assert (out[0], report.output) == (answer, text)


def test_every_thread_prints_a_whole_line() -> None:
    heard: list[str] = []
    options = RunOptions(print_to=heard.append)
    report = launch(COMPILED, options, kernel="say", grid=1, block=32, args=[3])
    lines = [f"thread {k} of 32: {k / 2:5.2f} word x {1 << 40} %\n" for k in range(3)]
    assert heard == ["".join([*lines, "plain\n"])]
    assert report.output == heard[0]


def test_the_text_goes_to_standard_output_after_the_launch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    launch(COMPILED, kernel="say", grid=2, block=32, args=[0])
    assert capsys.readouterr().out == "plain\nplain\n"


def test_a_format_that_cuda_does_not_document_stops() -> None:
    with pytest.raises(SimulationFault, match=r"printf-format: the conversion %n"):
        printed("%n", 1)
    with pytest.raises(SimulationFault, match="more than 32 values"):
        printed("%d" * 33, *range(33))


def test_a_value_outside_of_every_buffer_stops() -> None:
    with pytest.raises(SimulationFault, match="global-address"):
        printed("%s%d", 2**45 + 1, 1)


def test_an_assertion_that_holds_changes_nothing() -> None:
    assert launch(COMPILED, kernel="check", grid=2, block=64, args=[64]).verdict == "clean"


def test_an_assertion_that_fails_ends_the_launch_in_words() -> None:
    with pytest.raises(SimulationFault) as caught:
        launch(COMPILED, kernel="check", grid=(1, 2), block=(16, 2, 2), args=[14])
    (found,) = caught.value.report.findings
    assert (found.code, found.lane) == ("assertion", 14)
    assert found.message == (
        "calls.cu:76: void check(int): block: [0,0,0], thread: [14,0,0] "
        'Assertion `threadIdx.x < n && "too many"` failed. (lanes c000c000)'
    )


def heap(mode: int, grid: int = 3) -> np.ndarray:
    out = np.zeros(32 * grid, np.int32)
    options = RunOptions(checks=Check.ALL)
    report = launch(COMPILED, options, kernel="heap", grid=grid, block=32, args=[out, mode])
    assert report.verdict == "clean"
    return out


def test_every_thread_may_have_memory_of_its_own() -> None:
    assert (heap(0) == np.tile(np.arange(32) * 120, 3)).all()


def test_the_heap_has_8_mebibytes() -> None:
    assert (heap(4, grid=1) == 1).all()


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (1, "global-address: write of 4 bytes"),
        (2, "global-address: read of 4 bytes"),
        (3, "heap-address: free of 0x"),
    ],
)
def test_what_is_not_allocated_cannot_be_used(mode: int, words: str) -> None:
    with pytest.raises(SimulationFault, match=words):
        heap(mode)


def test_a_module_may_have_a_function_of_that_name() -> None:
    own = """.func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b) {
    st.param.b32 [r], 77; ret; }"""
    out = np.zeros(1, np.uint32)
    body = """{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], 0;
    st.param.b64 [b], 0; call (r), vprintf, (a, b); ld.param.b32 %r9, [r]; }
    st.global.u32 [%p0], %r9;"""
    run_ptx(body, out, shared=own, block=1)
    assert out[0] == 77

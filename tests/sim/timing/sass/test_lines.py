"""Line numbers of PTX in machine code."""

import re
import shutil

import numpy as np
import pytest

from sm100sim.timing.sass import cubin, lines, tools
from sm100sim.timing.sass.lines import compiled, numbered, of_cubin
from sm100sim.timing.sass.tools import assembled
from testing.harness import kernel_text

BODY = """
mov.u32 %r1, %tid.x;
.loc 1 77 3
L: add.u32 %r2, %r1, 5; // comment
{ .reg .b32 %t; mov.b32 %t, %r2;
  st.global.b32
    [%p0], %t;
}
"""


def text() -> str:
    return kernel_text(BODY, [np.zeros(1, np.uint32)])


def test_each_line_of_instructions_is_numbered_once() -> None:
    source = text()
    rows = source.split("\n")
    named = [int(n) for n in re.findall(r"^\.loc 1 (\d+) 0$", numbered(source), re.M)]
    found = [rows[n - 1].strip() for n in named]
    assert "L: add.u32 %r2, %r1, 5; // comment" in found
    assert "{ .reg .b32 %t; mov.b32 %t, %r2;" not in found  # it begins with a declaration
    assert "st.global.b32" in found
    assert "[%p0], %t;" not in found
    assert not any(row.startswith(".loc") for row in found)
    assert ".loc 1 77" not in numbered(source)
    assert "ret;" in found
    assert len(named) == len(set(named))


def test_machine_code_names_lines_of_the_ptx() -> None:
    source = text()
    kernel = compiled(source, "sm_100a")
    store = next(i for i in kernel.instructions if i.opcode == "STG")
    assert source.split("\n")[(store.ptx_line or 0) - 1].strip() == "st.global.b32"
    assert kernel.name == "k"
    assert kernel.registers > 0
    assert re.fullmatch(r"\d+\.\d+\.\d+", kernel.compiler)
    assert len(kernel.text) == 16 * len(kernel.instructions)


@pytest.mark.slow
def test_a_cubin_of_other_code_is_refused() -> None:
    source = text()
    same = of_cubin(assembled(source, "sm_100a"), source, "sm_100a", "k")
    assert same.instructions == compiled(source, "sm_100a").instructions
    other = assembled(source.replace("%r1, 5", "%r1, 6"), "sm_100a")
    with pytest.raises(ValueError, match="makes other code"):
        of_cubin(other, source, "sm_100a", "k")


def test_code_that_changes_with_line_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    source = text()
    changed = source.replace("%r1, 5", "%r1, 6")
    monkeypatch.setattr(lines, "numbered", lambda _: numbered(changed))
    with pytest.raises(ValueError, match="line numbers"):
        compiled(source, "sm_100a")


@pytest.mark.parametrize(("others", "right"), [(lines.TRIES - 1, True), (lines.TRIES, False)])
def test_a_text_is_assembled_again_where_ptxas_makes_one_of_two_codes(
    monkeypatch: pytest.MonkeyPatch, others: int, right: bool
) -> None:
    left = iter([text().replace("%r1, 5", "%r1, 6")] * others)

    def by_chance(ptx: str, arch: str, *options: str, ptxas: str | None = None) -> bytes:
        source = ptx if "-lineinfo" in options else next(left, ptx)
        return assembled(source, arch, *options, ptxas=ptxas)

    monkeypatch.setattr(lines, "assembled", by_chance)
    if right:
        assert compiled(text(), "sm_100a").name == "k"
    else:
        with pytest.raises(ValueError, match="line numbers"):
            compiled(text(), "sm_100a")
    assert next(left, None) is None


def test_a_program_that_writes_no_cubin_is_named() -> None:
    with pytest.raises(ValueError, match=r"true ends without an error and writes no cubin"):
        assembled(text(), "sm_100a", ptxas=shutil.which("true"))


def test_an_assembler_is_asked_where_its_cubin_does_not_say_who_made_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ptxas 12 leaves no note."""
    monkeypatch.setattr(cubin, "compiler", lambda _: "")
    made_by = compiled(text(), "sm_100a").compiler
    assert made_by == tools.version()
    assert re.fullmatch(r"1[2-9]\.\d+\.\d+", made_by)


def test_what_ptxas_says_is_passed_on() -> None:
    with pytest.raises(ValueError, match=r"ptxas refuses the PTX for sm_100a: .*syntax error"):
        assembled(text().replace("ret;", "nonsense"), "sm_100a")


def test_a_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm100sim.timing.sass.tools.importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("sm100sim.timing.sass.tools.shutil.which", lambda _: None)
    with pytest.raises(FileNotFoundError, match="nvidia-cuda-nvcc"):
        tools.tool("ptxas")

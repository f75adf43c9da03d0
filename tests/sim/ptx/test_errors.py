"""An error shows where it is: line, source text, caret."""

from __future__ import annotations

from sm100sim.ptx import PtxError, Unsupported
from sm100sim.ptx.errors import SourceLine, find_token
from tests.sim.ptx.snippets import instruction, refused, text


def test_message_names_line_reason_and_points_at_the_token() -> None:
    error = refused(text("mov.b32 %r1, %r2;\n\tadd.s32 %r1, %r2, %nothing;"))
    assert error.line == 10
    assert str(error).split("\n") == [
        "PTX line 10: %nothing is neither declared nor a known special register",
        "    add.s32 %r1, %r2, %nothing;",
        "                      ^",
    ]


def test_token_on_a_later_line_of_a_long_statement() -> None:
    error = refused(text("st.shared.v4.b32 [%r0], {%r1, %r2,\n   %r3, %r99};"))
    assert error.line == 10
    assert error.text[error.column :].startswith("%r99")


def test_tabs_before_the_caret_are_kept() -> None:
    error = PtxError(3, "\tmov\t%r1, 08;", "bad", column=10)
    assert str(error).split("\n")[1:] == ["    mov\t%r1, 08;", "       \t     ^"]


def test_unsupported_takes_an_instruction() -> None:
    ins = instruction("add.s32 %r1, %r2, 3;")
    error = Unsupported(ins, "no meaning", "%r2")
    assert isinstance(error, PtxError)
    assert (error.line, error.text) == (ins.line, ins.text)
    assert ins.text[error.column :] == "%r2, 3"
    assert "^" not in str(Unsupported(SourceLine(4, "add"), "no meaning"))


def test_only_the_line_of_the_token_is_shown() -> None:
    ins = instruction("mov.b64 %d1,\n\t{%r1,\n  %r2};")
    assert str(Unsupported(ins, "odd", "%r1")).split("\n")[1:] == ["    {%r1,", "     ^"]


def test_token_is_a_whole_name() -> None:
    assert find_token("%r10, %r1", "%r1") == 6
    assert find_token("foo.x foo", "foo") == 0
    assert find_token("xfoo", "foo") == -1
    assert find_token("[%r1+ q]", "[%r1+ q]") == 0

"""Comments, lines and statements."""

from __future__ import annotations

import pytest

from sm100sim.ptx import PtxError
from sm100sim.ptx.lexer import Source
from tests.sim.ptx.render import render
from tests.sim.ptx.snippets import kernel, refused, text


def test_comments_become_blanks_of_the_same_length() -> None:
    source = Source("a // b ; {\n/* c\n; */ d; e")
    assert len(source.text) == len("a // b ; {\n/* c\n; */ d; e")
    assert source.text.split() == ["a", "d;", "e"]
    assert source.text.count("\n") == 2


def test_comment_signs_inside_a_string_stay() -> None:
    source = Source('.file 1 "http://x/*y*/";\nadd;')
    assert source.text == '.file 1 "http://x/*y*/";\nadd;'


def test_unclosed_comment_names_its_line() -> None:
    with pytest.raises(PtxError, match="line 2: comment is not closed"):
        Source("a\nb /* c\n\n")


def test_line_of_every_position() -> None:
    source = Source("ab\n\ncd")
    assert [source.line(k) for k in range(6)] == [1, 1, 1, 2, 3, 3]
    assert source.place(5) == (3, "cd")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("add a, b; sub", "add a, b;"),
        ("mov {a,\n b}, c; x", "mov {a,\n b}, c;"),
        ("t {a}, [m, {b, c}], d; x", "t {a}, [m, {b, c}], d;"),
        ('.pragma "a;b"; x', '.pragma "a;b";'),
    ],
)
def test_statement_ends_at_its_semicolon(given: str, expected: str) -> None:
    assert Source(given).statement(0) == expected


@pytest.mark.parametrize("given", ["add a, b", "add a, b }", "mov {a; b}, c;", "mov {a, {b}}, c;"])
def test_statement_without_an_end_is_refused(given: str) -> None:
    with pytest.raises(PtxError, match="does not end"):
        Source(given).statement(0)


def test_closing_brace_ignores_strings() -> None:
    given = 'x {a "}" {b} c} d'
    assert given[: Source(given).closing(2)] == 'x {a "}" {b} c}'
    with pytest.raises(PtxError, match="not closed"):
        Source("{ {a}").closing(0)


def test_debug_lines_are_skipped_but_local_variables_are_not() -> None:
    found = kernel(
        ".loc 1 10 2, function_name $L, inlined_at 1 2 3\n.local .align 4 .b8 depot[8];\n"
        '.file 1 "/tmp/a;b{"\nmov.b64 %d0, depot;'
    )
    assert [ins.opcode for ins in found.body] == ["mov"]
    assert [(v.name, v.space, v.size_bytes) for v in found.local] == [("depot", "local", 8)]


def test_comment_inside_an_instruction() -> None:
    (ins,) = kernel("add.s32 /* sum */ %r1, // first\n %r2, 3;").body
    assert render(ins) == "add.s32%r1,%r2,3"


def test_crlf_line_ends() -> None:
    crlf = text("add.s32 %r1, %r2, 3;\nadd.s32 %r1, %rx, 3;").replace("\n", "\r\n")
    assert refused(crlf).line == 10


def test_a_string_of_a_debug_line_is_closed() -> None:
    assert Source('.file 1 "name.cu"\n').debug_line(0) == 17
    with pytest.raises(PtxError, match="PTX line 1: string is not closed"):
        Source('.file 1 "name.cu\n').debug_line(0)

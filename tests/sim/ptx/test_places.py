"""Source lines of PTX lines: what `.loc` and `.file` say."""

from __future__ import annotations

from pathlib import Path

from sm100sim.ptx.places import Places, SourcePlace

FIRST = "mov.u32 %r1, 1;"


def places(body: str, files: str = '.file 1 "a.py"') -> tuple[Places, list[str]]:
    """Places of a kernel around `body`, and the lines of its text."""
    text = f".version 8.8\n.entry k() {{\n{body}\n}}\n.entry other() {{\n ret;\n}}\n{files}\n"
    return Places(text), text.split("\n")


def test_an_instruction_belongs_to_the_nearest_loc_before_it() -> None:
    found, lines = places(f"{FIRST}\n.loc 1 7 5\nadd;\nsub;\n\t.loc\t1 9 0 // x\nmul; .loc 1 3\n")
    at = {line: found.at(k) for k, line in enumerate(lines, 1)}
    assert at[FIRST] is None
    assert at["add;"] == at["sub;"] == SourcePlace("a.py", 7, 5)
    assert at["mul; .loc 1 3"] == SourcePlace("a.py", 9)
    assert found.at(lines.index("}", 9) + 1) == SourcePlace("a.py", 3)
    assert at[" ret;"] is None, "the next function begins without a place"


def test_comments_strings_and_unknown_files() -> None:
    body = '// .loc 1 5\n/* .loc 1 6\n*/ .pragma "x .loc 1 4";\nadd;'
    body += "\n.loc 2 1\nsub;\n.loc 1 0\nmul;"
    found, lines = places(body)
    at = {line: found.at(k) for k, line in enumerate(lines, 1)}
    assert at["add;"] is None
    assert at["sub;"] == SourcePlace("file 2", 1)
    assert at["mul;"] is None, "line 0 stands for code of the compiler's own"


def test_inlined_code_names_the_calls_around_it() -> None:
    body = (
        ".loc 1 20 3\n.loc 1 12 2, function_name $L__info_string0, inlined_at 1 20 3\n"
        ".loc 1 4 9, function_name $L__info_string1+8, inlined_at 1 12 2\nadd;"
    )
    found, lines = places(body)
    place = found.at(lines.index("add;") + 1)
    assert str(place) == "a.py:4 (inlined at a.py:12 (inlined at a.py:20))"


def test_a_line_inlined_at_two_calls_names_each() -> None:
    body = "".join(
        f".loc 1 4 9, function_name $L__info_string0, inlined_at 1 {line} 3\n{name};\n"
        for line, name in ((20, "add"), (30, "sub"))
    )
    found, lines = places(body)
    at = {line: str(found.at(k)) for k, line in enumerate(lines, 1)}
    assert at["add;"] == "a.py:4 (inlined at a.py:20)"
    assert at["sub;"] == "a.py:4 (inlined at a.py:30)"


def test_lines_of_inline_assembly_belong_to_its_statement() -> None:
    """The compiler counts a line on for each line of the assembly."""
    body = (
        ".loc 1 7 4\n// begin inline asm\n{\n.reg .pred p;\n.loc 1 9 4\nLAB:\n"
        ".loc 1 10 4\nwait;\n}\n// end inline asm\n"
        "// begin inline asm\n.loc 1 3 0\nmax;\n// end inline asm\n.loc 1 12 4\nadd;"
    )
    found, lines = places(body)
    at = {line: found.at(k) for k, line in enumerate(lines, 1)}
    assert at["LAB:"] == at["wait;"] == SourcePlace("a.py", 7, 4)
    assert at["max;"] == SourcePlace("a.py", 3)
    assert at["add;"] == SourcePlace("a.py", 12, 4)


def test_the_text_of_a_line_where_the_file_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("a = 1\n    b = 2\n")
    found, lines = places(".loc 1 2 4\nadd;", f'.file 1 "{tmp_path}/k.py", 1700000000, 22')
    place = found.at(lines.index("add;") + 1)
    assert str(place) == f"{tmp_path}/k.py:2: b = 2"
    assert found
    assert not Places(".version 8.8")

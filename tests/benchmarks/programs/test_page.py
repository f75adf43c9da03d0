"""The page of programs."""

from __future__ import annotations

from typing import Any

from benchmarks.programs.catalogue import projects
from benchmarks.programs.judge import Record
from benchmarks.programs.page import render


def row(name: str, state: str, **given: Any) -> Record:
    project = projects()[0]
    return Record(project.name, project.language, name, f"{name}.cu", state, **given)


def test_counts_and_rows() -> None:
    records = [
        row("a", "right", launches=2, instructions=1000, findings=["race-shared"]),
        row("b", "right", unjudged=True),
        row("c", "faulty", detail="race | here", why="no `bar`"),
    ]
    text = render(projects(), records)
    assert "| `a` | right | 2 | 1,000 | race-shared |  |" in text
    assert "| `b` | runs |" in text
    assert "| `c` | faulty |  |  |  | race \\| here — no 'bar' |" in text
    assert f"| {projects()[0].name} | 3 | 1 | 1 |  | 1 |" in text


def test_programs_without_a_record_are_named() -> None:
    first, *others = projects()[0].programs
    text = render(projects(), [row(first.name, "right", launches=1)])
    assert f"`{first.name}` | right" in text
    assert "No record: " + ", ".join(f"`{program.name}`" for program in others) + "." in text
    rest = sum(len(project.programs) for project in projects()) - 1
    assert f"{rest} further programs of the lists have no record." in text

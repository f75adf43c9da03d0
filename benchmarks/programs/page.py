"""The generated page of programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from .catalogue import STATES, Project
from .judge import Record
from .places import ROOT

FOREIGN: Final = ROOT / "benchmarks" / "foreign" / "results.json"
MEANING: Final = {
    "right": "its own verification passed, or it printed what the same source prints on the host",
    "runs": "it ends as it should, but would do so with launches that do nothing, too",
    "wrong": "neither, and the cause is not settled",
    "faulty": "the fault is the program's, or that of how this list runs it; its line says what",
    "unsupported": "it needs a part that sm100sim does not have, and was told so",
    "long": "not at its end after the processor time that it may take",
    "unbuilt": "the compiler, or a package, of this list's version refuses it",
}
HEADER: Final = Path(__file__).with_name("header.md")


def render(projects: Sequence[Project], records: Sequence[Record]) -> str:
    """The page's text.

    Args:
        projects: the lists.
        records: the latest record of each program.
    """
    unknown = sum(len(_missing(project, records)) for project in projects)
    parts = [HEADER.read_text(), *_totals(records), "", _without(unknown), "## Programs", ""]
    for project in projects:
        own = [record for record in records if record.project == project.name]
        if own:
            parts += _section(project, own)
    return "\n".join(parts) + "\n"


def _without(count: int) -> str:
    return f"{count} further programs of the lists have no record.\n" if count else ""


def _totals(records: Sequence[Record]) -> list[str]:
    foreign = _foreign()
    every = [*((r.project, r.language, r.result) for r in records), *foreign]
    lines = ["## Counts", "", *_counts("project", every, lambda row: row[0]), ""]
    lines += [*_counts("language", every, lambda row: row[1]), ""]
    ran = [row for row in every if row[2] not in ("unbuilt", "long")]
    right = sum(row[2] == "right" for row in ran)
    count = len({row[0].partition(" (")[0] for row in every})
    lines += [
        f"{right:,} of {len(every):,} programs are right ({right / max(len(every), 1):.1%}); "
        f"{right / max(len(ran), 1):.1%} of the {len(ran):,} that came to an end; "
        f"{count} projects. Rows marked * are those of "
        "[foreign_kernels.md](foreign_kernels.md): kernels of the CuTe DSL, each compared with "
        "float64 arithmetic or by its own example.",
        "",
        *(f"* **{state}**: {text}." for state, text in MEANING.items()),
    ]  # fmt: skip
    return lines


def _foreign() -> list[tuple[str, str, str]]:
    """Project, language and state of the kernels that have a page of their own."""
    rows = json.loads(FOREIGN.read_text()) if FOREIGN.is_file() else []
    return [(f"{row['source']} *", "CuTe DSL", _foreign_state(row)) for row in rows]


def _foreign_state(row: dict[str, str]) -> str:
    if row["status"] == "ok":
        return "right"
    if row["note"].startswith("the program's fault"):
        return "faulty"
    if "DSLUserCodeError" in row["detail"]:
        return "unbuilt"
    return "wrong" if row["status"] == "wrong" else "unsupported"


Row = tuple[str, str, str]


def _counts(name: str, rows: Iterable[Row], key: Callable[[Row], str]) -> list[str]:
    """A table: how many of each kind came to which state."""
    table: dict[str, Counter[str]] = {}
    for row in rows:
        table.setdefault(key(row), Counter())[row[2]] += 1
    lines = [f"| {name} | programs | {' | '.join(STATES)} |", "|---" * (len(STATES) + 2) + "|"]
    for kind, counts in [*sorted(table.items()), ("**all**", sum(table.values(), Counter()))]:
        numbers = " | ".join(str(counts[state] or "") for state in STATES)
        lines.append(f"| {kind} | {counts.total()} | {numbers} |")
    return lines


def _section(project: Project, records: Sequence[Record]) -> list[str]:
    rule = " ".join(project.rule.split())
    where = "PyPI, version" if project.packaged else "revision"
    lines = [
        f"### {project.name}", "",
        f"{project.language}; {where} {project.revision}. Chosen: {rule}.", "",
        "| program | result | launches | warp instructions | findings | what is not right |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [_line(record) for record in records]
    missing = _missing(project, records)
    if missing:
        lines += ["", f"No record: {', '.join(f'`{name}`' for name in missing)}."]
    return [*lines, ""]


def _missing(project: Project, records: Sequence[Record]) -> list[str]:
    """The programs of a list that have no record."""
    known = {record.name for record in records if record.project == project.name}
    return [program.name for program in project.programs if program.name not in known]


def _line(record: Record) -> str:
    result = record.result + (" (memory)" if record.checks == "memory" else "")
    compared = "compares its kernels with one another" if record.compared else ""
    reason = " — ".join(text for text in (record.detail, record.why, compared) if text)
    reason = reason.replace("|", "\\|").replace("`", "'").replace("\n", " ")
    numbers = (f"{record.launches:,}", f"{record.instructions:,}") if record.launches else ("", "")
    found = ", ".join(record.findings)
    if record.state == "right" and not record.launches:
        numbers, found = ("not kept", "not kept"), "not kept"
    return f"| `{record.name}` | {result} | {numbers[0]} | {numbers[1]} | {found} | {reason} |"

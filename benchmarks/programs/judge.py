"""Whether a run came out right, and if not, what is known about that."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from .attempt import EXIT, Attempt
from .catalogue import Program, Project

ALWAYS_WRONG: Final = r"^Traceback \(most recent call last\)|^FAILED \("
"""What Python and unittest print when something failed."""
NOTHING: Final = "it launches nothing"
OWN_LINE: Final = re.compile(r"^sm100sim: (.*)$", re.MULTILINE)
ERROR: Final = re.compile(r"^[\w.]+(?:Error|Exception)\b.*$", re.MULTILINE)
MISSING: Final = re.compile(
    r"not supported|not modelled|is missing|does not exist here|cannot be run|no PTX|unknown here"
)
TESTS: Final = re.compile(r"^Ran (\d+) tests?", re.MULTILINE)
SKIPPED: Final = re.compile(r"skipped=(\d+)")


@dataclass
class Record:
    """What became of a program.

    Attributes:
        state: one of ``catalogue.STATES``.
        checks: "all" checkers, or "memory" where all of them took too long.
        launches: kernels that were launched, and how many of the launches came to their end.
        instructions: warp instructions of all launches.
        findings: codes of what the checkers reported.
        seconds: wall time of the run.
        detail: what stopped it, in the simulator's words.
        why: what is known about a result that is not right.
        hardware: what the same executable did on a GPU: "right", or what was not; "" if none.
        chip: that GPU and its driver.
        unjudged: it is called right with launches that do nothing, too.
        compared: that, but not with a single kernel that does nothing.
    """

    project: str
    language: str
    name: str
    file: str
    state: str
    checks: str = ""
    launches: int = 0
    complete: int = 0
    instructions: int = 0
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    detail: str = ""
    why: str = ""
    hardware: str = ""
    chip: str = ""
    unjudged: bool = False
    compared: bool = False

    @property
    def result(self) -> str:
        """The state, or "runs" where nothing would have noticed wrong results."""
        return "runs" if self.unjudged and self.state == "right" else self.state


def judged(
    project: Project, program: Program, attempt: Attempt, reference: str | None, checks: str
) -> Record:
    """The record of a run.

    Args:
        project: of the program.
        program: what ran.
        attempt: its run.
        reference: what the same source prints on the host, or None.
        checks: under which checkers it ran.
    """
    found = [finding for report in attempt.reports for finding in report["findings"]]
    fatal = [finding for finding in found if finding["fatal"]]
    language = program.language or project.language
    record = Record(
        project.name, language, program.name, program.file, "right", checks,
        launches=len(attempt.reports),
        complete=sum(report["complete"] for report in attempt.reports),
        instructions=sum(report["instructions"] for report in attempt.reports),
        findings=sorted({finding["code"] for finding in found}),
        seconds=attempt.seconds,
    )  # fmt: skip
    problem = _problem(program, attempt, reference, fatal)
    if not problem and not attempt.reports:
        problem = NOTHING
    if problem:
        record.state, record.detail = _state(program, attempt, fatal), problem
        record.why = program.why
    return record


def _problem(
    program: Program, attempt: Attempt, reference: str | None, fatal: list[dict[str, Any]]
) -> str:
    """Why a run is not right; "" if it is."""
    if not attempt.in_time:
        return "not at its end after the time that a program gets"
    fatal = [finding for finding in fatal if finding["code"] not in program.provokes]
    if fatal:
        return f"{fatal[0]['code']}: {fatal[0]['message']}"[:300]
    said = _said(attempt)
    if EXIT in attempt.output and attempt.exit_code:
        return said or f"exit code {attempt.exit_code}"
    if re.search(ALWAYS_WRONG, attempt.output, re.MULTILINE):
        return said or (ERROR.findall(attempt.output) or ["a test failed"])[-1][:300]
    if program.wrong and (match := re.search(program.wrong, attempt.output, re.MULTILINE)):
        return said or f"it says: {match.group()[:200]}"
    if program.right and not re.search(program.right, attempt.output, re.MULTILINE):
        return said or f"it does not say: {program.right}"
    spaced = " ".join(attempt.output.split())
    for text in program.expected:
        if " ".join(text.split()) not in spaced:
            return said or f"it does not print: {text[:200]}"
    if reference is not None and _printed(attempt.printed) != _printed(reference):
        return said or "it prints other results than the same program on the host"
    if all_skipped(attempt.output):
        return "all of its tests are skipped"
    return ""


def on_hardware(program: Program, attempt: Attempt, reference: str | None) -> str:
    """What a run without the simulator came to: "right", or what was not."""
    return _problem(program, attempt, reference, []) or "right"


def all_skipped(output: str) -> bool:
    """Whether unittest ran no test."""
    ran, skipped = TESTS.search(output), SKIPPED.search(output)
    return bool(ran and int(ran[1]) == (int(skipped[1]) if skipped else 0))


def _said(attempt: Attempt) -> str:
    """What the stand-in refused, if it did."""
    lines = [line for line in OWN_LINE.findall(attempt.output) if MISSING.search(line)]
    return lines[0][:300] if lines else ""


def _printed(output: str) -> list[str]:
    """The program's own lines."""
    lines = (line.strip() for line in output.splitlines())
    return [line for line in lines if line and not line.startswith(EXIT)]


def _state(program: Program, attempt: Attempt, fatal: list[dict[str, Any]]) -> str:
    if program.state:
        return program.state
    if not attempt.in_time:
        return "long"
    missing = any(finding["code"] == "unsupported" for finding in fatal) or _said(attempt)
    return "unsupported" if missing else "wrong"

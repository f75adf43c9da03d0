"""Whether a program's run came out right."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.programs.attempt import EXIT, Attempt
from benchmarks.programs.catalogue import Program, Project
from benchmarks.programs.judge import NOTHING, Record, judged, on_hardware

PROJECT = Project("owner/name", "1234567", "CUDA C++", "all", "nvcc", (), False, ())
LAUNCH: dict[str, Any] = {"findings": [], "complete": True, "instructions": 7}
FATAL = {"code": "assertion", "message": "i < n", "fatal": True}


def attempt(
    printed: str = "", told: str = "", code: int = 0, *, in_time: bool = True,
    reports: tuple[dict[str, Any], ...] = (LAUNCH,),
) -> Attempt:  # fmt: skip
    printed += f"{EXIT}{code}\n"
    return Attempt(printed, printed + told, code, in_time, reports, 1.0)


def record(run: Attempt, reference: str | None = None, **given: Any) -> Record:
    return judged(PROJECT, Program("p", "p.cu", **given), run, reference, "all")


def test_right() -> None:
    done = record(attempt("PASS\n"), right="PASS", wrong="FAIL")
    assert (done.state, done.detail, done.launches, done.instructions) == ("right", "", 1, 7)


@pytest.mark.parametrize(
    ("run", "given", "state", "detail"),
    [
        (attempt(code=1), {}, "wrong", "exit code 1"),
        (attempt("FAIL\n"), {"wrong": "FAIL"}, "wrong", "it says: FAIL"),
        (attempt("done\n"), {"right": "PASS"}, "wrong", "it does not say: PASS"),
        (attempt("sum\n 4"), {"expected": ("sum 5",)}, "wrong", "it does not print: sum 5"),
        (attempt(reports=()), {}, "wrong", NOTHING),
        (attempt(told="Ran 2 tests\n\nOK (skipped=2)\n"), {}, "wrong", "all of its tests"),
        (attempt(told="Traceback (most recent call last):\nE\nKeyError: 'a'"), {}, "wrong", "KeyE"),
        (attempt(in_time=False), {}, "long", "not at its end"),
        (attempt(reports=({**LAUNCH, "findings": [FATAL]},)), {}, "wrong", "assertion: i < n"),
        (attempt(code=1, told="sm100sim: cuX: not modelled by it\n"), {}, "unsupported", "cuX"),
    ],
)
def test_not_right(run: Attempt, given: dict[str, Any], state: str, detail: str) -> None:
    done = record(run, **given)
    assert done.state == state
    assert done.detail.startswith(detail), done.detail


def test_what_is_known_is_said_only_of_a_program_that_is_not_right() -> None:
    known = {"state": "faulty", "why": "no barrier"}
    assert record(attempt(code=1), **known).state == "faulty"
    assert record(attempt(code=1), **known).why == "no barrier"
    assert (record(attempt(), **known).state, record(attempt(), **known).why) == ("right", "")


def test_a_fault_that_the_program_provokes() -> None:
    run = attempt(reports=({**LAUNCH, "findings": [FATAL]},))
    assert record(run, provokes=("assertion",)).state == "right"


def test_the_reference_is_what_the_host_prints() -> None:
    assert record(attempt("1 2\n\n3\n", "findings\n"), "1 2\n3\n").state == "right"
    assert record(attempt("1 2\n4\n"), "1 2\n3\n").state == "wrong"


def test_texts_are_found_whatever_space_is_between_their_words() -> None:
    run = attempt("a =  1\nb =\t2\n")
    assert record(run, expected=("a = 1 b = 2",)).state == "right"


def test_on_hardware_there_are_no_reports() -> None:
    program = Program("p", "p.cu", right="PASS")
    assert on_hardware(program, attempt("PASS\n", reports=()), None) == "right"
    assert on_hardware(program, attempt(reports=()), None) == "it does not say: PASS"


def test_a_result_that_nothing_judges_is_not_called_right() -> None:
    done = record(attempt())
    done.unjudged = True
    assert (done.state, done.result) == ("right", "runs")

"""Run published programs on the simulator and record what came out.

    python -m benchmarks.programs [--only REGEX] [--state STATE] [--jobs N] [--memory]
                                  [--control] [--page]

A program runs under all checkers, and again under those of memory alone if that takes too long;
with --memory, for those that are known to, only so.
What is missing in ``places.FOLDER`` is made: environments are installed and programs compiled; a
program of a repository that is not there is recorded as "unbuilt". With
SM100SIM_PROGRAMS_NATIVE=sm_90 executables also run on the GPU of this machine, and the record says
what they do there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path

from . import attempt, page, places
from .catalogue import STATES, Program, Project, projects
from .judge import NOTHING, Record, judged, on_hardware

RESULTS = Path(__file__).with_name("results.json")
PAGE = places.ROOT / "docs" / "program_list.md"
PYTEST = ("-q", "-p", "no:cacheprovider")
CONTROLS = ALL, EACH, UNNOTICED = "judged", "compared", "not judged"
"""What a program noticed: launches that do nothing, all or each kernel's alone, or neither."""
MOST_KERNELS = 8
"""That are left out one after the other."""
UNCHECKED_SECONDS = 600
"""Of the processor, for a program that takes too long under all checkers."""
WAYS = (("check", "all", attempt.CPU_SECONDS), ("run", "memory", UNCHECKED_SECONDS))
"""Commands of the simulator, which checkers they have on, and seconds of the processor."""


def chosen(pattern: str, states: list[str]) -> Iterator[tuple[Project, Program]]:
    """The programs whose "project name" matches, and whose latest state is one of `states`."""
    latest = {(row.project, row.name): row.state for row in known(RESULTS)}
    for project in projects():
        for program in project.programs:
            state = latest.get((project.name, program.name), "new")
            if states and state not in states:
                continue
            if re.search(pattern, f"{project.name} {program.name}"):
                yield project, program


def known(path: Path) -> list[Record]:
    """The records of a file."""
    text = path.read_text() if path.is_file() else ""
    return [Record(**row) for row in json.loads(text or "[]")]


def measure(
    project: Project, program: Program, blank: str = "", memory: bool = False
) -> tuple[Record, set[str]]:
    """Build and run one program; nothing that it does ends this process.

    Args:
        project: of the program.
        program: what to run.
        blank: launches of this kernel do nothing; `attempt.EVERY` for all kernels.
        memory: under the checkers of memory alone.

    Returns:
        The record, and the kernels that it launched.
    """
    try:
        path = places.built(project, program)
        host = places.built(project, program, host=True) if program.reference else None
        copy = places.sources(project)
    except places.Unbuilt as error:
        state = program.state or "unbuilt"
        language = program.language or project.language
        return Record(project.name, language, program.name, program.file, state,
                      detail=str(error), why=program.why), set()  # fmt: skip
    folder = copy / program.folder if program.folder else (copy / program.file).parent
    arguments = tuple(word.replace("{copy}", str(copy)) for word in program.arguments)
    if project.built == "pytest":
        arguments = (str(copy / program.file), *PYTEST, *arguments)
    reference = None if host is None else attempt.plainly(host, arguments, folder).printed
    script = path.suffix == ".py"
    python = places.environment(project) if script else Path(sys.executable)
    for command, checks, seconds in WAYS[1:] if memory else WAYS:
        tried = attempt.run(
            path, arguments, folder, python, command, blank=blank, seconds=seconds
        )
        record = judged(project, program, tried, reference, checks)
        if not blank:
            attempt.keep_output(project.folder, program.name, tried)
        if tried.in_time:
            break
    if project.built == "nvcc" and places.NATIVE in os.environ and not blank:
        record.hardware = on_hardware(program, attempt.plainly(path, arguments, folder), reference)
        record.chip = chip()
    return record, {report["kernel"] for report in tried.reports}


def update(path: Path, record: Record, control: str | None = None) -> None:
    """Put a record into the file, which other runs may have changed, and drop what no list has.

    Readers see the file before or after, never a part of it.

    Args:
        path: the file of records.
        record: the new one; with `control`, only which program.
        control: what the program noticed, one of `CONTROLS`; changes nothing else.
    """
    guard = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        _put(path, record, control)
    finally:
        os.close(guard)


def _put(path: Path, record: Record, control: str | None) -> None:
    listed = {(project.name, one.name) for project in projects() for one in project.programs}
    records = {(row.project, row.name): row for row in known(path)}
    before = records.get((record.project, record.name))
    if control is not None:
        if before is None:
            raise ValueError(f"{record.project} {record.name}: has no record to say more about")
        record = replace(before, unjudged=control == UNNOTICED, compared=control == EACH)
    elif before is not None:
        if not record.hardware:
            record.hardware, record.chip = before.hardware, before.chip
        if record.state == before.state:
            record.unjudged, record.compared = before.unjudged, before.compared
    records[record.project, record.name] = record
    kept = sorted(
        (row for key, row in records.items() if key in listed),
        key=lambda row: (row.project, row.name),
    )
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps([asdict(row) for row in kept], indent=1) + "\n")
    unfinished.replace(path)


def control(project: Project, program: Program) -> str:
    """Run a program that was right with launches that do nothing, and record what it noticed.

    One that compares kernels with one another notices when any one of them does nothing.

    Returns:
        One of `CONTROLS`.
    """
    tried, _ = measure(project, program, attempt.EVERY)
    told = ALL if _noticed(tried) else UNNOTICED
    if told == UNNOTICED:
        _, kernels = measure(project, program)
        if 1 < len(kernels) <= MOST_KERNELS and all(
            _noticed(measure(project, program, name)[0]) for name in sorted(kernels)
        ):
            told = EACH
    print(f"{told:12}{project.name} {program.name}", flush=True)
    update(RESULTS, tried, told)
    return told


def _noticed(record: Record) -> bool:
    """Whether a program itself, not a checker, found that something was not done."""
    return record.detail not in ("", NOTHING) and record.launches == record.complete


def main() -> int:
    """Command line; the exit status is 1 when a program is not right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over 'owner/name program'")
    parser.add_argument("--state", action="append", default=[], choices=[*STATES, "new"])
    parser.add_argument("--memory", action="store_true", help="the checkers of memory alone")
    parser.add_argument("--control", action="store_true", help="launch nothing: none may pass")
    parser.add_argument("--page", action="store_true", help="only draw the page again")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time (1)")
    given = parser.parse_args()
    if given.page:
        PAGE.write_text(page.render(projects(), known(RESULTS)))
        return 0
    work: Callable[[Project, Program], str] = partial(_recorded, memory=given.memory)
    if given.control:
        work = control
    pairs = list(chosen(given.only, ["right"] if given.control else given.state))
    for project in {project.name: project for project, _ in pairs}.values():
        places.install(project)
    with ProcessPoolExecutor(given.jobs) as pool:
        states = [done.result() for done in [pool.submit(work, *pair) for pair in pairs]]
    PAGE.write_text(page.render(projects(), known(RESULTS)))
    return int(any(state not in ("right", ALL, EACH) for state in states))


def _recorded(project: Project, program: Program, memory: bool) -> str:
    """Measure one program, print and keep its record; returns the state."""
    record, _ = measure(project, program, memory=memory)
    told = f"{record.state:12}{project.name} {program.name}".ljust(68)
    print(f"{told}{record.seconds:7.1f} s  {record.detail[:200]}", flush=True)
    update(RESULTS, record)
    return record.state


@cache
def chip() -> str:
    """The GPU of this machine and its driver."""
    ask = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())

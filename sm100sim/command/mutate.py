"""`sm100sim mutate`: does the program, or a check, notice a fault that is planted in its kernels?

The program runs once as it is, and once for each planted fault. A fault is noticed by a check when
a launch has a finding that the unchanged program has not, or stops; by the program when it ends
with another exit code than before. A PTX file has no program around it: there, another result is.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase

from ..launch_request import LaunchRequest
from ..mutate import Mutant, mutants, thinned
from ..options import RunOptions
from ..ptx.places import Places
from ..report import Report
from ..run import before_launch
from . import target
from .options import USAGE, Selection, hearing, natural, run_settings
from .shown import CLEAN, FINDINGS, UNPROVEN, refuses_format, write_own

SLOWER, ALLOWANCE = 10, 100_000
"""A changed launch may take so many times the instructions of the slowest one, and these more."""
MISSED, NOT_RUN = "missed", "not run"


@dataclass(frozen=True)
class Trial:
    """One planted fault and who noticed it.

    Attributes:
        kernel: where it was planted.
        kind, line, before, after: the fault (`sm100sim.mutate.Mutant`).
        place: the source line, "" where it is not known.
        noticed: "check", "program", "result" (of a PTX file), "missed", or "not run" when the
            kernel was not launched.
        codes: findings that the unchanged program has not.
    """

    kernel: str
    kind: str
    line: int
    before: str
    after: str
    place: str
    noticed: str
    codes: tuple[str, ...]

    def __str__(self) -> str:
        codes = f" ({', '.join(self.codes)})" if self.codes else ""
        place = f"{self.place}\n        " if self.place else ""
        change = f"{self.before.strip()} -> {self.after.strip() or 'nothing'}"
        return f"{self.noticed}{codes}: {self.kind}: {place}PTX line {self.line}: {change}"


@dataclass(frozen=True)
class _Ran:
    """One run of the program: its exit code, its findings, and the result of a PTX file."""

    code: int
    reports: tuple[Report, ...]
    result: str

    @property
    def found(self) -> set[tuple[str, str, int, int]]:
        """Findings by kernel, code and PTX lines."""
        return {(r.kernel, f.code, f.line, f.line2) for r in self.reports for f in r.findings}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    target.add(parser, mutate, own=_add_choice)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=natural, default=3, metavar="N",
        help="faults of a class per kernel, spread over it (3; 0 for all)",
    )  # fmt: skip
    parser.add_argument(
        "--kind", action="append", default=[], metavar="PATTERN",
        help="classes of faults, such as 'drop-*'; may be repeated",
    )  # fmt: skip


def mutate(given: argparse.Namespace) -> int:
    """Plant the faults one by one; returns the exit code: 0 when each is noticed, 1 when not."""
    if refuses_format(given):
        return USAGE
    seen: dict[tuple[str, str], None] = {}

    def look(request: LaunchRequest, options: RunOptions) -> tuple[LaunchRequest, RunOptions]:
        seen[request.ptx, request.kernel] = None
        return request, options

    with before_launch(look, everywhere=True):
        base = _run(given, quiet=False)
    stopped = [r for r in base.reports if any(f.fatal for f in r.findings)]
    if base.code != CLEAN or stopped or not seen:
        why = f"{stopped[0].kernel} stopped" if stopped else f"exit code {base.code}"
        why = why if seen else "no launch was seen"
        print(f"sm100sim: nothing to plant faults in: without any, {why}", file=sys.stderr)
        return UNPROVEN
    most = SLOWER * max(r.instructions for r in base.reports) + ALLOWANCE
    trials = []
    for ptx, kernel in seen:
        places = Places(ptx)
        for mutant in _chosen(mutants(ptx, kernel), given) if _wanted(kernel, given) else ():
            trials.append(_trial(given, mutant, (ptx, kernel), base, most, places))
            print(f"  {trials[-1]}", file=sys.stderr)
    return _told(trials, given)


def _wanted(kernel: str, given: argparse.Namespace) -> bool:
    names, excluded = given.kernel_name, given.kernel_name_exclude
    kept = not names or any(fnmatchcase(kernel, pattern) for pattern in names)
    return kept and not any(fnmatchcase(kernel, pattern) for pattern in excluded)


def _chosen(found: list[Mutant], given: argparse.Namespace) -> list[Mutant]:
    kinds = given.kind or ["*"]
    found = [m for m in found if any(fnmatchcase(m.kind, pattern) for pattern in kinds)]
    return thinned(found, {m.kind for m in found}, given.limit) if given.limit else found


def _run(given: argparse.Namespace, quiet: bool, most: int | None = None) -> _Ran:
    """Run the program; `most`: instructions of a launch, after which it counts as stopped."""
    settings = run_settings(given)
    settings["max_instructions"] = settings["max_instructions"] or most
    errors = io.StringIO() if quiet else sys.stderr
    # A file: programs of other processes print into it, too.
    with (
        tempfile.TemporaryFile("w+") as file,
        hearing(Selection.of(given), **settings) as reports,
        contextlib.redirect_stdout(file), contextlib.redirect_stderr(errors),
    ):  # fmt: skip
        code = target.ran(given)
        file.seek(0)
        printed = file.read()
    if not quiet:
        print(printed, end="")
    return _Ran(code, tuple(reports), printed if target.is_ptx(given) else "")


def _trial(
    given: argparse.Namespace, mutant: Mutant, at: tuple[str, str], base: _Ran, most: int,
    places: Places,
) -> Trial:  # fmt: skip
    planted = 0

    def plant(request: LaunchRequest, options: RunOptions) -> tuple[LaunchRequest, RunOptions]:
        nonlocal planted
        if (request.ptx, request.kernel) != at:
            return request, options
        planted += 1
        limit = most if options.max_instructions is None else options.max_instructions
        return replace(request, ptx=mutant.ptx), replace(options, max_instructions=limit)

    with before_launch(plant, everywhere=True):
        ran = _run(given, quiet=True, most=most)
    new = ran.found - base.found
    noticed = "result" if ran.result != base.result else MISSED
    noticed = "check" if new else "program" if ran.code != base.code else noticed
    place = places.at(mutant.line)
    return Trial(
        kernel=at[1],
        kind=mutant.kind,
        line=mutant.line,
        before=mutant.before,
        after=mutant.after,
        place="" if place is None else str(place),
        noticed=noticed if planted else NOT_RUN,
        codes=tuple(sorted({code for _, code, _, _ in new})),
    )


def _told(trials: list[Trial], given: argparse.Namespace) -> int:
    """Say how many were noticed, and which were not; returns the exit code."""
    counts = Counter(trial.noticed for trial in trials)
    shown = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    lines = [f"sm100sim: {len(trials)} planted faults: {shown or 'none'}"]
    lines += [f"  {t.kernel}: {t}" for t in trials if t.noticed in (MISSED, NOT_RUN)]
    proven = trials and not counts[NOT_RUN]
    code = FINDINGS if counts[MISSED] else CLEAN if proven else UNPROVEN
    document = {"exit_code": code, "faults": [asdict(trial) for trial in trials]}
    return code if write_own("\n".join([*lines, ""]), document, given) else USAGE

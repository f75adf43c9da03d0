"""`sm100sim run` and `sm100sim check`: a program with every launch on the virtual SM100."""

from __future__ import annotations

import argparse

from ..calls.explore import explore
from ..formats.document import Results
from ..run import before_launch
from . import target
from .options import Selection, hearing, natural, run_settings
from .shown import show

RUN = "memcheck"
"""What `run` checks: addresses, shapes, counts and deadlocks, as always."""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `run`."""
    target.add(parser, once, RUN)


def add_check(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `check`."""
    target.add(parser, check, own=_add_schedules)


def _add_schedules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--schedules", type=natural, default=1, metavar="N",
        help="run it N times: at once, late, and in random orders (1)",
    )  # fmt: skip


def check(given: argparse.Namespace) -> int:
    """Run the program, once or under several schedules; returns the exit code."""
    return once(given) if given.schedules <= 1 else _schedules(given)


def once(given: argparse.Namespace) -> int:
    """Run the program and say what was found; returns the exit code."""
    chosen = Selection.of(given)
    with hearing(chosen, **run_settings(given)) as reports:
        ended = target.ran(given)
    kept = tuple(report for report in reports if chosen.checked(report))
    return show(Results(kept, program=str(given.target)), given, ended)


def _schedules(given: argparse.Namespace) -> int:
    made = 0

    def program() -> None:
        nonlocal made
        made += 1
        with before_launch(Selection.of(given).change, everywhere=True):
            target.succeeds(given, quiet=made > 1)

    settings = run_settings(given)
    del settings["mode"], settings["seed"]
    try:
        found = explore(program, given.schedules, everywhere=True, **settings)
    except target.Ended as end:  # before its first launch
        return show(Results((), program=str(given.target)), given, end.code)
    return show(Results(found.reports, found, str(given.target)), given)

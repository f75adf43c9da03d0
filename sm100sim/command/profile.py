"""`sm100sim profile`: where the instructions and the modelled waits of a program's kernels are."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from ..formats.document import Results
from ..formats.profile import CYCLES, profile_text, profiles
from . import target
from .options import USAGE, Selection, hearing, natural, run_settings
from .shown import VERDICTS, verdict, write_own


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    target.add(parser, profile, "memcheck", _add_top)


def _add_top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=natural, default=10, metavar="N", help="lines of a kind (10)")


def profile(given: argparse.Namespace) -> int:
    """Run the program and say where its time goes; returns the exit code."""
    chosen = Selection.of(given)
    settings = run_settings(given) | {"trace_cluster": 0}
    with hearing(chosen, **settings) as reports:
        ended = target.ran(given)
    kept = tuple(report for report in reports if chosen.checked(report))
    for report in kept:
        if report.verdict != "clean":
            print(report.summary(), file=sys.stderr)
    found = profiles(kept, given.top)
    text = "".join(f"{profile_text(one, given.top)}\n" for one in found)
    document = {"cycles": CYCLES, "kernels": [asdict(one) for one in found]}
    if not write_own(text, document, given):
        return USAGE
    return VERDICTS[verdict(Results(kept))] or ended

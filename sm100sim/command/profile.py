"""`sm100sim profile`: where the instructions and the modelled waits of a program's kernels are."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from ..formats.document import Results
from ..formats.profile import CYCLES, Profile, profile_text, profiles
from ..formats.save import format_of
from . import target
from .options import USAGE, Selection, hearing, natural, run_settings
from .shown import VERDICTS, verdict

FORMATS = ("text", "json")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    target.add(parser, "memcheck", _add_top)
    parser.set_defaults(command=profile)


def _add_top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=natural, default=10, metavar="N", help="lines of a kind (10)")


def profile(given: argparse.Namespace) -> int:
    """Run the program and say where its time goes; returns the exit code."""
    given = target.options_behind(given)
    if target.missing(given):
        return USAGE
    chosen = Selection.of(given)
    settings = run_settings(given) | {"trace_cluster": 0}
    with hearing(chosen, **settings) as reports:
        ended = target.ran(given)
    kept = tuple(report for report in reports if chosen.checked(report))
    for report in kept:
        if report.verdict != "clean":
            print(report.summary(), file=sys.stderr)
    if not _written(profiles(kept, given.top), given):
        return USAGE
    return VERDICTS[verdict(Results(kept))] or ended


def _written(found: list[Profile], given: argparse.Namespace) -> bool:
    """Print the profiles, or write them to a file; whether that went well."""
    try:
        kind = given.format or (format_of(given.output) if given.output else "text")
        if kind not in FORMATS:
            raise ValueError(f"format: a profile is written as {' or '.join(FORMATS)}, not {kind}")
        text = "".join(f"{profile_text(one, given.top)}\n" for one in found)
        if kind == "json":
            document = {"cycles": CYCLES, "kernels": [asdict(one) for one in found]}
            text = json.dumps(document, indent=1) + "\n"
        if given.output is None:
            print(text, end="")
        else:
            Path(given.output).write_text(text)
    except (OSError, ValueError) as error:
        print(f"sm100sim: {error}", file=sys.stderr)
        return False
    return True

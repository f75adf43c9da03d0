"""Options that every command which launches has; shaped like those of compute-sanitizer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from ..findings.suppress import Suppression, suppressions_of
from ..formats.save import FORMATS
from ..launch_request import LaunchRequest
from ..options import MODES, Check, RunOptions, checks_of, run_options
from ..report import Report, record
from ..run import before_launch

USAGE = 64
"""Exit code of a wrong command line (`EX_USAGE` of sysexits.h): 2 says that a launch stopped."""

TOOLS = {
    "memcheck": Check.NONE,
    "racecheck": Check.RACES,
    "initcheck": Check.UNINITIALISED,
    "synccheck": Check.PROTOCOL,
}
"""compute-sanitizer's names; addresses, shapes, counts and deadlocks are checked with each."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors have an exit code of their own.

    Options are not shortened: `--m=256` belongs to the program that is run.
    """

    def __init__(self, *args: Any, **fields: Any) -> None:
        """As of `argparse`."""
        super().__init__(*args, **{"allow_abbrev": False, **fields})

    def error(self, message: str) -> NoReturn:
        """End the process with a sentence."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def tools(text: str) -> Check:
    """The checks of a comma-separated list of tools or names of `Check`.

    Raises:
        argparse.ArgumentTypeError: a name is neither.
    """
    found = Check.NONE
    for name in text.split(","):
        try:
            found |= TOOLS[name] if name in TOOLS else checks_of(name)
        except ValueError as error:
            known = ", ".join(TOOLS)
            raise argparse.ArgumentTypeError(f"{error}; tools: {known}") from error
    return found


def accepted(path: str) -> tuple[Suppression, ...]:
    """The suppressions of a file.

    Raises:
        argparse.ArgumentTypeError: it cannot be read, or an entry is not understood.
    """
    try:
        return suppressions_of(path)
    except (OSError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def natural(text: str) -> int:
    """A whole number from 0.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return number


def add_checks(parser: argparse.ArgumentParser, tool: str) -> None:
    """What is checked, in which launches; `tool`: the default."""
    parser.add_argument(
        "--tool", type=tools, default=tool, metavar="NAMES",
        help=f"what to check (default {tool}): all, {', '.join(TOOLS)}, strict-lanes, ...",
    )  # fmt: skip
    parser.add_argument(
        "--mode", choices=MODES, default="timed", help="when async work lands (default timed)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of mode random, and of random arrays")
    parser.add_argument(
        "--kernel-name", action="append", default=[], metavar="PATTERN",
        help="check launches of these kernels only; may be repeated",
    )  # fmt: skip
    parser.add_argument("--kernel-name-exclude", action="append", default=[], metavar="PATTERN")
    parser.add_argument(
        "--launch-skip", type=natural, default=0, metavar="N", help="do not check the first N"
    )
    parser.add_argument(
        "--launch-count", type=natural, metavar="N", help="check no more launches than N"
    )
    parser.add_argument(
        "--max-instructions", type=natural, metavar="N",
        help="stop a launch after so many warp instructions, for loops that never end",
    )  # fmt: skip
    parser.add_argument(
        "--suppressions", type=accepted, default=(), metavar="FILE",
        help="TOML file of findings that are accepted, with reasons",
    )  # fmt: skip


def add_output(parser: argparse.ArgumentParser) -> None:
    """What is printed, and written where."""
    parser.add_argument(
        "--error-exitcode", type=int, metavar="N", help="instead of 1 for findings and 2 for faults"
    )
    parser.add_argument(
        "--print-limit", type=natural, default=64, metavar="N", help="findings per launch (64)"
    )
    parser.add_argument(
        "--hot-spots", type=natural, default=0, metavar="N", help="lines to list, per launch"
    )
    parser.add_argument("--format", choices=FORMATS, help="of the report; by --output's suffix")
    parser.add_argument(
        "--output", metavar="FILE", help="write the report there (.txt, .json, .sarif, .xml)"
    )


def run_settings(given: argparse.Namespace) -> dict[str, Any]:
    """The fields of `RunOptions` that the command line says."""
    return {
        "mode": given.mode,
        "seed": given.seed,
        "checks": given.tool,
        "max_findings": given.print_limit,
        "max_instructions": given.max_instructions or None,
        "suppressions": given.suppressions,
    }


@dataclass
class Selection:
    """Which launches are checked, also where a program gives options of its own.

    Attributes:
        checks: of the selected launches, besides the program's; the others have none.
        suppressions: of all launches.
        names, excluded: patterns of kernel names (`fnmatch`); no names means all.
        skip: so many launches of these kernels come first, unchecked.
        count: and so many after them are checked; None for all.
        taken: the launches that were selected so far.
    """

    checks: Check
    suppressions: tuple[Suppression, ...]
    names: list[str]
    excluded: list[str]
    skip: int = 0
    count: int | None = None
    taken: list[LaunchRequest] = field(default_factory=list)
    _met: int = 0
    _unchecked: list[RunOptions] = field(default_factory=list)

    @classmethod
    def of(cls, given: argparse.Namespace) -> Selection:
        """What the command line says."""
        skip, count = given.launch_skip, given.launch_count
        names, excluded = given.kernel_name, given.kernel_name_exclude
        return cls(given.tool, given.suppressions, names, excluded, skip, count)

    def change(
        self, request: LaunchRequest, options: RunOptions
    ) -> tuple[LaunchRequest, RunOptions]:
        """Give a launch its checks, or none when it is not selected; for `run.before_launch`."""
        rules = tuple(dict.fromkeys((*options.suppressions, *self.suppressions)))
        if self._takes(request.kernel):
            self.taken.append(request)
            checks = options.checks | self.checks
            return request, replace(options, checks=checks, suppressions=rules)
        unchecked = replace(options, checks=Check.NONE, suppressions=rules)
        self._unchecked.append(unchecked)
        return request, unchecked

    def _takes(self, kernel: str) -> bool:
        def fits(patterns: list[str]) -> bool:
            return any(fnmatchcase(kernel, pattern) for pattern in patterns)

        if (self.names and not fits(self.names)) or fits(self.excluded):
            return False
        self._met += 1
        last = None if self.count is None else self.skip + self.count
        return self._met > self.skip and (last is None or self._met <= last)

    def checked(self, report: Report) -> bool:
        """Whether a report is of a launch that was selected, or says something all the same."""
        unchecked = any(report.options is options for options in self._unchecked)
        return not unchecked or report.verdict == "findings"


@contextmanager
def hearing(chosen: Selection, **settings: Any) -> Iterator[list[Report]]:
    """Rule the launches of all threads by a selection and fields of `RunOptions`; gives reports."""
    with (
        run_options(everywhere=True, **settings),
        before_launch(chosen.change, everywhere=True),
        record(everywhere=True) as reports,
    ):
        yield reports

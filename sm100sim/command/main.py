"""The command line: `python -m sm100sim COMMAND ...`, also installed as `sm100sim`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from . import check, facts, mutate, profile
from .options import Parser
from .shown import UNPROVEN

COMMANDS = {
    "run": (check.add_run, "run a PTX file or a Python program on the virtual SM100"),
    "check": (check.add_check, "the same with every launch under all checks"),
    "profile": (profile.add, "where the time of its kernels goes on a chip"),
    "mutate": (mutate.add, "plant faults in its kernels, and say which of them are noticed"),
    "coverage": (facts.add_coverage, "instructions of a PTX file that would stop a run"),
    "info": (facts.add_info, "versions, engine, folders"),
}
EXITS = """Exit codes: 0 clean, 1 findings, 2 fault or unreadable PTX, 3 nothing proven (no launch
was seen, one was incomplete, or the program failed), 64 wrong command line. A program's own code is
kept when nothing was found."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    Args:
        words: the command line without the program's name; that of the process when not given.
    """
    parser = Parser(
        "sm100sim", description="A virtual SM100 (NVIDIA Blackwell) on the CPU.", epilog=EXITS
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="action")
    for name, (add, text) in COMMANDS.items():
        add(commands.add_parser(name, help=text, description=text, epilog=EXITS))
    given = parser.parse_args(words)
    try:
        code = int(given.command(given))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output, such as `head`, has gone; Python would complain at its end, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNPROVEN
    return code

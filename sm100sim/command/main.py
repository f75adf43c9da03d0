"""The command line: `python -m sm100sim COMMAND ...`, also installed as `sm100sim`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import check, facts, run

COMMANDS = {
    "run": (run.add, "run a program on the virtual device, or launch a kernel of a PTX file"),
    "check": (check.add, "run a Python program with every launch checked"),
    "coverage": (facts.add_coverage, "instructions of a PTX file that would stop a run"),
    "info": (facts.add_info, "versions, engine, folders"),
}
EXITS = """Exit codes: 0 clean, 1 findings, 2 fault (or a wrong command line), 3 nothing proven:
no launch was seen, one was incomplete, or the program failed; a program's own code is kept."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    Args:
        words: the command line without the program's name; that of the process when not given.
    """
    parser = argparse.ArgumentParser(
        "sm100sim", description="A virtual SM100 (NVIDIA Blackwell) on the CPU.", epilog=EXITS
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (add, text) in COMMANDS.items():
        add(commands.add_parser(name, help=text, description=text, epilog=EXITS))
    given = parser.parse_args(words)
    return int(given.command(given))

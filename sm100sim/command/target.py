"""What a command runs: a PTX file, by launch options, or a program with its arguments."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path

from ..engine.build import CompilerError
from ..host.activation import activate
from ..host.on_import import when_imported
from ..report import SimulationFault
from ..torch import activation as tensors
from ..triton import activation as triton
from . import program, ptx_file
from .options import USAGE, Parser, add_checks, add_output
from .shown import CLEAN, UNPROVEN

Command = Callable[[argparse.Namespace], int]
Declare = Callable[[argparse.ArgumentParser], None]
_LINES = "CUTE_DSL_LINEINFO"


def add(
    parser: argparse.ArgumentParser,
    command: Command,
    tool: str = "all",
    own: Declare | None = None,
) -> None:
    """Declare a command that runs something.

    Args:
        parser: of the command.
        command: given the whole command line of a program that exists; returns the exit code.
        tool: what it checks by default.
        own: declares options of this command only.
    """

    def declare(parser: argparse.ArgumentParser) -> None:
        add_checks(parser, tool)
        add_output(parser)
        ptx_file.add(parser.add_argument_group("launch of a PTX file"))
        if own is not None:
            own(parser)

    declare(parser)
    parser.set_defaults(declare=declare, command=lambda given: _started(command, given))
    parser.add_argument(
        "target", metavar="PROGRAM", help="a PTX file, a Python program, or any other"
    )
    parser.add_argument(
        "args", nargs=argparse.REMAINDER, metavar="...",
        help="its arguments; of a PTX file: further options of this command",
    )  # fmt: skip


def _started(command: Command, given: argparse.Namespace) -> int:
    """Run a command, where there is what it is to run; returns the exit code."""
    given = _options_behind(given)
    return USAGE if _missing(given) else command(given)


def _options_behind(given: argparse.Namespace) -> argparse.Namespace:
    """The same command line with the options that stand after a PTX file."""
    if not is_ptx(given) or not given.args:
        return given
    parser = Parser("sm100sim", usage="sm100sim COMMAND PROGRAM.ptx [options]")
    given.declare(parser)
    words, given.args = given.args, []
    return parser.parse_args(words, given)


def is_ptx(given: argparse.Namespace) -> bool:
    """Whether the program is a PTX file."""
    return str(given.target).endswith(".ptx")


def exists(name: str) -> bool:
    """Whether there is such a file or executable."""
    return Path(name).is_file() or program.found(name) is not None


def _missing(given: argparse.Namespace) -> bool:
    """Say so when there is no such file."""
    if exists(given.target):
        return False
    print(f"sm100sim: {given.target} is no file and no program", file=sys.stderr)
    return True


def ran(given: argparse.Namespace) -> int:
    """Run the program once; returns its own exit code. Launches are heard by the caller."""
    if is_ptx(given):
        return ptx_file.launched(given)
    try:
        if _is_executable(given.target):
            return program.run_program([str(program.found(given.target)), *given.args])
        with program.driver_for_scripts(), _devices(), _lines():
            if importlib.util.find_spec("cutlass") is not None:
                activate()
            return _script(given.target, given.args)
    except CompilerError as error:
        print(f"sm100sim: {error}", file=sys.stderr)
        return UNPROVEN


@contextlib.contextmanager
def _lines() -> Iterator[None]:
    """Inside the block CuTe DSL writes source lines, unless the caller has said otherwise."""
    said = _LINES in os.environ
    os.environ.setdefault(_LINES, "1")
    try:
        yield
    finally:
        if not said:
            os.environ.pop(_LINES, None)


@contextlib.contextmanager
def _devices() -> Iterator[None]:
    """Inside the block Triton launches here, and torch's device "cuda" is host memory."""
    with (
        when_imported(triton.MODULE, triton.put_into_module, triton.deactivate),
        when_imported("torch", lambda _: tensors.activate(), tensors.deactivate),
    ):
        yield


def _is_executable(target: str) -> bool:
    """Whether a program is not a Python script."""
    return not target.endswith(".py") and program.found(target) is not None


def quietly(given: argparse.Namespace) -> int:
    """The same without what the program prints, for repetitions."""
    again = copy(given)
    again.format = None  # a PTX file's arrays are printed, too
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return ran(again)


class Ended(Exception):
    """The program ended by itself with an exit code that is not 0."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"exit code {code}")


def succeeds(given: argparse.Namespace, quiet: bool = False) -> None:
    """Run the program for `explore`.

    Raises:
        Ended: with another exit code than 0.
    """
    code = quietly(given) if quiet else ran(given)
    if code != CLEAN:
        raise Ended(code)


def _script(script: str, args: Sequence[str]) -> int:
    """Execute a program as `python script args` does; returns its own exit code."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [script, *args], str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SimulationFault:
        print(f"sm100sim: {script} ended with the fault below", file=sys.stderr)
        return UNPROVEN
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or CLEAN
        print(end.code, file=sys.stderr)
        return UNPROVEN
    except Exception:
        traceback.print_exc()
        return UNPROVEN
    finally:
        sys.argv, sys.path[0] = before
    return CLEAN

"""A program on the stand-in driver: an executable, or a Python script in this process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..driver.serve.beside import stand_ins_beside
from ..driver.serve.place import environment, furnish
from ..driver.serve.server import Server

PATIENCE = 2.0
"""Seconds that a program has to end after an interrupt."""
KILLED = 128
"""A program that a signal has ended has this and the signal's number as its exit code."""


def found(program: str) -> str | None:
    """The path of an executable, as a shell finds it; None when there is none."""
    return shutil.which(program)


@contextmanager
def _furnished() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sm100sim-") as name:
        furnish(Path(name))
        yield Path(name)


@contextmanager
def driver_for_scripts() -> Iterator[None]:
    """Give what runs in the block the stand-ins.

    Raises:
        CompilerError: they have to be compiled, and cannot be.
    """
    with _furnished() as folder, stand_ins_beside(folder):
        yield


def run_program(words: Sequence[str]) -> int:
    """Run a program to its end; returns its exit code.

    Args:
        words: its path and its arguments.

    Raises:
        CompilerError: the stand-ins have to be compiled, and cannot be.
    """
    with _furnished() as folder:
        server = Server(folder / "socket")
        ended = _run(words, environment(folder, folder / "socket", os.environ))
        server.close()
    if ended >= 0:
        return ended
    print(f"sm100sim: {words[0]} was ended by {signal.Signals(-ended).name}", file=sys.stderr)
    return KILLED - ended


def _run(words: Sequence[str], variables: dict[str, str]) -> int:
    """Start a program and wait for it, also through an interrupt, which it gets too."""
    sys.stdout.flush()
    with subprocess.Popen(words, env=variables, stdout=_output()) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            try:
                return process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait()


def _output() -> int | None:
    """Where this process prints, which may have been redirected; None: where it began to."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None

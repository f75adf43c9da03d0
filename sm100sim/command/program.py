"""`sm100sim run ./a.out ...` and `sm100sim run script.py ...`: a program on the stand-in driver."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..driver.serve.place import environment, furnish
from ..driver.serve.server import Server
from ..engine.build import CompilerError
from ..options import RunOptions
from .shown import FAULT, UNPROVEN, run_settings, show


def run_program(words: Sequence[str], given: argparse.Namespace) -> int:
    """Run a program to its end and say what was found; returns the exit code.

    Args:
        words: the program and its arguments; a Python script is run by this Python.
        given: the options of the command line.
    """
    command = _command(words)
    if not command:
        print(f"sm100sim: {words[0]} is no program, script or PTX file", file=sys.stderr)
        return UNPROVEN
    with tempfile.TemporaryDirectory(prefix="sm100sim-") as name:
        folder = Path(name)
        try:
            furnish(folder)
        except CompilerError as error:
            print(f"sm100sim: {error}", file=sys.stderr)
            return FAULT
        options = RunOptions(raise_on_fault=False, **run_settings(given))
        server = Server(folder / "socket", options)
        ended = _run(command, environment(folder, folder / "socket", os.environ))
        server.close()
    if ended:
        print(f"sm100sim: {words[0]} ended with {_described(ended)}", file=sys.stderr)
    code = show(server.reports, given)
    # What was found says more than how the program ended.
    found = any(report.findings for report in server.reports)
    return code if found or not ended else ended if ended > 0 else UNPROVEN


def _command(words: Sequence[str]) -> list[str]:
    """The program as it is started; empty when there is none."""
    first = words[0]
    if Path(first).suffix == ".py" and Path(first).is_file():
        return [sys.executable, *words]
    found = shutil.which(first)
    return [found, *words[1:]] if found else []


def _run(command: list[str], variables: dict[str, str]) -> int:
    """Start a program and wait for it, also through an interrupt, which it gets too."""
    sys.stdout.flush()
    with subprocess.Popen(command, env=variables) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            try:
                return process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait()


def _described(code: int) -> str:
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name

"""`sm100sim check script.py ...`: run a Python program with every launch on the virtual SM100."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
import traceback
from pathlib import Path

from ..host.activation import activate
from ..options import run_options
from ..report import SimulationFault, record
from .shown import CLEAN, UNPROVEN, add_options, run_settings, show


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_options(parser)
    parser.add_argument("script", type=Path, help="a Python program")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(command=check)


def check(given: argparse.Namespace) -> int:
    """Run the program and say what was found; returns the exit code."""
    if not given.script.is_file():
        print(f"sm100sim: {given.script} is no file", file=sys.stderr)
        return UNPROVEN
    if importlib.util.find_spec("cutlass") is not None:
        os.environ.setdefault("CUTE_DSL_LINEINFO", "1")
        activate()
    with run_options(**run_settings(given)), record() as reports:
        ended = _run(given.script, given.args)
    code = show(reports, given)
    # What was found says more than how the program ended.
    return code if any(report.findings for report in reports) or ended == CLEAN else ended


def _run(script: Path, args: list[str]) -> int:
    """Execute the program as `python script args` does; returns its own exit code."""
    sys.argv = [str(script), *args]
    sys.path[0] = str(script.resolve().parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
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
    return CLEAN

"""`sm100sim coverage kernel.ptx` and `sm100sim info`: what can be executed, and with what."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import sm100sim

from ..engine.binding import load_engine, opcode_numbers
from ..engine.cache import cache_dir
from ..ptx.errors import PtxError, Unsupported
from ..run import prepare, read_module
from .options import USAGE
from .shown import CLEAN, FAULT, FINDINGS

FRIENDS = ("numpy", "nvidia-cutlass-dsl", "triton", "nvidia-cuda-nvrtc", "torch", "matplotlib")
"""Distributions that work together with this one."""


def add_coverage(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("ptx", type=Path, help="a PTX file")
    parser.set_defaults(command=coverage)


def coverage(given: argparse.Namespace) -> int:
    """Say of every kernel which of its instructions would stop a run; returns the exit code."""
    stopping = False
    try:
        ptx = given.ptx.read_text()
        for name, kernel in read_module(ptx).kernels.items():
            refused = prepare(ptx, name).refused
            stopping |= bool(refused)
            print(f"{name}: {len(kernel.body) - len(refused)} of {len(kernel.body)} instructions")
            for line in _grouped(refused):
                print(f"  {line}")
    except (OSError, PtxError) as error:
        print(f"sm100sim: {error}", file=sys.stderr)
        return USAGE if isinstance(error, OSError) else FAULT
    return FINDINGS if stopping else CLEAN


def _grouped(refused: tuple[Unsupported, ...]) -> list[str]:
    """Each reason once, with the number of instructions and the first of them."""
    groups: dict[str, list[Unsupported]] = {}
    for why in refused:
        groups.setdefault(why.what, []).append(why)
    return [
        f"{len(group)} x {what}; first at PTX line {group[0].line}: {group[0].text.strip()}"
        for what, group in groups.items()
    ]


def add_info(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.set_defaults(command=info)


def info(_given: argparse.Namespace) -> int:
    """Print versions, the engine in use and where libraries are kept; returns the exit code."""
    rows = {
        "sm100sim": f"{sm100sim.__version__} in {Path(sm100sim.__file__).parent}",
        "Python": f"{platform.python_version()} ({platform.machine()})",
        "engine": f"{load_engine()._name}, {len(opcode_numbers())} operations",
        "cache folder": str(cache_dir()),
    }
    for name in FRIENDS:
        try:
            rows[name] = version(name)
        except PackageNotFoundError:
            rows[name] = "not installed"
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        print(f"{name:{width}}  {value}")
    return CLEAN

"""One launch of a PTX file: `kernel.ptx --grid 4 --block 256 --arg 'f32[1000]'`."""

from __future__ import annotations

import argparse
import re
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..calls.launch import launch
from ..options import current_options
from ..ptx.errors import PtxError
from .options import USAGE
from .shown import CLEAN, FAULT

_ARRAY = re.compile(r"(f16|f32|f64|[us](?:8|16|32|64))\[(\d+)\](?:=(.+))?\Z")
_KINDS = {"f": "f", "u": "u", "s": "i"}
_SMALL = 100
"""Random whole numbers are below it."""
ALIGNMENT = 256
"""Of addresses that `cudaMalloc` returns, at least (CUDA C++ Programming Guide)."""


def extents(text: str) -> tuple[int, ...]:
    """`4`, `4,2` or `4,2,1`."""
    return tuple(int(n) for n in text.split(","))


def argument(text: str) -> Any:
    """A number; or `f32[1000]`, random values, or `f32[1000]=0`, all the same.

    Raises:
        argparse.ArgumentTypeError: neither.
    """
    found = _ARRAY.match(text)
    try:
        if found:
            return found.groups()
        return float(text) if re.search(r"[.]|inf|nan|\de", text) else int(text, 0)
    except ValueError:
        what = f"{text!r} is neither a number nor an array such as f32[1000], s32[64]=0"
        raise argparse.ArgumentTypeError(what) from None


def add(parser: argparse._ArgumentGroup) -> None:
    """Declare the launch options."""
    parser.add_argument("--kernel", help="its entry, where there are several")
    parser.add_argument("--grid", type=extents, default=(1,), help="CTAs: 4 or 4,2,1 (1)")
    parser.add_argument("--block", type=extents, help="threads per CTA (.reqntid)")
    parser.add_argument("--cluster", type=extents, default=(1,), help="CTAs of a cluster (1)")
    parser.add_argument("--smem", type=int, default=0, help="bytes of dynamic shared memory")
    parser.add_argument(
        "--arg", type=argument, action="append", default=[], dest="ptx_args", metavar="VALUE",
        help="one per parameter: 1000, 0.5, f32[1000] (seeded random numbers), u32[64]=0",
    )  # fmt: skip


def launched(given: argparse.Namespace) -> int:
    """Launch the kernel and print what the arrays hold; returns an exit code, 0 when it ran.

    Where programs read standard output, the arrays are printed on standard error.
    """
    rng = np.random.default_rng(given.seed)
    try:
        args = [_placed(_array(a, rng)) if isinstance(a, tuple) else a for a in given.ptx_args]
        before = [a.tobytes() if isinstance(a, np.ndarray) else b"" for a in args]
        launch(
            Path(given.target).read_text(), replace(current_options(), raise_on_fault=False),
            kernel=given.kernel, grid=given.grid, block=given.block, cluster=given.cluster,
            smem_bytes=given.smem, args=args,
        )  # fmt: skip
    except (OSError, TypeError, ValueError) as error:
        print(f"sm100sim: {error}", file=sys.stderr)
        return FAULT if isinstance(error, PtxError | UnicodeDecodeError) else USAGE
    for k, (array, old) in enumerate(zip(args, before, strict=True)):
        if isinstance(array, np.ndarray):
            print(f"arg {k}: {_described(array, old)}", file=_beside_report(given))
    return CLEAN


def _beside_report(given: argparse.Namespace) -> TextIO:
    """Where lines go that are no part of a report."""
    read = given.output is None and given.format not in (None, "text")
    return sys.stderr if read else sys.stdout


def _array(spec: tuple[str, str, str | None], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    name, count, value = spec
    kind = np.dtype(f"{_KINDS[name[0]]}{int(name[1:]) // 8}")
    if value is not None:
        return np.full(int(count), float(value) if kind.kind == "f" else int(value, 0), kind)
    if kind.kind == "f":
        return rng.standard_normal(int(count)).astype(kind)
    return rng.integers(0, _SMALL, int(count)).astype(kind)


def _placed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array at such an address as `cudaMalloc` gives: each run touches as many lines.

    It is no view of a longer array, whose other bytes a kernel could touch, too.
    """
    raw = bytearray(array.nbytes + ALIGNMENT)
    start = -np.frombuffer(raw, np.uint8).ctypes.data % ALIGNMENT
    placed = np.frombuffer(raw, array.dtype, array.size, start)
    placed[:] = array
    return placed


def _described(array: np.ndarray[Any, Any], old: bytes) -> str:
    """Type, first values, sum and checksum of an array, and whether the kernel changed it."""
    raw = array.tobytes()
    first = " ".join(f"{value:g}" for value in array[:4])
    wide = np.float64 if array.dtype.kind == "f" else object
    return (
        f"{array.dtype}[{array.size}] {'unchanged' if raw == old else 'changed'}, "
        f"sum {array.astype(wide).sum():g}, crc32 {zlib.crc32(raw):08x}, first {first}"
    )

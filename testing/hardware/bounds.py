"""How far the simulator's approximate functions may be from the chip's: per function and range.

The chip interpolates in tables that are not public.  The simulator computes in double precision and
rounds once (sine and cosine: after the chip's own reduction of the angle), which leaves a distance.
Each bound states it twice: between simulator and chip, as the records have it, and between either of
the two and the exact value, as the PTX ISA documents it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi

import numpy as np

NAMES = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div")
FORMATS = {"f32": (np.uint32, 23, -126), "f16": (np.uint16, 10, -14), "bf16": (np.uint16, 7, -126),
           "f64": (np.uint64, 20, -1022)}  # fmt: skip
"""Word, fraction bits that a result has, exponent of the smallest normal number."""

EXACT: dict[str, Callable[..., np.ndarray]] = {
    "ex2": np.exp2, "lg2": np.log2, "rcp": np.reciprocal, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "div": np.divide,
}  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """Largest errors of a function where low <= |last operand| < high.

    Attributes:
        chip: (measure, limit) of the distance between simulator and chip.
        isa: the same to the exact value, for both; None where the PTX ISA states none.

    A measure is "absolute", "relative" or "ulp" (units of the last place of the expected result).
    """

    chip: tuple[str, float]
    isa: tuple[str, float] | None
    low: float = 0.0
    high: float = inf


def _angles() -> tuple[Bound, ...]:
    chip = ("absolute", 2**-22.4)
    return (
        Bound(chip, ("absolute", 2**-20.5), 0.0, 2 * pi),
        Bound(chip, ("absolute", 2**-14.7), 2 * pi, 100 * pi),
        Bound(chip, None, 100 * pi),
    )


BOUNDS: dict[str, tuple[Bound, ...]] = {
    "ex2.approx.f32": (Bound(("ulp", 2), ("ulp", 2)),),
    "lg2.approx.f32": (
        Bound(("relative", 2**-22), ("relative", 2**-22), 0.0, 0.5 + 2**-25),
        Bound(("absolute", 2**-22), ("absolute", 2**-22), 0.5 + 2**-25, 2.0),
        Bound(("relative", 2**-23), ("relative", 2**-22), 2.0),
    ),
    "rcp.approx.f32": (Bound(("ulp", 1), ("ulp", 1)),),
    "rsqrt.approx.f32": (Bound(("ulp", 1), ("relative", 2**-22.9)),),
    "sqrt.approx.f32": (Bound(("ulp", 1), ("relative", 2**-23)),),
    "sin.approx.f32": _angles(),
    "cos.approx.f32": _angles(),
    "tanh.approx.f32": (Bound(("relative", 2**-16.5), ("relative", 2**-11)),),
    "div.approx.f32": (
        Bound(("ulp", 2), ("ulp", 2), 2.0**-126, 2.0**126),
        Bound(("ulp", 0), None, 2.0**126),
        Bound(("ulp", 2), None, 0.0, 2.0**-126),
    ),
    "div.full.f32": (Bound(("ulp", 2), ("ulp", 2)),),
    "ex2.approx.f16": (Bound(("ulp", 1), ("relative", 2**-9.9)),),
    "tanh.approx.f16": (Bound(("ulp", 1), ("absolute", 2**-10.987)),),
    "ex2.approx.bf16": (Bound(("ulp", 1), ("relative", 2**-7)),),
    "tanh.approx.bf16": (Bound(("ulp", 1), None),),
    "rcp.approx.f64": (Bound(("ulp", 1), None),),
    "rsqrt.approx.f64": (Bound(("ulp", 1), None),),
}
"""Instruction without .ftz and x2 -> bounds of its ranges."""


def key_of(instruction: str) -> str | None:
    """The key in `BOUNDS` of an instruction name, None for one that is exact."""
    key = instruction.replace(".ftz", "").removesuffix("x2")
    if key.split(".")[0] in NAMES and (".approx" in key or ".full" in key):
        return key
    return None


def values(array: np.ndarray, kind: str) -> np.ndarray:
    """Codes of a format as doubles: packed 16-bit codes come apart, of f64 the upper half counts."""
    codes = array.view(FORMATS[kind][0])
    if kind == "bf16":
        codes = codes.astype(np.uint32) << 16
    elif kind == "f64":
        codes = codes & np.uint64(0xFFFFFFFF << 32)
    floats = {"f16": np.float16, "f64": np.float64}.get(kind, np.float32)
    with np.errstate(invalid="ignore"):  # signaling NaNs
        return codes.view(floats).astype(np.float64)


def errors(got: np.ndarray, want: np.ndarray, measure: str, kind: str) -> np.ndarray:
    """Distance of finite doubles from the expected ones in a measure of `Bound`."""
    distance: np.ndarray = np.abs(got - want)
    if measure == "absolute":
        return distance
    if measure == "relative":
        unit = np.where(distance == 0, 1.0, np.abs(want))
    else:
        _, bits, lowest = FORMATS[kind]
        exponent = np.maximum(np.frexp(want)[1] - 1, lowest)
        unit = np.exp2(exponent.astype(np.float64) - bits)
    found: np.ndarray = distance / unit
    return found


def worst(
    bound: Bound, limit: tuple[str, float], place: np.ndarray, got: np.ndarray, want: np.ndarray,
    kind: str,
) -> tuple[float, int]:  # fmt: skip
    """Largest error where `place` (magnitudes) is in the bound's range, and the number of values.

    Infinite and NaN results are left to the caller, which compares their bits.
    """
    inside = (place >= bound.low) & ((place < bound.high) | (bound.high == inf))
    inside &= np.isfinite(got) & np.isfinite(want)
    found = errors(got[inside], want[inside], limit[0], kind)
    return float(found.max(initial=0.0)), int(inside.sum())

"""The approximate functions over dense samples."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case, lanes
from testing.hardware.micro import samples

DENSE = 8192


def _dense(low: int, high: int, seed: int) -> np.ndarray:
    """Specials, an even walk through one binade's mantissas, random values of many exponents."""
    walk = np.uint32(0x3F800000) + np.arange(DENSE, dtype=np.uint32) * np.uint32(
        1 << 23
    ) // np.uint32(DENSE)
    step = (np.arange(2 * DENSE, dtype=np.uint64) * (1 << 24) // (2 * DENSE)).astype(
        np.uint32
    ) + np.uint32(0x3F800000)
    return np.concatenate([samples.F32_SPECIALS, walk[:0], step, samples.random_f32(DENSE, low, high, seed),
                           samples.random_f32(512, 0, 4, seed)]).astype(np.uint32)  # fmt: skip


RANGES = {"ex2": (100, 134), "lg2": (1, 254), "rcp": (1, 254), "rsqrt": (1, 254), "sqrt": (1, 254),
          "sin": (100, 130), "cos": (100, 130), "tanh": (110, 131)}  # fmt: skip
"""Biased exponents of the random inputs."""


def cases() -> list[Case]:
    """ex2 lg2 rcp rsqrt sqrt sin cos tanh div, f32, f16, bf16 and the coarse f64 forms."""
    out = []

    def add(name: str, text: str, inputs: list[np.ndarray], kind: type) -> None:
        out.append(lanes("approx", name, text, inputs, kind, group=name.split(".")[0]))

    for op, (low, high) in RANGES.items():
        inputs = [_dense(low, high, len(op))]
        for ftz in ("", ".ftz") if op != "tanh" else ("",):
            name = f"{op}.approx{ftz}.f32"
            add(name, f"{name} $d, $a;", inputs, np.uint32)
    two = [samples.random_f32(DENSE, 90, 160, 21), samples.random_f32(DENSE, 90, 160, 22)]
    special = samples.pairs(samples.F32_SPECIALS, np.zeros(0, np.uint32))
    two = [np.concatenate([s, t]) for s, t in zip(special, two, strict=True)]
    for mode in ("approx", "full"):
        for ftz in ("", ".ftz"):
            name = f"div.{mode}{ftz}.f32"
            add(name, f"{name} $d, $a, $b;", two, np.uint32)
    for kind in ("f16", "bf16"):
        for op, ftz in (("ex2", ".ftz" if kind == "bf16" else ""), ("tanh", "")):
            name = f"{op}.approx{ftz}.{kind}"
            add(name, f"{name} $d, $a;", [samples.ALL16], np.uint16)
            name = f"{op}.approx{ftz}.{kind}x2"
            pairs = (
                samples.ALL16[::16].astype(np.uint32) | samples.ALL16[5::16].astype(np.uint32) << 16
            )
            add(name, f"{name} $d, $a;", [pairs], np.uint32)
    wide = np.concatenate(
        [
            samples.F64_SPECIALS,
            samples.random_f32(4096, 1, 254).view(np.float32).astype(np.float64).view(np.uint64),
        ]
    )
    for op in ("rcp", "rsqrt"):
        name = f"{op}.approx.ftz.f64"
        add(name, f"{name} $d, $a;", [wide], np.uint64)
    return out

"""Edges that dense samples miss: flushing next to the smallest normal number, NaN payloads of
64-bit floats, bit fields of any length, wide arguments of sine and cosine, the inner end of tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from testing.hardware.case import Case, lanes
from testing.hardware.micro import samples
from testing.hardware.micro.tma import BYTES, load, shape, store

MODES = ("rn", "rz", "rm", "rp")
COUNT = 2048


WIDTH = {24: 8, 11: 5}
"""Bits of the significand (f32, f16) -> bits of the exponent field."""


def _codes(bits: int, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """Codes of numbers (sign, exponent field, significand)."""
    place = bits - 1
    dtype = np.uint32 if bits == 24 else np.uint16
    fields = [s << (place + WIDTH[bits]) | e << place | m & ((1 << place) - 1) for s, e, m in parts]
    return [f.astype(dtype) for f in fields]


def _near_products(bits: int) -> list[np.ndarray]:
    """Pairs whose product is within a few units of the smallest normal number."""
    rng = np.random.Generator(np.random.PCG64(71))
    bias = (1 << (WIDTH[bits] - 1)) - 1
    first = rng.integers(1 << (bits - 1), 1 << bits, COUNT)
    second = np.minimum((1 << (2 * bits - 1)) // first + rng.integers(0, 2, COUNT), (1 << bits) - 1)
    exponent = rng.integers(1, bias, COUNT)
    sign = rng.integers(0, 2, (2, COUNT))
    return _codes(bits, [(sign[0], exponent, first), (sign[1], bias - exponent, second)])


def _near_sums(bits: int) -> list[np.ndarray]:
    """a * b + c where c is the smallest normal number and a * b much smaller."""
    rng = np.random.Generator(np.random.PCG64(72))
    bias = (1 << (WIDTH[bits] - 1)) - 1
    exponent = rng.integers(1, 6 if bits == 11 else 64, COUNT)
    other = rng.integers(1, bias, COUNT)
    sign = rng.integers(0, 2, (3, COUNT))
    first, second = rng.integers(0, 1 << bits, (2, COUNT)) * rng.integers(0, 2, (2, COUNT))
    one = np.ones(COUNT, np.int64)
    return _codes(
        bits, [(sign[0], exponent, first), (sign[1], other, second), (sign[2], one, 0 * one)]
    )


def flushed_products() -> list[Case]:
    """mul and fma with .ftz whose exact result is just below, at, or above the smallest normal."""
    out = []
    for kind, bits in (("f32", 24), ("f16", 11)):
        two, three = _near_products(bits), _near_sums(bits)
        dtype = two[0].dtype.type
        for mode in MODES if kind == "f32" else ("rn",):
            for flags in (".ftz", ""):
                name = f"mul.{mode}{flags}.{kind}"
                text = f"{name} $d, $a, $b;"
                out.append(lanes("edges", name, text, two, dtype, group="flushing"))
                name = f"fma.{mode}{flags}.{kind}"
                text = f"{name} $d, $a, $b, $c;"
                out.append(lanes("edges", name, text, three, dtype, group="flushing"))
                zero = [*two, np.zeros(1, dtype)]
                out.append(lanes("edges", name + " + 0", text, zero, dtype, group="flushing"))
    return out


def flushed_quotients() -> list[Case]:
    """div, cvt from f64, ex2 whose exact result is next to the smallest normal number."""
    out = []
    rng = np.random.Generator(np.random.PCG64(73))
    mantissa = rng.integers(0, 1 << 23, COUNT)
    step = rng.integers(-2, 4, COUNT)
    a = (1 << 23 | mantissa).astype(np.uint32)
    b = ((127 << 23 | mantissa) + step).astype(np.uint32)
    for mode in MODES:
        name = f"div.{mode}.ftz.f32"
        out.append(lanes("edges", name, f"{name} $d, $a, $b;", [a, b], np.uint32, group="flushing"))
    low = ((897 << 52) - rng.integers(-(1 << 31), 1 << 31, COUNT)).astype(np.uint64)
    low = np.concatenate([low, low | np.uint64(1 << 63)])
    for mode in MODES:
        name = f"{mode}.ftz.f32.f64"
        text = f"cvt.{name} $d, $a;"
        out.append(lanes("edges", f"cvt.{name}", text, [low], np.uint32, group="flushing"))
    return out


def nan_payloads() -> list[Case]:
    """f64 operations on NaNs of every kind of payload."""
    quiet = [
        0x7FF8 << 48 | 0x123456789ABC,
        0xFFFC << 48 | 0x0F0F0F0F0F0F,
        0x7FFF << 48 | 0xFFFFFFFFFFFF,
    ]
    signaling = [
        0x7FF4 << 48 | 0x111122223333,
        0xFFF1 << 48,
        0x7FF0 << 48 | 1 << 29,
        0xFFF0 << 48 | 1 << 42,
    ]
    plain = [0, 0x3FF0 << 48, 0xC000 << 48, 0x7FF0 << 48, 0xFFF0 << 48]
    values = np.array([*quiet, *signaling, *plain], np.uint64)
    two, three = samples.pairs(values, values[:0]), samples.triples(values, values[:0])
    out = []
    for op in ("add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max"):
        name = f"{op}.f64"
        out.append(lanes("edges", name, f"{name} $d, $a, $b;", two, np.uint64, group="NaNs of f64"))
    name = "fma.rn.f64"
    text = f"{name} $d, $a, $b, $c;"
    out.append(lanes("edges", name, text, three, np.uint64, group="NaNs of f64"))
    singles = ("rcp.rn", "sqrt.rn", "neg", "abs", "rcp.approx.ftz", "rsqrt.approx.ftz")
    for op in singles:
        name = f"{op}.f64"
        out.append(
            lanes("edges", name, f"{name} $d, $a;", [values], np.uint64, group="NaNs of f64")
        )
    for kind, dtype in (("f32", np.uint32), ("f16", np.uint16), ("bf16", np.uint16)):
        name = f"cvt.rn.{kind}.f64"
        out.append(lanes("edges", name, f"{name} $d, $a;", [values], dtype, group="NaNs of f64"))
    wide = samples.ALL16[::7]
    name = "cvt.f64.bf16"
    out.append(lanes("edges", name, f"{name} $d, $a;", [wide], np.uint64, group="NaNs of f64"))
    return out


def fields() -> list[Case]:
    """bfe and bfi of 64 and 32 bits with positions and lengths from registers, beyond a byte too."""
    edge = np.array([0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 300, 0x1003, 0x10020,
                     0x7FFFFFFF, 0x80000000, 0x80000005, 0xFFFFFFF0, 0xFFFFFFFF], np.uint32)  # fmt: skip
    places, lengths = samples.pairs(edge, np.zeros(0, np.uint32))
    out = []
    for bits, dtype in ((64, np.uint64), (32, np.uint32)):
        value = samples.random_bits(len(places), dtype, 74)
        for sign in "us":
            name = f"bfe.{sign}{bits}"
            text = f"{name} $d, $a, $b, $c;"
            out.append(
                lanes("edges", name, text, [value, places, lengths], dtype, group="bit fields")
            )
        # The fourth operand comes from the first: its complement.
        name = f"bfi.b{bits}"
        move = f"not.b{bits} {'%rd9' if bits == 64 else '%r9'}, $a;"
        text = f"{move} {name} $d, $a, {'%rd9' if bits == 64 else '%r9'}, $b, $c;"
        out.append(lanes("edges", name, text, [value, places, lengths], dtype, group="bit fields"))
    return out


def wide_arguments() -> list[Case]:
    """sin, cos of arguments up to the largest; lg2 around 1; tanh over all exponents."""
    wide = samples.random_f32(3 * COUNT, 120, 254, 75)
    near_one = (np.uint32(0x3F800000) + np.arange(-COUNT, COUNT)).astype(np.uint32)
    near_one = np.concatenate([near_one, samples.random_f32(2 * COUNT, 125, 127, 76) & 0x7FFFFFFF])
    out = []
    for op, values in (("sin", wide), ("cos", wide), ("lg2", near_one)):
        name = f"{op}.approx.f32"
        out.append(
            lanes("edges", name, f"{name} $d, $a;", [values], np.uint32, group="approximations")
        )
    values = samples.random_f32(4 * COUNT, 96, 132, 77)
    name = "tanh.approx.f32"
    out.append(lanes("edges", name, f"{name} $d, $a;", [values], np.uint32, group="approximations"))
    return out


def inner_ends() -> list[Case]:
    """Stores, reductions and loads whose box crosses an inner end inside a 16-byte chunk."""
    out = []
    kinds = {"UINT8": "", "UINT16": "", "UINT32": "xor", "FLOAT32": "add", "UINT64": "max"}
    for element, op in kinds.items():
        item = BYTES[element]
        for swizzle in (0, 2):
            ends = {16 * 5 + item, 16 * 6 - item, 16 * 6}
            for end in sorted(ends):
                args = shape(element, (end // item, 6), (64 // item, 4), swizzle=swizzle)
                start = (48 // item, 3)
                name = f"{element} {end} B swizzle {swizzle}"
                out.append(store(f"store {name}", "inner ends", args, start))
                out.append(load(f"load {name}", "inner ends", args, start))
                if op:
                    out.append(store(f"{op} {name}", "inner ends", args, start, op))
    return out


def cases() -> list[Case]:
    """All edges."""
    tensors = [replace(case, family="edges") for case in inner_ends()]
    return [*flushed_products(), *flushed_quotients(), *nan_payloads(), *fields(), *wide_arguments(),
            *tensors]  # fmt: skip

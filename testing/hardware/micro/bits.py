"""Integer arithmetic, logic, shifts, byte permutation, bit fields."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case, lanes
from testing.hardware.micro import samples

MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def _values(dtype: type, count: int, seed: int) -> np.ndarray:
    bits = np.dtype(dtype).itemsize * 8
    edges = np.array(
        [
            v % (1 << bits)
            for v in (0, 1, 2, -1, -2, 1 << (bits - 1), (1 << (bits - 1)) - 1, 1 << (bits // 2), 3)
        ],
        np.uint64,
    )
    return np.concatenate([edges.astype(dtype), samples.random_bits(count, dtype, seed)])


def _two(dtype: type) -> list[np.ndarray]:
    edges = _values(dtype, 0, 1)
    return samples.pairs(edges, samples.random_bits(2000, dtype, 31))


def _three(dtype: type) -> list[np.ndarray]:
    return samples.triples(_values(dtype, 0, 1), samples.random_bits(2100, dtype, 32))


def _case(name: str, text: str, inputs: list[np.ndarray], out: type, group: str) -> Case:
    return lanes("bits", name, text, inputs, out, group=group)


def arithmetic() -> list[Case]:
    """add sub mul mad min max div rem sad of 16, 32, 64 bits."""
    out = []
    for bits, dtype in ((16, np.uint16), (32, np.uint32), (64, np.uint64)):
        two, three = _two(dtype), _three(dtype)
        nonzero = [two[0], np.where(two[1] == 0, 7, two[1]).astype(dtype)]
        wide = {16: np.uint32, 32: np.uint64}.get(bits)
        for sign in "us":
            kind = f"{sign}{bits}"
            for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
                out.append(
                    _case(f"{op}.{kind}", f"{op}.{kind} $d, $a, $b;", two, dtype, "arithmetic")
                )
            for op in ("div", "rem"):
                inputs = nonzero
                if sign == "s":  # the smallest number over -1 overflows
                    low = nonzero[0] == dtype(1 << (bits - 1))
                    inputs = [np.where(low, 5, nonzero[0]).astype(dtype), nonzero[1]]
                out.append(
                    _case(f"{op}.{kind}", f"{op}.{kind} $d, $a, $b;", inputs, dtype, "arithmetic")
                )
            for op in ("mad.lo", "mad.hi", "sad"):
                out.append(
                    _case(
                        f"{op}.{kind}", f"{op}.{kind} $d, $a, $b, $c;", three, dtype, "arithmetic"
                    )
                )
            if wide:
                out.append(
                    _case(
                        f"mul.wide.{kind}", f"mul.wide.{kind} $d, $a, $b;", two, wide, "arithmetic"
                    )
                )
                inputs = [
                    three[0],
                    three[1],
                    np.resize(samples.random_bits(900, wide, 3), len(three[0])),
                ]
                out.append(
                    _case(
                        f"mad.wide.{kind}",
                        f"mad.wide.{kind} $d, $a, $b, $c;",
                        inputs,
                        wide,
                        "arithmetic",
                    )
                )
        for op in ("neg", "abs"):
            out.append(
                _case(f"{op}.s{bits}", f"{op}.s{bits} $d, $a;", two[:1], dtype, "arithmetic")
            )
    two, three = _two(np.uint32), _three(np.uint32)
    for name in ("add.sat.s32", "sub.sat.s32", "add.u16x2", "add.s16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2",
                 "min.relu.s16x2", "max.relu.s16x2", "min.relu.s32", "max.relu.s32"):  # fmt: skip
        out.append(_case(name, f"{name} $d, $a, $b;", two, np.uint32, "arithmetic"))
    for name in ("mad.hi.sat.s32", "dp4a.u32.u32", "dp4a.s32.s32", "dp4a.u32.s32", "dp4a.s32.u32"):
        out.append(_case(name, f"{name} $d, $a, $b, $c;", three, np.uint32, "arithmetic"))
    return out


def counts() -> list[Case]:
    """popc clz brev bfind not cnot."""
    out = []
    for bits, dtype in ((32, np.uint32), (64, np.uint64)):
        shifted = samples.random_bits(1500, dtype, 41) >> (
            samples.random_bits(1500, dtype, 42) % dtype(bits)
        )
        values = np.concatenate([_values(dtype, 300, 43), shifted])
        for op in ("popc", "clz"):
            out.append(
                _case(f"{op}.b{bits}", f"{op}.b{bits} $d, $a;", [values], np.uint32, "bit fields")
            )
        for op in ("brev", "not", "cnot"):
            out.append(
                _case(f"{op}.b{bits}", f"{op}.b{bits} $d, $a;", [values], dtype, "bit fields")
            )
        for sign in "us":
            both = np.concatenate([values, ~values])
            for mode in ("", ".shiftamt"):
                name = f"bfind{mode}.{sign}{bits}"
                out.append(_case(name, f"{name} $d, $a;", [both], np.uint32, "bit fields"))
    return out


def fields() -> list[Case]:
    """bfe bfi shl shr shf with positions and lengths beyond the width."""
    out = []
    place = samples.random_bits(3000, np.uint32, 44) % np.uint32(300)
    near = samples.random_bits(3000, np.uint32, 45) % np.uint32(70)
    amounts = np.concatenate(
        [
            place[:500],
            near[:2000],
            np.array([0, 31, 32, 33, 63, 64, 255, 256, 0xFFFFFFFF], np.uint32),
        ]
    )
    for bits, dtype in ((32, np.uint32), (64, np.uint64)):
        values = _values(dtype, 2500, 46)
        lengths = np.roll(amounts, 77)
        for sign in "us":
            name = f"bfe.{sign}{bits}"
            out.append(
                _case(
                    name, f"{name} $d, $a, $b, $c;", [values, amounts, lengths], dtype, "bit fields"
                )
            )
        for length in (0, 1, 5, 31, 32, 64, 255):
            text = f"bfi.b{bits} $d, $a, $b, $c, {length};"
            inputs = [values, np.roll(values, 3), amounts]
            out.append(_case(f"bfi.b{bits} length {length}", text, inputs, dtype, "bit fields"))
    for bits, unsigned in ((16, np.uint16), (32, np.uint32), (64, np.uint64)):
        values = _values(unsigned, 2500, 47)
        for name in (f"shl.b{bits}", f"shr.u{bits}", f"shr.s{bits}"):
            out.append(_case(name, f"{name} $d, $a, $b;", [values, amounts], unsigned, "shifts"))
    words = _values(np.uint32, 2500, 48)
    for side in "lr":
        for mode in ("clamp", "wrap"):
            name = f"shf.{side}.{mode}.b32"
            out.append(
                _case(
                    name,
                    f"{name} $d, $a, $b, $c;",
                    [words, np.roll(words, 5), amounts],
                    np.uint32,
                    "shifts",
                )
            )
    return out


def permutations() -> list[Case]:
    """prmt in all modes, lop3 over many tables."""
    words = samples.random_bits(4096, np.uint32, 49)
    other = samples.random_bits(4096, np.uint32, 50)
    select = samples.random_bits(4096, np.uint32, 51)
    out = []
    for mode in ("", *(f".{m}" for m in MODES)):
        name = f"prmt.b32{mode}"
        out.append(
            _case(name, f"{name} $d, $a, $b, $c;", [words, other, select], np.uint32, "prmt, lop3")
        )
    few = [words[:256], other[:256], select[:256]]
    for table in range(0, 256, 5):
        out.append(
            _case(
                f"lop3 {table}", f"lop3.b32 $d, $a, $b, $c, {table};", few, np.uint32, "prmt, lop3"
            )
        )
    return out


def cases() -> list[Case]:
    """All integer operations."""
    return [*arithmetic(), *counts(), *fields(), *permutations()]

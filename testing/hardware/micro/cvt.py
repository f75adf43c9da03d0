"""Conversions: every rounding of every type pair that sm_90 has."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case, lanes
from testing.hardware.micro import samples

INTEGERS = {"u8": np.uint8, "s8": np.uint8, "u16": np.uint16, "s16": np.uint16, "u32": np.uint32,
            "s32": np.uint32, "u64": np.uint64, "s64": np.uint64}  # fmt: skip
FLOATS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}
MODES: tuple[str, ...] = ("rn", "rz", "rm", "rp")


def _floats(kind: str) -> np.ndarray:
    if kind in ("f16", "bf16"):
        return samples.ALL16
    if kind == "f32":
        small = samples.random_f32(1500, 120, 160)
        halves = np.float32(np.arange(-600, 600) / 4).view(np.uint32)
        return np.concatenate(
            [samples.F32_SPECIALS, small, halves, samples.random_bits(500, np.uint32)]
        )
    values = samples.random_f32(1500, 120, 195).view(np.float32).astype(np.float64)
    near = np.nextafter(np.float64(np.arange(-300, 300) / 2), 1e9)
    return np.concatenate([samples.F64_SPECIALS, values.view(np.uint64), near.view(np.uint64)])


def _integers(kind: str) -> np.ndarray:
    dtype = INTEGERS[kind]
    bits = np.dtype(dtype).itemsize * 8
    if bits == 8:
        return np.arange(256, dtype=np.uint8)
    edges = [(1 << k) + d for k in range(bits) for d in (-1, 0, 1)]
    wide = np.array([e % (1 << bits) for e in [*edges, -1, -2, -3]], np.uint64)
    shifted = samples.random_bits(800, np.uint64, 3) >> samples.random_bits(
        800, np.uint64, 4
    ) % np.uint64(64)
    return np.concatenate([wide, shifted]).astype(dtype)


def _case(name: str, text: str, inputs: list[np.ndarray], out: type, group: str) -> Case:
    return lanes("cvt", name, text, inputs, out, group=group)


def _one(mods: str, source: np.ndarray, out: type, group: str) -> Case:
    return _case(mods, f"cvt.{mods} $d, $a;", [source], out, group)


def narrow_floats() -> list[Case]:
    """f32 to 16-bit formats, tf32 and packed 8-bit formats."""
    edges = samples.f32_edges()
    two = [edges, edges[::-1].copy()]
    cases = []
    for kind in ("f16", "bf16"):
        for mods in (*MODES, "rn.relu", "rz.relu"):
            cases.append(_one(f"{mods}.{kind}.f32", edges, np.uint16, "f32 to f16, bf16"))
        for mods in ("rn", "rz", "rn.relu", "rz.relu"):
            name = f"{mods}.{kind}x2.f32"
            cases.append(_case(name, f"cvt.{name} $d, $a, $b;", two, np.uint32, "f32 to f16, bf16"))
    for mods in ("rn.ftz", "rz.ftz", "rn.sat", "rn.ftz.sat"):
        cases.append(_one(f"{mods}.f16.f32", edges, np.uint16, "f32 to f16, bf16"))
    for mods in ("rna", "rn", "rz", "rn.relu", "rz.relu", "rna.satfinite"):
        cases.append(_one(f"{mods}.tf32.f32", edges, np.uint32, "f32 to tf32"))
    for kind in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            name = f"rn.satfinite{relu}.{kind}.f32"
            cases.append(_case(name, f"cvt.{name} $d, $a, $b;", two, np.uint16, "fp8"))
            codes = samples.ALL16.astype(np.uint32) * np.uint32(0x10001) ^ np.uint32(0x35A90000)
            cases.append(_one(f"rn.satfinite{relu}.{kind}.f16x2", codes, np.uint16, "fp8"))
            cases.append(_one(f"rn{relu}.f16x2.{kind}", samples.ALL16, np.uint32, "fp8"))
    return cases


def between_floats() -> list[Case]:
    """Widening, f64, and rounding to an integral value in the same type."""
    cases = [_one(f"f32.{kind}", samples.ALL16, np.uint32, "widening") for kind in ("f16", "bf16")]
    cases += [_one("ftz.f32.f16", samples.ALL16, np.uint32, "widening")]
    cases += [
        _one("f64.f32", _floats("f32"), np.uint64, "f64"),
        _one("f64.f16", samples.ALL16, np.uint64, "f64"),
    ]
    for mode in MODES:
        cases += [
            _one(f"{mode}{ftz}.f32.f64", _floats("f64"), np.uint32, "f64") for ftz in ("", ".ftz")
        ]
        cases += [_one(f"{mode}.f16.f64", _floats("f64"), np.uint16, "f64")]
        cases += [
            _one(f"{mode}i.{kind}.{kind}", _floats(kind), FLOATS[kind], "to integral")
            for kind in ("f16", "f32", "f64")
        ]
        cases += [_one(f"{mode}i.ftz.f32.f32", _floats("f32"), np.uint32, "to integral")]
    cases += [
        _one(mods, _floats("f32"), np.uint32, "to integral")
        for mods in ("sat.f32.f32", "ftz.f32.f32")
    ]
    cases += [
        _one("rn.bf16.f16", samples.ALL16, np.uint16, "widening"),
        _one("rn.f16.bf16", samples.ALL16, np.uint16, "widening"),
    ]
    return cases


def integers() -> list[Case]:
    """Integers from and to floats, and between widths."""
    cases = []
    for to, out in INTEGERS.items():
        wide = np.uint32 if out is np.uint8 else out
        for source in FLOATS:
            modes = MODES if to in ("s32", "u64", "u8") else MODES[:2]
            cases += [
                _one(f"{m}i.{to}.{source}", _floats(source), wide, "float to integer")
                for m in modes
            ]
        cases += [_one(f"rzi.ftz.{to}.f32", _floats("f32"), wide, "float to integer")]
        for source, dtype in INTEGERS.items():
            if source != to:
                narrow = np.uint16 if dtype is np.uint8 else dtype
                cases += [_one(f"{sat}{to}.{source}", _integers(source).astype(narrow), wide, "integer to integer")
                          for sat in ("", "sat.")]  # fmt: skip
    for source, dtype in INTEGERS.items():
        narrow = np.uint16 if dtype is np.uint8 else dtype
        for to, out in FLOATS.items():
            modes = MODES if source in ("s32", "u64") else MODES[:1]
            cases += [
                _one(
                    f"{m}.{to}.{source}", _integers(source).astype(narrow), out, "integer to float"
                )
                for m in modes
            ]
    return cases


def cases() -> list[Case]:
    """All conversions."""
    return [*narrow_floats(), *between_floats(), *integers()]

"""f32, f64, f16, bf16 arithmetic with every modifier of sm_90."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case, lanes
from testing.hardware.micro import samples

MODES = ("rn", "rz", "rm", "rp")
COMPARISONS = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
)


def _two() -> list[np.ndarray]:
    more = np.concatenate(
        [
            samples.random_f32(1600),
            samples.random_f32(800, 0, 30),
            samples.random_f32(400, 230, 254),
        ]
    )
    return samples.pairs(samples.F32_SPECIALS, more)


def _three() -> list[np.ndarray]:
    more = np.concatenate(
        [samples.random_f32(1500), samples.random_f32(900, 50, 75), samples.random_f32(300, 0, 254)]
    )
    return samples.triples(
        samples.F32_SPECIALS[[0, 1, 2, 4, 6, 8, 9, 10, 14, 15, 16, 17, 18, 21]], more
    )


def f32() -> list[Case]:
    """add sub mul fma in four roundings with .ftz and .sat; quotients and roots; min and max."""
    two, three, cases = _two(), _three(), []
    for op in ("add", "sub", "mul", "fma"):
        inputs = three if op == "fma" else two
        for mode in MODES:
            for flags in ("", ".ftz", ".sat", ".ftz.sat"):
                name = f"{op}.{mode}{flags}.f32"
                operands = "$a, $b, $c" if op == "fma" else "$a, $b"
                cases.append(
                    lanes(
                        "floating",
                        name,
                        f"{name} $d, {operands};",
                        inputs,
                        np.uint32,
                        group="f32 arithmetic",
                    )
                )
    for mode in MODES:
        for ftz in ("", ".ftz"):
            name = f"div.{mode}{ftz}.f32"
            cases.append(
                lanes(
                    "floating",
                    name,
                    f"{name} $d, $a, $b;",
                    two,
                    np.uint32,
                    group="f32 quotients, roots",
                )
            )
            for op in ("rcp", "sqrt"):
                name = f"{op}.{mode}{ftz}.f32"
                cases.append(
                    lanes(
                        "floating",
                        name,
                        f"{name} $d, $a;",
                        two[1:],
                        np.uint32,
                        group="f32 quotients, roots",
                    )
                )
    for op in ("min", "max"):
        for flags in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".ftz.NaN.xorsign.abs"):
            name = f"{op}{flags}.f32"
            cases.append(
                lanes("floating", name, f"{name} $d, $a, $b;", two, np.uint32, group="f32 min, max")
            )
    for name in ("neg.f32", "neg.ftz.f32", "abs.f32", "abs.ftz.f32"):
        cases.append(
            lanes("floating", name, f"{name} $d, $a;", two[:1], np.uint32, group="f32 signs")
        )
    cases.append(
        lanes(
            "floating",
            "copysign.f32",
            "copysign.f32 $d, $a, $b;",
            two,
            np.uint32,
            group="f32 signs",
        )
    )
    return cases


def comparisons() -> list[Case]:
    """setp of floats, testp, set."""
    two, cases = _two(), []
    for ftz in ("", ".ftz"):
        text = ["mov.u32 $d, 0;"]
        for k, name in enumerate(COMPARISONS):
            text.append(f"setp.{name}{ftz}.f32 %q1, $a, $b; @%q1 or.b32 $d, $d, {1 << k};")
        cases.append(
            lanes(
                "floating",
                f"setp.all{ftz}.f32",
                "\n".join(text),
                two,
                np.uint32,
                group="comparisons",
            )
        )
    text = ["mov.u32 $d, 0;"]
    for k, name in enumerate(("finite", "infinite", "number", "notanumber", "normal", "subnormal")):
        text.append(f"testp.{name}.f32 %q1, $a; @%q1 or.b32 $d, $d, {1 << k};")
    cases.append(
        lanes("floating", "testp.f32", "\n".join(text), two[:1], np.uint32, group="comparisons")
    )
    return cases


def f64() -> list[Case]:
    """add mul fma div rcp sqrt min max of f64."""
    more = samples.random_f32(600, 100, 150).view(np.float32).astype(np.float64) * (1 + 2.0**-40)
    two = samples.pairs(samples.F64_SPECIALS, more.view(np.uint64))
    three = samples.triples(
        samples.F64_SPECIALS[[0, 1, 2, 6, 7, 9, 10, 12, 13]], more.view(np.uint64)
    )
    cases = []
    for mode in MODES:
        for op in ("add", "mul", "div"):
            cases.append(
                lanes(
                    "floating",
                    f"{op}.{mode}.f64",
                    f"{op}.{mode}.f64 $d, $a, $b;",
                    two,
                    np.uint64,
                    group="f64",
                )
            )
        cases.append(
            lanes(
                "floating",
                f"fma.{mode}.f64",
                f"fma.{mode}.f64 $d, $a, $b, $c;",
                three,
                np.uint64,
                group="f64",
            )
        )
        for op in ("rcp", "sqrt"):
            cases.append(
                lanes(
                    "floating",
                    f"{op}.{mode}.f64",
                    f"{op}.{mode}.f64 $d, $a;",
                    two[:1],
                    np.uint64,
                    group="f64",
                )
            )
    for op in ("min", "max"):
        cases.append(
            lanes("floating", f"{op}.f64", f"{op}.f64 $d, $a, $b;", two, np.uint64, group="f64")
        )
    for op in ("neg", "abs"):
        cases.append(
            lanes("floating", f"{op}.f64", f"{op}.f64 $d, $a;", two[:1], np.uint64, group="f64")
        )
    return cases


def _half_names(kind: str) -> list[str]:
    half = kind.startswith("f16")
    names = [f"{op}.rn.{kind}" for op in ("add", "sub", "mul", "fma")]
    names += [f"fma.rn.relu.{kind}", f"neg.{kind}", f"abs.{kind}"]
    if half:
        names += [
            f"{op}.rn.{f}.{kind}"
            for op in ("add", "sub", "mul", "fma")
            for f in ("ftz", "sat", "ftz.sat")
        ]
        names += [f"{op}.ftz.{kind}" for op in ("neg", "abs")]
        names += [f"fma.rn.ftz.relu.{kind}"]
    flags = ["", "NaN.", "xorsign.abs.", "NaN.xorsign.abs."] + (
        ["ftz.", "ftz.NaN."] if half else []
    )
    return names + [f"{op}.{f}{kind}" for op in ("min", "max") for f in flags]


def halves() -> list[Case]:
    """f16, bf16 and their pairs."""
    cases = []
    for kind in ("f16", "bf16", "f16x2", "bf16x2"):
        special = samples.F16_SPECIALS if kind.startswith("f16") else samples.BF16_SPECIALS
        shift, low = (10, 8) if kind.startswith("f16") else (7, 110)
        raw = samples.random_bits(6000, np.uint16, 5)
        exponent = low + samples.random_bits(6000, np.uint16, 6) % 14
        near = (raw & (0x8000 | (1 << shift) - 1) | exponent.astype(np.uint16) << shift).astype(
            np.uint16
        )
        more = np.concatenate([near, raw[:1500]])
        two, three = samples.pairs(special, more), samples.triples(special[::2], more)
        out: type = np.uint16
        if kind.endswith("x2"):
            out = np.uint32
            two = [a.astype(np.uint32) | np.roll(a, 7).astype(np.uint32) << 16 for a in two]
            three = [a.astype(np.uint32) | np.roll(a, 7).astype(np.uint32) << 16 for a in three]
        for name in _half_names(kind):
            op = name.split(".")[0]
            inputs = three if op == "fma" else two[:1] if op in ("neg", "abs") else two
            operands = ", ".join(f"${x}" for x in "abc"[: len(inputs)])
            cases.append(
                lanes(
                    "floating", name, f"{name} $d, {operands};", inputs, out, group="f16 and bf16"
                )
            )
    return cases


def cases() -> list[Case]:
    """All floating-point arithmetic."""
    return [*f32(), *comparisons(), *f64(), *halves()]

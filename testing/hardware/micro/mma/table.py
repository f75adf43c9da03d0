"""All shapes of mma.sync and mma.sp that sm_90 and sm_100 have; sparse forms of wgmma."""

from __future__ import annotations

from testing.hardware.case import Case
from testing.hardware.micro.mma import programs
from testing.hardware.micro.mma.programs import Form
from testing.hardware.micro.wgmma.programs import Form as Group
from testing.hardware.micro.wgmma.programs import case as of_group

FLOATS = (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"))
BYTES = (("s32", "u8"), ("s32", "s8"))
NIBBLES = (("s32", "u4"), ("s32", "s4"))
EIGHTS = (("f32", "e4m3"), ("f32", "e5m2"), ("f16", "e4m3"), ("f16", "e5m2"))
MIXED = {"e4m3": "e5m2", "u8": "s8", "u4": "s4"}
"""Type of A -> another type of B."""

DENSE = (
    (FLOATS, ((16, 8), (16, 16))), ((("f32", "tf32"),), ((16, 4), (16, 8))),
    (EIGHTS, ((16, 16), (16, 32))), (BYTES, ((8, 16), (16, 16), (16, 32))),
    (NIBBLES, ((8, 32), (16, 32), (16, 64))),
    ((("f64", "f64"),), ((8, 4), (16, 4), (16, 8), (16, 16))),
)  # fmt: skip
"""(D, A) and the (M, K) of each."""

SPARSE = (
    (FLOATS, 16, 4), (FLOATS, 32, 2), ((("f32", "tf32"),), 8, 4), ((("f32", "tf32"),), 16, 2),
    (BYTES, 32, 2), (BYTES, 64, 1), (NIBBLES, 64, 2), (NIBBLES, 128, 1), (EIGHTS[:2], 64, 1),
)  # fmt: skip
"""(D, A), K, and how many selectors there are."""

SINGLE = ((8, 128), (16, 128), (16, 256))

GROUPS = (
    ("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"), *EIGHTS, *BYTES,
)  # fmt: skip
"""(D, A) of wgmma."""


def _dense() -> list[Case]:
    out = []
    for types, shapes in DENSE:
        for d, a in types:
            for m, k in shapes:
                out.append(programs.case(Form(d, a, a, m, k), "dense"))
                if a in MIXED:
                    out.append(programs.case(Form(d, a, MIXED[a], m, k), "dense"))
    for d, a in (*BYTES, *NIBBLES):
        k = 32 if a in ("u8", "s8") else 64
        out.append(programs.case(Form(d, a, a, 16, k, more=".satfinite"), "saturation"))
    for m, k in SINGLE:
        for operation in (".and.popc", ".xor.popc"):
            out.append(programs.case(Form("s32", "b1", "b1", m, k, more=operation), "single bits"))
    return out


def _sparse() -> list[Case]:
    out = []
    for types, k, selectors in SPARSE:
        for d, a in types:
            for selector in range(selectors):
                out.append(programs.case(Form(d, a, a, 16, k, selector), "sparse"))
            plain = Form(d, a, a, 16, k, selectors - 1, ordered=False)
            out.append(programs.case(plain, "unordered", swapped=a != "tf32"))
            if a in MIXED:
                out.append(programs.case(Form(d, a, MIXED[a], 16, k, 0), "sparse"))
    return out


def _group() -> list[Case]:
    out = []
    for d, a in GROUPS:
        for selector in (0, 1) if a in ("f16", "bf16", "tf32") else (0,):
            form = Group(d, a, a, 16, selector=selector)
            name = f"wgmma.sp.{d}.{a}.{selector}"
            out.append(of_group(form, "sparse wgmma", spread=2, name=name))
            kept = Group(d, a, a, 24, registers=True, selector=selector)
            out.append(of_group(kept, "sparse wgmma", spread=2, name=f"{name}.registers"))
        far = Group(d, a, a, 32, selector=0)
        out.append(of_group(far, "sparse wgmma", spread=24, name=f"wgmma.sp.{d}.{a}.far"))
    for swizzle in ("none", "64", "128"):
        for a_mn in (False, True):
            for b_mn in (False, True):
                form = Group(
                    "f32", "bf16", "bf16", 64, swizzle, majors=(a_mn, b_mn), accumulate=False,
                    selector=1,
                )  # fmt: skip
                name = f"wgmma.sp.{swizzle}.{'MN' if a_mn else 'K'}.{'MN' if b_mn else 'K'}"
                out.append(of_group(form, "sparse layouts", spread=4, name=name))
    return out


def cases() -> list[Case]:
    """Every shape and type, dense and sparse, with every selector."""
    return _dense() + _sparse() + _group()

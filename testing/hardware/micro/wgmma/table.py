"""wgmma.mma_async: types, layouts, A in registers, signs, chains; whole accumulators as outputs."""

from __future__ import annotations

from testing.hardware.case import Case
from testing.hardware.micro.wgmma.programs import SPANS, Form, case

TYPES = [
    ("f16", "f16", "f16"), ("f32", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    ("f32", "e4m3", "e4m3"), ("f16", "e4m3", "e4m3"), ("f32", "e5m2", "e5m2"), ("f16", "e5m2", "e5m2"),
    ("f32", "e4m3", "e5m2"), ("f32", "e5m2", "e4m3"), ("s32", "s8", "s8"), ("s32", "u8", "u8"),
    ("s32", "s8", "u8"), ("s32", "u8", "s8"),
]  # fmt: skip


def _layouts() -> list[Case]:
    out = []
    for swizzle in SPANS:
        for a_mn in (False, True):
            for b_mn in (False, True):
                form = Form(
                    "f32", "bf16", "bf16", 64, swizzle, majors=(a_mn, b_mn), accumulate=False
                )
                name = f"layout.{swizzle}.{'MN' if a_mn else 'K'}.{'MN' if b_mn else 'K'}"
                out.append(case(form, "layouts", spread=4, name=name))
        for kind in ("tf32", "e4m3"):
            form = Form("f32", kind, kind, 32, swizzle, accumulate=False)
            out.append(case(form, "layouts", spread=4, name=f"layout.{swizzle}.{kind}"))
    return out


def cases() -> list[Case]:
    """Every type in small shapes, two wide ones, all layouts of 16-bit operands."""
    out = []
    for d, a, b in TYPES:
        out += [
            case(Form(d, a, b, 8), "near exponents", spread=2),
            case(Form(d, a, b, 24), "far exponents", spread=24),
            case(Form(d, a, b, 32, accumulate=False), "no D"),
            case(Form(d, a, b, 16, registers=True), "A in registers"),
            case(Form(d, a, b, 8, count=3), "chains"),
        ]
        if d == "s32":
            out.append(case(Form(d, a, b, 16, saturate=True), "saturation"))
        else:
            out.append(case(Form(d, a, b, 16, signs=(-1, 1)), "signs", name=f"signs.{d}.{a}.{b}"))
            out.append(case(Form(d, a, b, 16), "specials", special=True))
    out.append(case(Form("f32", "bf16", "bf16", 256, signs=(1, -1)), "wide"))
    out.append(case(Form("f32", "e4m3", "e4m3", 208, registers=True), "wide"))
    return out + _layouts()

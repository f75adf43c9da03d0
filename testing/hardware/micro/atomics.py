"""atom and red on global and shared memory: one address per thread, so that the order is fixed."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import BLOCK, Case, filled
from testing.hardware.micro import samples

SHARED = ".shared .align 16 .b8 cells[2048];"
TYPES = {"u32": np.uint32, "s32": np.uint32, "u64": np.uint64, "s64": np.uint64, "f32": np.uint32,
         "f64": np.uint64, "f16": np.uint16, "bf16": np.uint16, "f16x2": np.uint32, "bf16x2": np.uint32,
         "b16": np.uint16, "b32": np.uint32, "b64": np.uint64}  # fmt: skip
OPERATIONS = [
    *[(op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64")],
    ("min", "s64"), ("max", "s64"), ("add", "f32"), ("add", "f64"), ("inc", "u32"), ("dec", "u32"),
    *[("add", kind) for kind in ("f16", "bf16", "f16x2", "bf16x2")],
    *[(op, kind) for op in ("and", "or", "xor", "exch") for kind in ("b32", "b64")],
]  # fmt: skip
REGISTER = {2: "%h", 4: "%r", 8: "%rd"}
BITS = {2: "b16", 4: "b32", 8: "b64"}


def _operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    if kind == "f32":
        more = np.concatenate([samples.random_f32(500), samples.random_f32(300, 0, 20)])
        a, b = samples.pairs(samples.F32_SPECIALS, more)
    elif kind == "f64":
        a, b = samples.pairs(samples.F64_SPECIALS, np.zeros(0, np.uint64))
    elif "16" in kind and kind != "b16":
        special = samples.F16_SPECIALS if kind.startswith("f16") else samples.BF16_SPECIALS
        a, b = samples.pairs(special, samples.random_bits(2000, np.uint16, 61))
        if kind.endswith("x2"):
            a, b = (x.astype(np.uint32) | np.roll(x, 9).astype(np.uint32) << 16 for x in (a, b))
    else:
        dtype = TYPES[kind]
        bits = np.dtype(dtype).itemsize * 8
        edges = np.array(
            [v % (1 << bits) for v in (0, 1, 2, -1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 77)],
            np.uint64,
        ).astype(dtype)
        a, b = samples.pairs(edges, samples.random_bits(1000, dtype, 62))
    count = (len(a) + BLOCK - 1) // BLOCK * BLOCK
    return np.resize(a, count), np.resize(b, count)


def _case(op: str, kind: str, space: str, returning: bool) -> Case:
    old, operand = _operands(kind)
    size = old.itemsize
    reg, bits = REGISTER[size], BITS[size]
    noftz = ".noftz" if "16" in kind and kind != "b16" else ""
    mods = f"{space}.{op}{noftz}.{kind}"
    compare = f"{reg}7, " if op == "cas" else ""
    lines = [
        f"mov.u32 %r63, %tid.x; mov.u32 %r62, %ctaid.x; mad.lo.s32 %r61, %r62, {BLOCK}, %r63;",
        f"mad.wide.u32 %rd60, %r61, {size}, %p0; ld.global.{bits} {reg}6, [%rd60];",
        f"mad.wide.u32 %rd61, %r61, {size}, %p1; mad.wide.u32 %rd62, %r61, {size}, %p2;",
        f"ld.global.{bits} {reg}9, [%rd61];",
        f"and.b32 %r60, %r63, 1; setp.eq.u32 %q1, %r60, 0; selp.{bits} {reg}7, {reg}9, {reg}6, %q1;",
    ]
    target = "[%rd61]"
    if space == "shared":
        lines.append(
            f"mov.u32 %r50, cells; mad.lo.u32 %r50, %r63, {size}, %r50; st.shared.{bits} [%r50], {reg}9;"
        )
        target = "[%r50]"
    lines.append(
        f"atom.{mods} {reg}8, {target}, {compare}{reg}6;"
        if returning
        else f"red.{mods} {target}, {reg}6;"
    )
    if not returning:
        lines.append(f"mov.{bits} {reg}8, {reg}6;")
    if space == "shared":
        lines.append(f"ld.shared.{bits} {reg}5, [%r50]; st.global.{bits} [%rd61], {reg}5;")
    lines.append(f"st.global.{bits} [%rd62], {reg}8;")
    verb = "atom" if returning else "red"
    return Case(
        name=f"{verb}.{mods}", family="atomics", body="\n".join(lines), inputs=(operand,),
        outputs=(old, filled(len(old), old.dtype)), grid=len(old) // BLOCK, block=BLOCK,
        shared=SHARED if space == "shared" else "", group=f"{verb} {space}",
    )  # fmt: skip


def contended() -> list[Case]:
    """All threads of several CTAs on one address, operations whose final value has no order."""
    out = []
    for op, kind in (
        ("add", "u32"),
        ("min", "s32"),
        ("max", "u32"),
        ("xor", "b32"),
        ("inc", "u32"),
    ):
        body = f"""mov.u32 %r63, %tid.x; mov.u32 %r62, %ctaid.x; mad.lo.s32 %r61, %r62, 64, %r63;
mad.wide.u32 %rd60, %r61, 4, %p0; ld.global.b32 %r6, [%rd60]; red.global.{op}.{kind} [%p1], %r6;"""
        value = samples.random_bits(256, np.uint32, 63)
        if op == "inc":
            value = np.full(256, 99, np.uint32)
        out.append(Case(name=f"contended {op}.{kind}", family="atomics", body=body, inputs=(value,),
                        outputs=(np.array([5] * 4, np.uint32),), grid=4, block=64, group="contended"))  # fmt: skip
    return out


def cases() -> list[Case]:
    """All atomics."""
    out = [
        _case(op, kind, space, True)
        for space in ("global", "shared")
        for op, kind in [*OPERATIONS, ("cas", "b32"), ("cas", "b64"), ("cas", "b16")]
    ]
    out += [
        _case(op, kind, space, False)
        for space in ("global", "shared")
        for op, kind in OPERATIONS
        if op != "exch"
    ]
    return [*out, *contended()]

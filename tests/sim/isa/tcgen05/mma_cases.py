"""Random but legal tcgen05.mma cases for the tests, and their PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from sm100sim.report import Report
from testing.layouts.instr_desc import (
    BLOCK_SCALED,
    D_TYPES,
    NARROW,
    OPERAND_CODES,
    InstrDescriptor,
    Kind,
    container_bits,
)
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.isa.tcgen05.mma_reference import Case
from tests.sim.isa.tcgen05.programs import IMAGE_START, run_frame

IMAGE_BYTES = 65536
A_COLUMN, D_COLUMN, SFA_COLUMN, SFB_COLUMN = 8, 24, 300, 308


def safe_codes(
    rng: np.random.Generator, desc: InstrDescriptor, shape: tuple[int, ...]
) -> np.ndarray:
    """Bytes whose elements are near 1 as either operand: the sum is exact in double precision."""
    kind, element = desc.kind, desc.a
    if kind == "f16":
        values = rng.normal(size=(*shape[:-1], shape[-1] // 2)).astype(np.float32)
        values = np.where(np.abs(values) < 2**-6, 0.5, values).astype(np.float32)
        if element == "f16":
            return values.astype(np.float16).view(np.uint8)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if kind == "tf32":
        values = rng.normal(size=(*shape[:-1], shape[-1] // 4)).astype(np.float32)
        return np.where(np.abs(values) < 2**-6, 0.5, values).astype(np.float32).view(np.uint8)
    if kind == "i8" or (element in NARROW and desc.b in NARROW):
        return rng.integers(0, 256, shape, np.uint8)
    return rng.integers(0x28, 0x48, shape, np.uint8) | rng.integers(0, 2, shape, np.uint8) << 7


@st.composite
def smem_descriptors(
    draw: st.DrawFn, bits: int, mn_major: bool, rows: int, k: int
) -> SmemDescriptor:
    """A descriptor inside the image: any legal swizzle, dense or spread strides."""
    modes = [Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128, Swizzle.B128_ATOM32]
    if mn_major:
        modes = [Swizzle.B128_ATOM32] if bits == 32 else modes[:4]
    swizzle = draw(st.sampled_from(modes))
    start = IMAGE_START + 16 * draw(st.integers(0, 200))
    span = swizzle.span
    wide = 16 * draw(st.integers(0, 8))
    height = 4 if swizzle is Swizzle.B128_ATOM32 and mn_major else 8
    dense = span * height
    if not mn_major:
        sbo, lbo = dense + wide, 16 * draw(st.integers(0, 40))
        return SmemDescriptor(start, lbo, sbo, swizzle)
    groups = -(-k // height)
    if swizzle is Swizzle.NONE:
        return SmemDescriptor(start, dense * (rows * bits // 128) + wide, dense, swizzle)
    return SmemDescriptor(start, dense * groups + wide, dense, swizzle)


def scale_words(rng: np.random.Generator, tmem: np.ndarray, scale_type: str) -> None:
    """Scale factors near 1, equal in all four partitions, behind both operands."""
    low, high = (120, 135) if scale_type == "ue8m0" else (0x28, 0x48)
    for column, count in ((SFA_COLUMN, 4), (SFB_COLUMN, 8)):
        codes = rng.integers(low, high, (len(tmem), 32, count * 4)).astype(np.uint8)
        words = np.ascontiguousarray(codes).view(np.uint32)
        tmem[:, :, column : column + count] = np.tile(words, (1, 4, 1))


@st.composite
def cases(
    draw: st.DrawFn, kinds: tuple[Kind, ...] = tuple(OPERAND_CODES), a_tmem: bool | None = None
) -> Case:
    """One legal instruction with random memories."""
    kind = draw(st.sampled_from(kinds))
    scaled = kind in BLOCK_SCALED
    group = draw(st.sampled_from([1, 2]))
    m = draw(st.sampled_from([64, 128] if group == 1 else [128, 256]))
    if scaled:
        m = 128 * group
    types = st.sampled_from(list(OPERAND_CODES[kind]))
    a, b = draw(types), draw(types)
    d = draw(st.sampled_from(D_TYPES[kind]))
    if kind == "f16":
        b, d = a, d if a == "f16" else "f32"
    in_tmem = draw(st.booleans()) if a_tmem is None else a_tmem
    if a in NARROW and container_bits(kind, a) == 8:
        in_tmem = False
    majors = [
        draw(st.booleans()) and element not in NARROW and kind not in ("mxf4", "mxf4nvf4")
        for element in (a, b)
    ]
    scale_type = draw(st.sampled_from(["ue8m0", "ue4m3"])) if kind == "mxf4nvf4" else "ue8m0"
    block = 16 if kind == "mxf4nvf4" and draw(st.booleans()) else 32 if scaled else 0
    step = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4 if block == 16 else 2}.get(kind, 4)
    sign = kind != "i8"
    fields: dict[str, Any] = dict(  # noqa: C408
        kind=kind, m=m, a=a, b=b, d=d, group=group, negate_a=sign and draw(st.booleans()),
        negate_b=sign and draw(st.booleans()), mn_major_a=majors[0] and not in_tmem,
        mn_major_b=majors[1], scale_type=scale_type, saturate=not sign and draw(st.booleans()),
        sfa_id=step * draw(st.integers(0, 3)) % 4 if scaled else 0,
        sfb_id=step * draw(st.integers(0, 3)) % 4 if scaled else 0,
    )  # fmt: skip
    legal = InstrDescriptor(n=64, **fields).legal_n()
    desc = InstrDescriptor(n=draw(st.sampled_from(legal)), **fields)
    return fill(draw, desc, in_tmem, block)


def fill(draw: st.DrawFn, desc: InstrDescriptor, in_tmem: bool, block: int) -> Case:
    """Memories, descriptors and the remaining operands of an instruction."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    windows = []
    for _ in range(desc.group):
        image = safe_codes(rng, desc, (IMAGE_BYTES,))
        windows.append(np.concatenate([np.zeros(IMAGE_START, np.uint8), image]))
    tmem = safe_codes(rng, desc, (desc.group, 128, 2048)).view(np.uint32).copy()
    tmem[:, :, D_COLUMN : D_COLUMN + 256] = accumulators(rng, desc, (desc.group, 128, 256))
    if block:
        scale_words(rng, tmem, desc.scale_type)
    operands = []
    for element, mn_major, rows in (
        (desc.a, desc.mn_major_a, desc.m // desc.group),
        (desc.b, desc.mn_major_b, desc.n // desc.group),
    ):
        bits = container_bits(desc.kind, element)
        operands.append(draw(smem_descriptors(bits, mn_major, rows, desc.k)))
    masks = []
    if not block and draw(st.booleans()):
        masks = rng.integers(0, 1 << 32, 4 * desc.group).tolist()
    half = desc.m == 64 and draw(st.booleans())
    scale_d = draw(st.integers(0, 15)) if desc.kind in ("f16", "tf32") else 0
    return Case(
        desc, None if in_tmem else operands[0], operands[1], windows, tmem, D_COLUMN,
        16 if half else 0, A_COLUMN, draw(st.booleans()), scale_d, masks, SFA_COLUMN, SFB_COLUMN,
        block,
    )  # fmt: skip


def accumulators(
    rng: np.random.Generator, desc: InstrDescriptor, shape: tuple[int, ...]
) -> np.ndarray:
    """Initial D: numbers of its type."""
    if desc.d == "f32":
        return rng.normal(size=shape).astype(np.float32).view(np.uint32)
    if desc.d == "s32":
        return rng.integers(0, 1 << 32, shape, np.uint32)
    return rng.normal(size=shape).astype(np.float16).view(np.uint16).astype(np.uint32)


MULTICAST = {1: ".b64 [%r31]", 2: ".multicast::cluster.b64 [%r31], 3"}
BLOCK = {("mxf8f6f4", 32): "block32", ("mxf4", 32): "block32", ("mxf4nvf4", 32): "scale_vec::2X"}


def instruction(case: Case) -> str:
    """PTX of the MMA; its operands are in %r40.., %rd5, %rd6 (see `program`)."""
    q = case.desc
    block = f".block_scale.{BLOCK.get((q.kind, case.sf_block), 'block16')}" if case.sf_block else ""
    a = f"[%r41 + {case.a_column}]" if case.a is None else "%rd5"
    more = f"[%r30 + {case.sfa_column}], [%r30 + {case.sfb_column}], " if case.sf_block else ""
    if case.off_lanes:
        more = "{" + ", ".join(f"%r{50 + k}" for k in range(4 * q.group)) + "}, "
    tail = f", {case.scale_d}" if case.scale_d else ""
    name = f"tcgen05.mma.cta_group::{q.group}.kind::{q.kind}{block}"
    return f"{name} [%r40 + {case.d_column}], {a}, %rd6, %r42, {more}%q6{tail};"


def program(case: Case, count: int = 1) -> str:
    """Issue the MMA `count` times from thread 0 of the pair, then commit."""
    masks = [f"mov.b32 %r{50 + k}, {word};" for k, word in enumerate(case.off_lanes)]
    lines = [
        f"mov.b64 %rd5, {case.a.encode() if case.a else 0}; mov.b64 %rd6, {case.b.encode()};",
        f"add.u32 %r40, %r30, {case.lane0 << 16}; mov.b32 %r41, %r40;",
        f"mov.b32 %r42, {case.desc.encode()}; setp.eq.u32 %q6, {int(case.accumulate)}, 1;",
        *masks,
        "@!%q5 bra ISSUED;",
        *[instruction(case)] * count,
        f"tcgen05.commit.cta_group::{case.desc.group}.mbarrier::arrive::one.shared::cluster"
        + MULTICAST[case.desc.group] + ";",
        "ISSUED:",
    ]  # fmt: skip
    return "\n".join(lines)


def run_case(case: Case, *, body: str | None = None, **options: Any) -> tuple[Report, np.ndarray]:
    """(report, Tensor Memory afterwards) of one case on the simulator."""
    images = [window[IMAGE_START:] for window in case.windows]
    return run_frame(
        program(case) if body is None else body, images, case.tmem, group=case.desc.group, **options
    )

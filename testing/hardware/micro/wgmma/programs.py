"""One wgmma.mma_async as a micro-kernel: the instruction, its operands, its program."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from testing.hardware.case import Case, filled
from testing.hardware.micro import samples
from testing.hardware.micro.shared import SMEM

THREADS, M = 128, 64
A_BYTES = 8192
SPANS = {"none": 16, "128": 128, "64": 64, "32": 32}
CODES = {"none": 0, "128": 1, "64": 2, "32": 3}
"""Swizzle -> bits 62-63 of the sm_90 descriptor."""

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8}
EXPONENT = {"f16": (10, 5), "bf16": (7, 8), "tf32": (23, 8), "e4m3": (3, 4), "e5m2": (2, 5)}
"""Fraction bits and exponent bits."""

PAIRS = (0x4, 0x8, 0xC, 0x9, 0xD, 0xE)
"""Metadata: two of four, the lower index first."""
SWAPPED = (0x1, 0x2, 0x3, 0x6, 0x7, 0xB)
"""The same places, the higher index first."""
ONE_OF_TWO = (0x4, 0xE)


@dataclass(frozen=True)
class Form:
    """One instruction: D of type `d`, A and B of types `a` and `b`.

    Attributes:
        signs: imm-scale-a and imm-scale-b.
        majors: whether A and B are transposed (MN-major).
        registers: A comes from registers.
        count: how often the instruction is issued, each accumulating to the one before.
        selector: which lanes of four have the metadata of a sparse A; None for a dense one.
    """

    d: str
    a: str
    b: str
    n: int
    swizzle: str = "128"
    signs: tuple[int, int] = (1, 1)
    majors: tuple[bool, bool] = (False, False)
    registers: bool = False
    accumulate: bool = True
    saturate: bool = False
    count: int = 1
    selector: int | None = field(default=None, repr=False)
    """Not in the text that inputs are drawn from: those of dense forms are recorded."""

    @property
    def sparse(self) -> int:
        """How many times as many elements B has along K."""
        return 1 if self.selector is None else 2

    @property
    def results(self) -> int:
        """Registers of D per thread."""
        return self.n // (4 if self.d == "f16" else 2)

    @property
    def mnemonic(self) -> str:
        shape = f"m64n{self.n}k{256 * self.sparse // BITS[self.a]}"
        saturate = ".satfinite" if self.saturate else ""
        kind = "mma_async" if self.selector is None else "mma_async.sp"
        return f"wgmma.{kind}.sync.aligned.{shape}{saturate}.{self.d}.{self.a}.{self.b}"

    def strides(self, *, mn_major: bool, wide: int = 1) -> tuple[int, int]:
        """LBO and SBO of packed matrices; `wide`: times 32 bytes of K."""
        span = SPANS[self.swizzle]
        if self.swizzle == "none":
            return 128, 256 * wide
        return (16 * span * wide, 8 * span) if mn_major else (16, 8 * span)

    def descriptor(self, *, start: int, mn_major: bool, wide: int = 1) -> int:
        """The descriptor of a matrix `start` bytes after the aligned base."""
        lbo, sbo = self.strides(mn_major=mn_major, wide=wide)
        return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | CODES[self.swizzle] << 62

    def instruction(self) -> str:
        """The PTX: registers %d0..., %a0...; descriptors %rd4, %rd5; scale-d %q0."""
        d = ", ".join(f"%d{k}" for k in range(self.results))
        a = "{%a0, %a1, %a2, %a3}" if self.registers else "%rd4"
        rest = [] if self.d == "s32" else [str(sign) for sign in self.signs]
        if BITS[self.a] == 16:
            rest += [str(int(major)) for major in self.majors[self.registers :]]
        chosen = "" if self.selector is None else f"%r6, {self.selector}, "
        return f"{self.mnemonic} {{{d}}}, {a}, %rd5, {chosen}{', '.join(['%q0', *rest])};"


def body(form: Form, image_bytes: int) -> str:
    """Copy the image (%p0), load D (%p1), A (%p2) and metadata (%p3), multiply, store D."""
    nd, dense = form.results, form.selector is None
    meta = "mad.wide.u32 %rd2, %r0, 4, %p3; ld.global.b32 %r6, [%rd2];"
    lines = [
        f".reg .b32 %d<{nd}>; .reg .b32 %a<4>;",
        "mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; add.u32 %r1, %r1, 1023; and.b32 %r1, %r1, -1024;",
        "shl.b32 %r3, %r0, 2; F: cvt.u64.u32 %rd1, %r3; add.s64 %rd1, %rd1, %p0;"
        "ld.global.b32 %r4, [%rd1]; add.u32 %r2, %r1, %r3; st.shared.b32 [%r2], %r4;"
        f"add.u32 %r3, %r3, 512; setp.lt.u32 %q1, %r3, {image_bytes}; @%q1 bra F;",
        f"mad.wide.u32 %rd2, %r0, {4 * nd}, %p1; mad.wide.u32 %rd3, %r0, 16, %p2;",
        *[f"ld.global.b32 %d{k}, [%rd2+{4 * k}];" for k in range(nd)],
        *[f"ld.global.b32 %a{k}, [%rd3+{4 * k}];" for k in range(4)],
        *([] if dense else [meta]),
        "shr.u32 %r5, %r1, 4; cvt.u64.u32 %rd6, %r5;",
        f"mov.b64 %rd4, {form.descriptor(start=0, mn_major=form.majors[0])}; add.s64 %rd4, %rd4, %rd6;",
        "mov.b64 %rd5, "
        f"{form.descriptor(start=A_BYTES, mn_major=form.majors[1], wide=form.sparse)};"
        "add.s64 %rd5, %rd5, %rd6;",
        f"setp.ne.u32 %q0, {int(form.accumulate)}, 0; fence.proxy.async; bar.sync 0;",
        "wgmma.fence.sync.aligned;",
        *[form.instruction()] * form.count,
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        f"mad.wide.u32 %rd2, %r0, {4 * nd}, %p{3 if dense else 4};",
        *[f"st.global.b32 [%rd2+{4 * k}], %d{k};" for k in range(nd)],
    ]
    return "\n".join(lines)


def elements(kind: str, count: int, seed: int, spread: int) -> npt.NDArray[np.uint32]:
    """Bits of random finite elements whose exponents differ by up to `spread`; integers: all bits."""
    rng = np.random.Generator(np.random.PCG64(seed))
    if kind not in EXPONENT:
        return rng.integers(0, 256, count).astype(np.uint32)
    fraction, exponent = EXPONENT[kind]
    middle = (1 << exponent - 1) - 1
    low, high = max(0, middle - spread // 2), min((1 << exponent) - 2, middle + spread // 2)
    sign = rng.integers(0, 2, count) << fraction + exponent
    exponents = rng.integers(low, high + 1, count) << fraction
    bits: npt.NDArray[np.uint32] = (
        sign | exponents | rng.integers(0, 1 << fraction, count)
    ).astype(np.uint32)
    return bits


def packed(kind: str, size: int, seed: int, spread: int) -> npt.NDArray[np.uint8]:
    """`size` bytes of random elements."""
    width = BITS[kind] // 8
    kept = {1: np.uint8, 2: np.uint16, 4: np.uint32}[width]
    return elements(kind, size // width, seed, spread).astype(kept).view(np.uint8)


def indices(kind: str, count: int, seed: int, *, swapped: bool = False) -> npt.NDArray[np.uint32]:
    """Metadata of a sparse A: `count` words of eight random pairs; `swapped`: in either order."""
    choices = ONE_OF_TWO if kind == "tf32" else SWAPPED + PAIRS if swapped else PAIRS
    rng = np.random.Generator(np.random.PCG64(seed))
    nibbles = rng.choice(np.array(choices, np.uint32), (count, 8))
    shifts = 4 * np.arange(8, dtype=np.uint32)
    words: npt.NDArray[np.uint32] = (nibbles << shifts).sum(1, dtype=np.uint32)
    return words


def accumulators(form: Form, seed: int, spread: int) -> npt.NDArray[np.uint32]:
    """What D holds before."""
    count = THREADS * form.results
    if form.d == "s32":
        return samples.random_bits(count, np.uint32, seed)
    if form.d == "f16":
        return packed("f16", 4 * count, seed, spread).view(np.uint32)
    return elements("tf32", count, seed, 2 * spread)


def case(form: Form, group: str, *, spread: int = 8, special: bool = False, name: str = "") -> Case:
    """The micro-kernel of a form; `special`: a few operands are NaN, infinite or tiny."""
    span = SPANS[form.swizzle]
    size = A_BYTES + max(form.n * max(span, 32 * form.sparse), 2048)
    seed = sum(map(ord, repr(form) + group)) + spread
    image = np.concatenate([
        packed(form.a, A_BYTES, seed, spread), packed(form.b, size - A_BYTES, seed + 1, spread),
    ])  # fmt: skip
    if special:
        rng = np.random.Generator(np.random.PCG64(seed + 4))
        at = rng.integers(0, size // 4, size // 256)
        image.view(np.uint32)[at] = rng.choice(samples.F32_SPECIALS, at.size)
    registers = packed(form.a, 16 * THREADS, seed + 2, spread).view(np.uint32)
    before = accumulators(form, seed + 3, spread)
    inputs = [image.view(np.uint32), before, registers]
    if form.selector is not None:
        inputs.append(indices(form.a, THREADS, seed + 5))
    return Case(
        name or f"{form.mnemonic.split('aligned.')[1]}.{group}",
        "wgmma" if form.selector is None else "mma", body(form, size), tuple(inputs),
        (filled(THREADS * form.results, np.uint32),),
        block=THREADS, smem=size + 1024, shared=SMEM, group=group, extra={"exact_mma": True},
    )  # fmt: skip

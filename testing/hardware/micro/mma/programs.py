"""One mma.sync as a micro-kernel, dense or with a sparse A; every lane has registers of its own.

All numbers are small whole ones, so that every sum is exact and only the places of elements count;
wgmma's records hold how sums are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testing.hardware.case import Case, filled
from testing.hardware.micro import samples
from testing.hardware.micro.wgmma.programs import indices

LANES, N = 32, 8
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8, "u4": 4, "s4": 4,
        "b1": 1, "f64": 64}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One instruction: D of type `d`, A and B of types `a` and `b`.

    Attributes:
        selector: which lanes of four have the metadata of a sparse A; None for a dense one.
        ordered: spelled with ::ordered_metadata.
        more: modifiers in front of the types, or behind them for single bits.
    """

    d: str
    a: str
    b: str
    m: int
    k: int
    selector: int | None = None
    ordered: bool = True
    more: str = ""

    @property
    def mnemonic(self) -> str:
        """The instruction with its modifiers."""
        sparse = "" if self.selector is None else ".sp::ordered_metadata" if self.ordered else ".sp"
        types = f"{self.d}.{self.a}.{self.b}.{self.d}"
        words = f"{types}{self.more}" if self.a == "b1" else f"{self.more[1:]}.{types}".lstrip(".")
        return f"mma{sparse}.sync.aligned.m{self.m}n{N}k{self.k}.row.col.{words}"

    @property
    def width(self) -> int:
        """Bits of a register."""
        return 64 if self.a == "f64" else 32

    @property
    def counts(self) -> tuple[int, int, int]:
        """Registers of a lane: A, B, and C or D."""
        b = BITS[self.a] * self.k * N // (LANES * self.width)
        a = b * self.m // N // (1 if self.selector is None else 2)
        return a, b, self.m * N // LANES // (2 if self.d == "f16" else 1)


def elements(kind: str, words: int, seed: int) -> npt.NDArray[np.uint8]:
    """Bytes of `words` 32-bit words: integers of all bits, floats from -4 to 4."""
    rng = np.random.Generator(np.random.PCG64(seed))
    if kind in ("u8", "s8", "u4", "s4", "b1", "s32"):
        return samples.random_bits(words * 4, np.uint8, seed)
    count = words * 32 // BITS.get(kind, 32)
    numbers = rng.integers(-4, 5, count)
    if kind in ("e4m3", "e5m2"):
        codes = {"e4m3": (0, 0x38, 0x40, 0x44, 0x48), "e5m2": (0, 0x3C, 0x40, 0x42, 0x44)}[kind]
        table = np.array(codes, np.uint8)
        return table[np.abs(numbers)] | np.where(numbers < 0, 0x80, 0).astype(np.uint8)
    if kind == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    form = {"f16": np.float16, "f64": np.float64}.get(kind, np.float32)
    return numbers.astype(form).view(np.uint8)


def _loads(form: Form, count: int, name: str, pointer: str) -> list[str]:
    size = form.width // 8
    lines = [f"mad.wide.u32 %rd2, %r0, {size * count}, {pointer};"]
    return lines + [f"ld.global.b{form.width} %{name}{k}, [%rd2+{size * k}];" for k in range(count)]


def _body(form: Form) -> str:
    size = form.width // 8
    na, nb, nc = form.counts
    rows = {name: [f"%{name}{k}" for k in range(n)] for name, n in zip("abc", form.counts, strict=True)}
    operands = ["{" + ", ".join(rows[name]) + "}" for name in "cabc"]
    lines = [f".reg .b{form.width} %a<{na}>, %b<{nb}>, %c<{nc}>; mov.u32 %r0, %tid.x;"]
    for name, count, pointer in (("a", na, "%p0"), ("b", nb, "%p1"), ("c", nc, "%p2")):
        lines += _loads(form, count, name, pointer)
    if form.selector is not None:
        lines.append("mad.wide.u32 %rd2, %r0, 4, %p3; ld.global.b32 %r1, [%rd2];")
        operands += ["%r1", str(form.selector)]
    lines.append(f"{form.mnemonic} {', '.join(operands)};")
    lines.append(f"mad.wide.u32 %rd2, %r0, {size * nc}, %p{3 + (form.selector is not None)};")
    lines += [f"st.global.b{form.width} [%rd2+{size * k}], %c{k};" for k in range(nc)]
    return "\n".join(lines)


def case(form: Form, group: str, *, swapped: bool = False) -> Case:
    """The micro-kernel of a form; `swapped`: the indices of a pair come in either order."""
    seed = sum(map(ord, repr(form)))
    words = [count * LANES * form.width // 32 for count in form.counts]
    kinds = (form.a, form.b, "f64" if form.d == "f64" else form.d)
    inputs = [
        elements(kind, count, seed + k).view(np.uint32)
        for k, (kind, count) in enumerate(zip(kinds, words, strict=True))
    ]
    if form.selector is not None:
        inputs.append(indices(form.a, LANES, seed + 3, swapped=swapped))
    chosen = "" if form.selector is None else f".{form.selector}"
    return Case(
        f"{form.mnemonic}{chosen}", "mma", _body(form), tuple(inputs),
        (filled(words[2], np.uint32),), group=group,
    )  # fmt: skip

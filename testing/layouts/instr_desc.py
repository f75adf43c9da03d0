"""The 32-bit instruction descriptor of tcgen05.mma (PTX ISA, "Instruction descriptor").

Fields and legal shapes as tables, independent of the engine's decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"]

_F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
OPERAND_CODES: dict[Kind, dict[str, int]] = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": _F8F6F4,
    "i8": {"u8": 0, "s8": 1},
    "mxf8f6f4": _F8F6F4,
    "mxf4": {"e2m1": 1},
    "mxf4nvf4": {"e2m1": 1},
}
"""kind -> operand type -> code of bits 7-9 (A) and 10-12 (B)."""

D_CODES = {"f16": 0, "f32": 1, "s32": 2}
D_TYPES: dict[Kind, tuple[str, ...]] = {
    "f16": ("f16", "f32"), "tf32": ("f32",), "f8f6f4": ("f16", "f32"), "i8": ("s32",),
    "mxf8f6f4": ("f32",), "mxf4": ("f32",), "mxf4nvf4": ("f32",),
}  # fmt: skip
BLOCK_SCALED: tuple[Kind, ...] = ("mxf8f6f4", "mxf4", "mxf4nvf4")
NARROW = ("e2m3", "e3m2", "e2m1")
"""Types of 4 and 6 bits: K-major only."""


def container_bits(kind: Kind, element: str) -> int:
    """Width of an element's container in shared memory: 32, 16, 8, or 4 in the mxf4 kinds."""
    if kind in ("mxf4", "mxf4nvf4"):
        return 4
    return {"tf32": 32, "f16": 16, "bf16": 16}.get(element, 8)


def k_of(kind: Kind) -> int:
    """Elements along K in one dense instruction: 32 bytes of a row."""
    return {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32}.get(kind, 64)


@dataclass(frozen=True)
class InstrDescriptor:
    """One MMA's types and shape.

    Attributes:
        kind: `.kind::` of the instruction, which decides what the type codes mean.
        group: 1 or 2 CTAs; `m` counts the rows of both.
        a, b, d: element types.
        mn_major_a, mn_major_b: transpose bits.
        scale_type: "ue8m0" or "ue4m3" in block-scaled kinds.

    Raises:
        ValueError: type or shape is not one of the kind; the message names it.
    """

    kind: Kind
    m: int
    n: int
    a: str
    b: str
    d: str = "f32"
    group: int = 1
    negate_a: bool = False
    negate_b: bool = False
    mn_major_a: bool = False
    mn_major_b: bool = False
    saturate: bool = False
    scale_type: str = "ue8m0"
    sfa_id: int = 0
    sfb_id: int = 0
    k: int = field(init=False)

    def __post_init__(self) -> None:
        """Derive K and refuse what the kind does not have."""
        object.__setattr__(self, "k", k_of(self.kind))
        for name, value in (("a", self.a), ("b", self.b)):
            if value not in OPERAND_CODES[self.kind]:
                raise ValueError(f"{name} = {value!r} is not a type of kind::{self.kind}")
        if self.d not in D_TYPES[self.kind]:
            raise ValueError(f"d = {self.d!r} is not an accumulator of kind::{self.kind}")
        if self.kind == "f16" and (self.a != self.b or (self.d == "f16" and self.a == "bf16")):
            raise ValueError(f"kind::f16 has no {self.a} x {self.b} -> {self.d}")
        if self.m not in self.legal_m():
            raise ValueError(f"M = {self.m}; cta_group::{self.group} allows {self.legal_m()}")
        if self.n not in self.legal_n():
            raise ValueError(f"N = {self.n} is not in {self.legal_n()}")
        self._check_flags()

    def _check_flags(self) -> None:
        if self.kind == "i8" and (self.negate_a or self.negate_b):
            raise ValueError("kind::i8 cannot negate its operands")
        if self.saturate and self.kind != "i8":
            raise ValueError("saturation belongs to kind::i8")
        for element, mn_major in ((self.a, self.mn_major_a), (self.b, self.mn_major_b)):
            if mn_major and (element in NARROW or self.kind in ("mxf4", "mxf4nvf4")):
                raise ValueError(f"{element} operands must be K-major")
        if self.scale_type != "ue8m0" and self.kind != "mxf4nvf4":
            raise ValueError(f"scale_type = {self.scale_type!r} needs kind::mxf4nvf4")
        if self.kind in ("mxf4", "mxf4nvf4") and (self.sfa_id | self.sfb_id) & 1:
            raise ValueError("scale factor ids of mxf4 kinds are 0 or 2")

    def legal_m(self) -> tuple[int, ...]:
        """M values of this kind and cta_group."""
        if self.group == 2:
            return 128, 256
        return (128,) if self.kind in BLOCK_SCALED else (64, 128)

    def legal_n(self) -> tuple[int, ...]:
        """N values of this kind, cta_group and B layout."""
        if self.kind == "i8":
            one_cta = (8, 16, 24, *range(32, 257, 16))
            return tuple(range(32, 257, 32)) if self.group == 2 else one_cta
        byte_wide = container_bits(self.kind, self.b) == 8
        wide = self.mn_major_b and byte_wide and self.kind not in BLOCK_SCALED
        step = 8 * self.group * (2 if wide else 1)
        return tuple(range(step, 257, step))

    def encode(self) -> int:
        """The 32-bit word."""
        codes = OPERAND_CODES[self.kind]
        word = codes[self.a] << 7 | codes[self.b] << 10 | self.n >> 3 << 17
        word |= self.negate_a << 13 | self.negate_b << 14
        word |= self.mn_major_a << 15 | self.mn_major_b << 16
        if self.kind not in BLOCK_SCALED:
            return word | D_CODES[self.d] << 4 | self.saturate << 3 | self.m >> 4 << 24
        word |= self.sfb_id << 4 | self.sfa_id << 29 | (self.scale_type == "ue8m0") << 23
        return word | self.m >> 7 << 27

    @staticmethod
    def decode(word: int, kind: Kind, group: int = 1) -> InstrDescriptor:
        """Read a descriptor of a dense MMA without `.ws`.

        Raises:
            ValueError: a reserved or sparse bit is set, or types and shape do not fit the kind.
        """
        scaled = kind in BLOCK_SCALED
        reserved = 0x8700004F if scaled else 0xE0800047
        if word & reserved:
            raise ValueError(f"instruction descriptor {word:#x}: {word & reserved:#x} must be 0")
        names = {code: name for name, code in OPERAND_CODES[kind].items()}
        try:
            a, b = names[word >> 7 & 7], names[word >> 10 & 7]
            d = "f32" if scaled else {v: k for k, v in D_CODES.items()}[word >> 4 & 3]
        except KeyError as code:
            raise ValueError(f"instruction descriptor {word:#x}: type code {code}") from None
        return InstrDescriptor(
            kind, (word >> 27 & 3) << 7 if scaled else (word >> 24 & 31) << 4,
            (word >> 17 & 63) << 3, a, b, d, group, bool(word >> 13 & 1),
            bool(word >> 14 & 1), bool(word >> 15 & 1),
            bool(word >> 16 & 1), bool(word >> 3 & 1) and not scaled,
            "ue4m3" if scaled and not word >> 23 & 1 else "ue8m0",
            word >> 29 & 3 if scaled else 0, word >> 4 & 3 if scaled else 0,
        )  # fmt: skip

"""PTX fundamental types (PTX ISA, "Fundamental Types")."""

from __future__ import annotations

from dataclasses import dataclass

_BITS = {
    "pred": 1,
    **{f"b{n}": n for n in (8, 16, 32, 64, 128)},
    **{f"u{n}": n for n in (8, 16, 32, 64)},
    **{f"s{n}": n for n in (8, 16, 32, 64)},
    **{f"f{n}": n for n in (16, 32, 64)},
    "f16x2": 32,
    "bf16": 16,
    "bf16x2": 32,
    "e4m3": 8,
    "e5m2": 8,
}


@dataclass(frozen=True, slots=True)
class PtxType:
    """A register or variable type: its name without the dot and its width in bits."""

    name: str
    bits: int

    @property
    def size(self) -> int:
        """Bytes in memory; 0 for predicates, which have none."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """Whether a literal of this type is a floating-point number."""
        return self.name[0] in "fe" or self.name.startswith("bf")


TYPES: dict[str, PtxType] = {name: PtxType(name, bits) for name, bits in _BITS.items()}
"""Every type that a register, variable or parameter can be declared with."""

"""Register slots of a program: byte offsets into a warp's register block.

All functions of a program share one block; each has slots of its own in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..contract.codes import LANES, SLOT_GRAIN

LINE = 64
"""Slots of 32-bit lanes and more begin at multiples of this many bytes."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A slot with the same value in every lane; bits == 1: a predicate."""

    slot: int
    bits: int
    value: int


def slot_bytes(bits: int) -> int:
    """Bytes of a register slot: a word of lanes for a predicate, else 4, 8 or 16 bytes a lane."""
    return SLOT_GRAIN if bits == 1 else LANES * max(bits, 32) // 8


@dataclass
class Slots:
    """Hands out slots.

    Attributes:
        size: bytes handed out so far.
        given: every slot that was handed out, with its bits.
        constants: by value and bits.
        specials: slots that the engine fills at warp start, by name of the special register.
    """

    size: int = 0
    given: list[tuple[int, int]] = field(default_factory=list)
    constants: dict[tuple[int, int], Constant] = field(default_factory=dict)
    specials: dict[str, int] = field(default_factory=dict)
    _scratch: dict[int, int] = field(default_factory=dict)

    def new(self, bits: int) -> int:
        """A slot for values of `bits` bits."""
        size = slot_bytes(bits)
        if size >= 2 * LINE:
            self.align()
        slot = self.size
        self.size += size
        self.given.append((slot, bits))
        return slot

    def align(self) -> int:
        """Begin a new line; answers where it begins."""
        self.size = (self.size + LINE - 1) & ~(LINE - 1)
        return self.size

    def constant(self, value: int, bits: int) -> int:
        """Slot that holds the same `bits`-wide value in every lane (bits == 1: a predicate)."""
        value &= (1 << bits) - 1
        key = (value, max(bits, 32) if bits != 1 else 1)
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = Constant(self.new(key[1]), key[1], value)
        return found.slot

    def special(self, name: str) -> int:
        """32-bit slot that the engine fills at warp start with the named special register."""
        if name not in self.specials:
            self.specials[name] = self.new(32)
        return self.specials[name]

    def scratch(self, bits: int) -> int:
        """A slot that nobody reads."""
        if bits not in self._scratch:
            self._scratch[bits] = self.new(bits)
        return self._scratch[bits]

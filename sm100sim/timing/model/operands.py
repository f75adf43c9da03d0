"""What the operands of SASS say about time: registers that are read, and from which banks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..records import Pipe, SassInstruction

REGISTER: Final = re.compile(r"\bR(\d+)(\.64)?")
WORDS: Final = {"64": 2, "128": 4}
"""Registers of a datum by the width in a modifier."""
PRODUCTS: Final = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
L1_LOADS: Final = ("LD", "LDG", "LDGSTS")
L1_DROPS: Final = ("ST", "STG", "ATOM", "ATOMG", "RED", "REDG")
PAST_L1: Final = frozenset({"GPU", "SYS", "NA", "LU", "BYPASS"})
"""Modifiers of loads that the L1 neither answers nor keeps: `STRONG.GPU` and `.SYS`, no allocation,
last use, and copies to shared memory by `cp.async.cg`. Source: benchmarks/timing/h200_kept.json."""


@dataclass(frozen=True, slots=True)
class Form:
    """All that costs depend on of an instruction: a kernel has few of them.

    Attributes:
        opcode, modifiers, pipe: its own. operands: of products and waits for them; of others none.
        written: registers that it writes. gathered: those that an access of memory reads.
        registers: sources that are registers. banks: registers read of the even and the odd bank.
    """

    opcode: str
    modifiers: tuple[str, ...]
    pipe: Pipe
    operands: tuple[str, ...]
    written: int
    gathered: int
    registers: int
    banks: tuple[int, int]

    @classmethod
    def of(cls, i: SassInstruction, before: SassInstruction | None) -> Form:
        """Return that of an instruction; ``before`` is the one in front of it in the code."""
        named = i.opcode in (*PRODUCTS, "WARPGROUP")
        return cls(
            i.opcode, i.modifiers, i.pipe, tuple(split_operands(i.operands)) if named else (),
            written(i), gathered(i), sum(r is not None for r in sources(i)), bank_reads(i, before),
        )  # fmt: skip

    @property
    def mnemonic(self) -> str:
        """Opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))


def split_operands(text: str) -> list[str]:
    """Return the operands of an instruction; brackets stay together."""
    return [part.strip() for part in text.split(",")] if text else []


def written(instruction: SassInstruction) -> int:
    """Return how many registers an instruction writes, of each of its threads."""
    operands = split_operands(instruction.operands)
    if not operands or not REGISTER.match(operands[0]):
        return 0
    wide = 2 if {"WIDE"} & set(instruction.modifiers) or instruction.pipe is Pipe.FP64 else 1
    return max(wide, *(WORDS.get(m, 1) for m in ("", *instruction.modifiers)))


def l1_use(instruction: SassInstruction) -> str:
    """Return what an instruction does with the L1, of `contract.clock.L1_USES`.

    An invalidation counts for a warp also where its guard is false.
    """
    if instruction.opcode == "CCTL" and "IVALL" in instruction.modifiers:
        return "forget"
    if instruction.opcode in L1_DROPS:
        return "drop"
    through = instruction.opcode in L1_LOADS and not PAST_L1 & set(instruction.modifiers)
    return "load" if through else "past"


def gathered(instruction: SassInstruction) -> int:
    """Return how many registers an access of memory, or a shuffle, reads."""
    operands = split_operands(instruction.operands)
    addresses = [operand for operand in operands if "[" in operand]
    count = sum(2 if wide else 1 for a in addresses for _, wide in REGISTER.findall(a))
    if instruction.opcode == "SHFL":
        return sum(bool(REGISTER.match(operand)) for operand in operands[2:])
    if instruction.opcode in ("STS", "STG", "STL", "ST", "STSM", "RED", "ATOMS", "ATOMG", "REDG"):
        data = [operand for operand in operands if REGISTER.match(operand)]
        width = max((WORDS.get(m, 1) for m in instruction.modifiers), default=1)
        count += width * len(data)
    return count


def bank_reads(instruction: SassInstruction, before: SassInstruction | None) -> tuple[int, int]:
    """Return how many registers are read from the even bank and from the odd one, one a cycle each.

    What the instruction before kept in the reuse cache, for the same operand, is not read again.
    Source: cicuvc/nvidia-sass-document, notes/sm90/arch/register_bandwidth.
    """
    kept = sources(before) if before is not None else []
    reads: list[set[int]] = [set(), set()]
    for place, register in enumerate(sources(instruction)):
        cached = (
            before is not None
            and before.reuse >> place & 1
            and place < len(kept)
            and kept[place] == register
        )
        if register is not None and not cached:
            reads[register % 2].add(register)
    return len(reads[0]), len(reads[1])


def sources(instruction: SassInstruction) -> list[int | None]:
    """Return the registers of the source operands, None where one is something else."""
    found: list[int | None] = []
    for operand in split_operands(instruction.operands)[1:]:
        match = REGISTER.search(operand)
        found.append(int(match[1]) if match else None)
    return found

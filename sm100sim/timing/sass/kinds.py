"""What in PTX answers to what in machine code.

ptxas keeps the order of what other threads or units can see: barriers, MMAs, copies, but for
`EXCHANGED`. Those are anchors. Other memory accesses may move; they are found again by their line.
"""

from __future__ import annotations

from ..records import SassInstruction

ANCHORS = {
    "MBAR_ARRIVE": "arrive",
    "MBAR_TX": "arrive",
    "CP_ARRIVE": "arrive",
    "MBAR_WAIT": "wait",
    "NAMED_BARRIER": "bar",
    "CLUSTER_ARRIVE": "cluster arrive",
    "CLUSTER_WAIT": "cluster wait",
    "SETMAXNREG": "registers",
    "TMA_LOAD": "tensor load",
    "TMA_STORE": "tensor store",
    "BULK_COPY": "bulk copy",
    "BULK_STORE": "bulk copy",
    "BULK_COMMIT": "bulk commit",
    "WGMMA": "wgmma",
    "WGMMA_WAIT": "wait for wgmma",
    "MMA": "mma",
    "MMA_COMMIT": "mma commit",
    "TMEM_CP": "tmem copy",
    "TRY_CANCEL": "cancel",
}
"""Engine operation -> kind of anchor."""

_OPCODES = {
    "BAR": "bar",
    "UCGABAR_ARV": "cluster arrive",
    "UCGABAR_WAIT": "cluster wait",
    "USETMAXREG": "registers",
    "UTMALDG": "tensor load",
    "UTMASTG": "tensor store",
    "UTMAREDG": "tensor store",
    "UBLKCP": "bulk copy",
    "UBLKRED": "bulk copy",
    "UTMACMDFLUSH": "bulk commit",
    "HGMMA": "wgmma",
    "IGMMA": "wgmma",
    "QGMMA": "wgmma",
    "UTCHMMA": "mma",
    "UTCIMMA": "mma",
    "UTCQMMA": "mma",
    "UTCOMMA": "mma",
    "UTCBAR": "mma commit",
    "UTCCP": "tmem copy",
    "UGETNEXTWORKID": "cancel",
    "ARRIVES": "arrive",
}

ADDED = ("wait for wgmma",)
"""Kinds that ptxas adds to those of the PTX."""
EXCHANGED = ("mma commit", "bulk commit")
"""Kinds that ptxas may exchange: what the first signals and what the second groups is apart."""
LINES_LOST = ("wgmma",)
"""Beginnings of kinds whose instructions have lines of neighbours; their size is in the kind."""

ACCESSES = {
    "MBAR_INIT": ("SYNCS", "STS"),
    "LD": ("LD", "LDG", "LDS", "LDL", "LDGMC"),
    "ST": ("ST", "STG", "STS", "STL"),
    "ATOMIC": ("ATOM", "ATOMG", "ATOMS", "RED", "REDG"),
    "ATOMIC_B128": ("ATOM", "ATOMG", "ATOMS"),
    "LDMATRIX": ("LDSM",),
    "STMATRIX": ("STSM",),
    "ST_ASYNC": ("STAS",),
    "RED_ASYNC": ("REDAS",),
    "CP_ASYNC": ("LDGSTS",),
    "CP_COMMIT": ("LDGDEPBAR",),
    "CP_WAIT": ("DEPBAR",),
    "BULK_WAIT": ("DEPBAR",),
    "TMEM_LD": ("LDTM",),
    "TMEM_ST": ("STTM",),
}
"""Engine operation that may move -> opcodes that it becomes."""


def anchor_kind(instruction: SassInstruction, before: SassInstruction | None) -> str | None:
    """Return the kind of anchor that an instruction is, or None.

    A wait is tried once; what follows a NANOSLEEP tries it again in vain or is not executed.
    """
    modifiers = instruction.modifiers
    if instruction.opcode == "SYNCS":
        if "PHASECHK" in modifiers:
            again = before is not None and before.opcode == "NANOSLEEP"
            return None if again and instruction.guard else "wait"
        return "arrive" if "ARRIVE" in modifiers else None
    if instruction.opcode == "WARPGROUP":
        return "wait for wgmma" if "DEPBAR" in modifiers else None
    kind = _OPCODES.get(instruction.opcode)
    if kind == "wgmma":
        return f"wgmma n{modifiers[0].split('x')[1]}"
    if kind == "registers":
        return f"registers {int(instruction.operands.split()[-1], 16)}"
    return kind


def conditional(instruction: SassInstruction) -> bool:
    """Whether a branch may also go on with the next instruction."""
    if instruction.guarded:
        return True
    if instruction.opcode != "BRA":
        return False
    return "DIV" in instruction.modifiers or instruction.operands.startswith(
        ("UP", "!UP", "P", "!P")
    )


def successors(code: tuple[SassInstruction, ...], index: int) -> tuple[int, ...]:
    """Return what may follow an instruction, what is not jumped to first; the count is the end."""
    instruction, end = code[index], len(code)
    following = (index + 1,)
    if instruction.opcode in ("EXIT", "KILL", "RET"):
        return (*following, end) if conditional(instruction) else (end,)
    if instruction.opcode == "BRX":
        return tuple(dict.fromkeys(instruction.targets)) or (end,)
    if instruction.opcode in ("BRA", "JMP"):
        return (
            (*following, *instruction.targets) if conditional(instruction) else instruction.targets
        )
    return following

"""Whether the clusters of a launch may talk to one another through global memory.

A look at the instructions of a kernel. An error costs time only: what it takes for silent is
watched when it runs (`engine/machine/share.h`), and what it takes for talk runs in one thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ..ptx.program import Instr, Symbol

_OPCODES = frozenset({"call", "ld", "st", "atom", "red", "cp", "clusterlaunchcontrol", "multimem"})
_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
_NEAR = frozenset({"cta", "cluster"})
_OWN_SPACES = ("shared", "local", "param", "const")


class Talk(Enum):
    """How clusters may depend on one another."""

    NEVER = "never"
    """Only by accident: each reads what the launch found and what it wrote itself."""
    ORDER = "order"
    """By the order in which they add to, or take from, the same place."""
    WAITS = "waits"
    """One may read what another one tells it, and wait for that."""


def _is_global(mods: Iterable[str]) -> bool:
    """Whether an access may be to global memory: `.global`, or a generic address."""
    return not any(mod.split("::")[0] in _OWN_SPACES for mod in mods)


def _talk(ins: Instr) -> Talk:
    if ins.opcode not in _OPCODES:
        return Talk.NEVER
    mods = frozenset(ins.mods)
    if ins.opcode in ("ld", "st") and mods & _STRONG and not mods & _NEAR and _is_global(mods):
        return Talk.WAITS
    if ins.opcode == "atom" and _is_global(mods):
        return Talk.WAITS
    if ins.opcode == "red" and _is_global(mods):
        return Talk.ORDER
    if ins.opcode == "cp" and "reduce" in mods and "global" in mods:
        return Talk.ORDER
    if ins.opcode == "call":
        return Talk.ORDER if _asks_the_heap(ins) else Talk.NEVER
    return Talk.ORDER if ins.opcode in ("clusterlaunchcontrol", "multimem") else Talk.NEVER


def _asks_the_heap(ins: Instr) -> bool:
    """Whether it is one that gets another address when others have asked before."""
    callee = ins.call.callee if ins.call else None
    return isinstance(callee, Symbol) and callee.name in ("malloc", "free")


def talk_of(body: Iterable[Instr]) -> Talk:
    """The most that an instruction of a kernel may do of it."""
    found = {_talk(ins) for ins in body}
    return next((kind for kind in (Talk.WAITS, Talk.ORDER) if kind in found), Talk.NEVER)

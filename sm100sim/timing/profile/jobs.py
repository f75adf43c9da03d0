"""What the warps of a role do, told by counted operations only.

Nothing is known of a kernel's purpose. What a role executes of the operations of `KINDS`, over what
all warps execute of them, says what it is there for, in any kernel: one warp that issues all MMAs,
warps that compute on MUFU, warps that only move Tensor Memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ..records import Action, Pipe, SassInstruction
from .detail import Detail, Floats

MMAS: Final = "MMAs"
EVENTS: Final[Mapping[str, frozenset[Action]]] = {
    MMAS: frozenset({Action.MMA, Action.WGMMA}),
    "TMA loads": frozenset({Action.COPY_LOAD}),
    "TMEM loads": frozenset({Action.TMEM_LOAD}),
    "TMEM stores": frozenset({Action.TMEM_STORE}),
    "TMA stores": frozenset({Action.COPY_STORE}),
}
"""Kind of operation -> the events that are one."""
OPCODES: Final[Mapping[str, frozenset[str]]] = {
    MMAS: frozenset({"HMMA", "IMMA", "QMMA", "OMMA", "DMMA"}),
    "global stores": frozenset({"STG", "RED", "REDG", "ATOMG"}),
    "global loads": frozenset({"LDG", "LDGSTS"}),
    "shared memory": frozenset({"LDS", "LDSM", "STS", "STSM"}),
}
"""Kind of operation -> the opcodes that are one."""
MUFU: Final = "MUFU"
KINDS: Final = (
    MMAS, "TMA loads", MUFU, "TMEM loads", "TMEM stores", "TMA stores", "global stores",
    "global loads", "shared memory",
)  # fmt: skip
"""Kinds of operations, those that say most about a role first."""
TMEM: Final = frozenset({"TMEM loads", "TMEM stores"})
DOES: Final = 0.1
"""Part of a kernel's operations of a kind from which a role is said to do them."""
IDLE: Final = 0.05
"""Instructions of a warp, over those of the busiest role's, below which it is idle."""
IDLE_JOB: Final = "idle"
OTHER_JOB: Final = "other work"


def operations_of(detail: Detail) -> Floats:
    """Return executed operations by warp and kind, in the order of `KINDS`."""
    warps = len(detail.first) - 1
    return np.stack(
        [np.bincount(detail.warp[_of_kind(detail, kind)], minlength=warps) for kind in KINDS], 1
    ).astype(np.float64)


def _of_kind(detail: Detail, kind: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each step is an operation of a kind."""
    by_code = np.array([_is(kind, one) for one in detail.instructions], np.bool_)[detail.op]
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        by_code | detail.does(EVENTS.get(kind, frozenset()))
    )
    return found


def _is(kind: str, instruction: SassInstruction) -> bool:
    if kind == MUFU:
        return instruction.pipe is Pipe.MUFU
    return instruction.opcode in OPCODES.get(kind, ())


def parts_of(counts: Floats, members: list[int]) -> dict[str, float]:
    """Return a role's part of all operations of each kind that it executes any of."""
    whole, mine = counts.sum(axis=0), counts[members].sum(axis=0)
    return {kind: float(mine[k] / whole[k]) for k, kind in enumerate(KINDS) if mine[k]}


def jobs_of(parts: Mapping[str, float], instructions: float) -> tuple[str, ...]:
    """Return what a role does, the most telling first; never empty.

    Args:
        parts: of all operations of each kind.
        instructions: of a warp, over those of a warp of the busiest role.
    """
    done = tuple(kind for kind in KINDS if parts.get(kind, 0) >= DOES)
    return done or ((IDLE_JOB,) if instructions < IDLE else (OTHER_JOB,))


def main_job(jobs: tuple[str, ...]) -> str:
    """Return the one by which roles of two kernels are held against each other."""
    return "TMEM" if jobs[0] in TMEM else jobs[0]

"""What the parts of the timing model hand one another: machine code, and what warps did with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from ..contract.clock import PIECES

Indices = npt.NDArray[np.int32]

SECTOR_BYTES: Final = 32
"""Bytes of global memory that come and go together."""


class Pipe(Enum):
    """The unit that an instruction occupies; what a unit is on a chip is that chip's data."""

    ALU = auto()
    FMA_LITE = auto()
    FMA_HEAVY = auto()
    FMA_PACKED = auto()
    FP64 = auto()
    MUFU = auto()
    UNIFORM = auto()
    LSU = auto()
    TENSOR = auto()
    TMEM = auto()
    TMA = auto()
    BARRIER = auto()
    CONTROL = auto()


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One instruction of 128 bits.

    Attributes:
        index: place in `SassKernel.instructions`; address: bytes from the kernel's start.
        opcode, modifiers, operands: "MUFU", ("EX2",), "R4, R5".
        guard: "" or its predicate, e.g. "!P0", "UP1".
        stall: cycles until its warp may issue again. yields: prefers another warp.
        write_barrier, read_barrier: scoreboard (0-5) that results, or reads of operands, release.
        wait_mask: scoreboards that must be free, a bit each.
        reuse: operands kept in the reuse cache, a bit each.
        pipe: the unit.
        targets: indices of the instructions that a branch or call goes to, several by a table.
        ptx_line: line of the PTX text that it comes from; None where the compiler says none.
    """

    index: int
    address: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: str
    guard: str
    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int
    pipe: Pipe
    targets: tuple[int, ...] = ()
    ptx_line: int | None = None

    @property
    def mnemonic(self) -> str:
        """Opcode with its modifiers, e.g. "MUFU.EX2"."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def guarded(self) -> bool:
        """Whether it may do nothing: under a predicate that is not always true."""
        return self.guard not in ("", "PT")

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.mnemonic} {self.operands}".rstrip()


@dataclass(frozen=True, eq=False)
class SassKernel:
    """The machine code of a kernel.

    Attributes:
        arch: e.g. "sm_90a". registers: of a thread, at entry. compiler: ptxas' version.
        text: the section's bytes.
    """

    name: str
    arch: str
    registers: int
    compiler: str
    instructions: tuple[SassInstruction, ...]
    text: bytes


class Action(Enum):
    """What an execution of an instruction did that time depends on.

    MBARRIER_ARRIVE: `count` arrivals at each object; they may expect `size` bytes as well.
    WGMMA_COMMIT, WGMMA_WAIT: a group ends; all but the last `count` groups are waited for.
    MMA_COMMIT: the objects hear when the MMAs so far are done.
    BULK_COMMIT, BULK_WAIT: groups of copies. NAMED_BARRIER, NAMED_ARRIVE: object and `count`
    threads. CLUSTER_ARRIVE, CLUSTER_WAIT: the hardware barrier of a cluster.
    CP_ASYNC, CP_COMMIT, CP_WAIT: copies of lanes, their groups, and the wait for all but the last
    `count`. REGISTERS: setmaxnreg to `count`.
    """

    MBARRIER_INIT = auto()
    MBARRIER_ARRIVE = auto()
    MBARRIER_WAIT = auto()
    MMA = auto()
    MMA_COMMIT = auto()
    WGMMA = auto()
    WGMMA_COMMIT = auto()
    WGMMA_WAIT = auto()
    COPY_LOAD = auto()
    COPY_STORE = auto()
    CP_ASYNC = auto()
    CP_COMMIT = auto()
    CP_WAIT = auto()
    BULK_COMMIT = auto()
    BULK_WAIT = auto()
    TMEM_LOAD = auto()
    TMEM_STORE = auto()
    TMEM_COPY = auto()
    SHARED = auto()
    GLOBAL = auto()
    LOCAL = auto()
    NAMED_BARRIER = auto()
    NAMED_ARRIVE = auto()
    CLUSTER_ARRIVE = auto()
    CLUSTER_WAIT = auto()
    REGISTERS = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """Something in the shared memory of a CTA of the cluster: a barrier's offset, or its number."""

    rank: int
    offset: int


@dataclass(frozen=True, slots=True)
class DynamicEvent:
    """What one execution of an instruction did.

    Attributes:
        lanes: that took part, a bit each.
        objects: barriers that it waits for, arrives at or, of copies and commits, completes on.
        phase: of a wait: how many phases of the barrier must have ended, from its start on.
        count: see `Action`.
        size: bytes; of a copy: those that each target gets.
        wavefronts: passes of the shared memory's 128 bytes.
        sectors: 32-byte pieces of global memory. pieces: which, counted from address 0; of copies
            by boxes none.
        shape: MBARRIER_INIT: arrivals that end a phase, of each object; MMA: (M, N, K) and the bits
            of an element of A; copies: rows of a box and bytes of a row; Tensor Memory: lanes and
            columns of 32 bits.
        address: of the first byte in global memory; in Tensor Memory lane << 16 | column, of an
            MMA that of D.
        span: of a box: bytes from its first to its last in global memory; 0: not known.
        detail: what else distinguishes it, e.g. ("a_registers",), ("pair",), ("multicast",);
            of an atomic operation whose result is asked for "answered".
        fresh: share of the bytes that come from memory, or go there, and not only to the L2.
        sharers: how often what is read is asked for in the launch.
        late: of what is loaded, by how many deviations memory answers the last of its chunks later
            than it does on average.
    """

    kind: Action
    lanes: int
    objects: tuple[Place, ...] = ()
    phase: int = 0
    count: int = 0
    size: int = 0
    wavefronts: int = 0
    sectors: int = 0
    pieces: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    address: int = 0
    span: int = 0
    detail: tuple[str, ...] = ()
    fresh: float = 0
    sharers: float = 1
    late: float = 0


def atomic(event: DynamicEvent) -> bool:
    """Whether lanes read and write global memory in one operation, and hear what was there."""
    return event.kind is Action.GLOBAL and "answered" in event.detail


@dataclass(frozen=True, eq=False)
class WarpStream:
    """What a warp executed.

    Attributes:
        rank, warp: of the CTA in its cluster, of the warp in its CTA.
        order: indices of instructions, one after the other.
        event: of equal length: index in `ClusterTrace.events`, or -1.
    """

    rank: int
    warp: int
    order: Indices
    event: Indices

    def __post_init__(self) -> None:
        if self.order.shape != self.event.shape or self.order.ndim != 1:
            raise ValueError(
                f"event: {self.event.shape} entries for an order of {self.order.shape}"
            )


@dataclass(frozen=True, eq=False)
class ClusterTrace:
    """What the warps of one cluster executed.

    Attributes:
        clusters: indices of those that did the same.
        events: distinct ones, to which the streams point.
        lines: instruction -> PTX line of the barrier, MMA or copy that it is, where the run knows
            it; the compiler may name another one.
        shared_bytes: of a CTA, as the launch's; 0: not known, and then it has no L1.
        common: lines of global memory, of 128 bytes, that lanes of other clusters touch as well.
    """

    kernel: SassKernel
    clusters: tuple[int, ...]
    streams: tuple[WarpStream, ...]
    events: tuple[DynamicEvent, ...]
    lines: Mapping[int, int] = field(default_factory=dict)
    shared_bytes: int = 0
    common: frozenset[int] = frozenset()

    @property
    def instructions(self) -> int:
        """Executed warp instructions."""
        return sum(len(stream.order) for stream in self.streams)

    @property
    def touched(self) -> frozenset[int]:
        """Lines of global memory, of 128 bytes, that its lanes touch."""
        return frozenset(piece // PIECES for event in self.events for piece in event.pieces)


@dataclass(frozen=True, slots=True)
class Extent:
    """What a tensor map describes: first address, bytes up to the last one, bytes of elements."""

    address: int
    reach: int
    size: int


@dataclass(frozen=True, eq=False)
class LaunchTrace:
    """A launch: distinct clusters, each with those that it stands for.

    Attributes:
        grid, block, cluster: CTAs, threads of a CTA, CTAs of a cluster.
        shared_bytes: of a CTA, static, dynamic, and what the runtime keeps.
        tensors: in the order of addresses: of the tensor maps among the launch's parameters, and
            those that a caller knows besides.
        taken: clusters of the grid that never began, for others took them over.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    traces: tuple[ClusterTrace, ...]
    tensors: tuple[Extent, ...] = ()
    taken: int = 0

    @property
    def begun(self) -> int:
        """Clusters of the grid that begin."""
        return prod(self.grid) // prod(self.cluster) - self.taken

"""What the warps of chosen clusters execute: branches, and what time depends on, with operands.

    with recording([0]) as launches:
        kernel(...)                       # any launches, of any front end
    launches[0].steps                     # records of contract.records.RawStep

A recorded launch runs in one thread. Nothing is recorded, and nothing slower, outside of the block.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from ..contract import forms
from ..contract.codes import NONE32, ClusterPlan, Space
from ..contract.records import U8, U32, RawRecording, RawStep, SlotWidth
from ..engine.binding import opcode_numbers
from ..isa.assemble import Assembled
from ..launch_request import LaunchRequest
from ..options import Ambient, whole_number

RAW_STEP = np.dtype(RawStep)
"""`RawStep` as records of an array."""

Widths = tuple[tuple[int, str | int], ...]
"""Sources whose values are kept: (which one, its bits or the field of the form that says them)."""

_ACCESS: Widths = ((0, "address_bits"),)
KEPT: dict[str, tuple[type[forms.Form] | None, Widths]] = {
    "MBAR_INIT": (forms.Mbarrier, ((0, "address_bits"), (1, 32))),
    "MBAR_ARRIVE": (forms.Mbarrier, ((0, "address_bits"), (1, 32), (2, 32))),
    "MBAR_TX": (forms.Mbarrier, ((0, "address_bits"), (1, 32))),
    "MBAR_WAIT": (forms.Mbarrier, _ACCESS),
    "CP_ARRIVE": (forms.Mbarrier, _ACCESS),
    "NAMED_BARRIER": (forms.Barrier, ((0, 32), (1, "counted"))),
    "CLUSTER_ARRIVE": (None, ()),
    "CLUSTER_WAIT": (None, ()),
    "SETMAXNREG": (None, ()),
    "TMA_LOAD": (forms.Tensor, ((0, "address_bits"), (2, "bar_bits"), (3, 32))),
    "TMA_STORE": (forms.Tensor, _ACCESS),
    "BULK_COPY": (
        forms.Bulk, ((0, "address_bits"), (1, "source_bits"), (2, "bar_bits"), (3, 32), (4, 32)),
    ),
    "BULK_STORE": (forms.Bulk, ((0, "address_bits"), (1, "source_bits"), (2, 32))),
    "BULK_COMMIT": (None, ()),
    "BULK_WAIT": (None, ()),
    "CP_ASYNC": (forms.Copy, ((0, "address_bits"), (1, "source_bits"))),
    "CP_COMMIT": (None, ()),
    "CP_WAIT": (None, ()),
    "WGMMA": (None, ()),
    "WGMMA_FENCE": (None, ()),
    "WGMMA_COMMIT": (None, ()),
    "WGMMA_WAIT": (None, ()),
    "MMA": (None, ((0, 32), (3, 32))),
    "MMA_SYNC": (None, ()),
    "MMA_COMMIT": (forms.Tmem, ((0, "address_bits"), (1, "multicast"))),
    "TMEM_LD": (None, ((0, 32),)),
    "TMEM_ST": (None, ((0, 32),)),
    "TMEM_CP": (None, ()),
    "TMEM_WAIT": (None, ()),
    "TMEM_ALLOC": (None, ()),
    "TMEM_DEALLOC": (None, ()),
    "TRY_CANCEL": (forms.Cancel, ((1, "bar_bits"),)),
    "LD": (forms.Memory, _ACCESS),
    "ST": (forms.Memory, _ACCESS),
    "ATOMIC": (forms.Atomic, _ACCESS),
    "ATOMIC_B128": (forms.Atomic, _ACCESS),
    "LDMATRIX": (forms.Matrix, _ACCESS),
    "STMATRIX": (forms.Matrix, _ACCESS),
    "ST_ASYNC": (forms.Remote, ((0, "address_bits"), (1, "bar_bits"))),
    "RED_ASYNC": (forms.Remote, ((0, "address_bits"), (1, "bar_bits"))),
}  # fmt: skip
"""Engine operations that are recorded: the form of each, and the sources that are kept."""

CONTROL = ("BRA", "BRX", "EXIT", "CALL", "RET")
"""Those that only choose the way."""


@dataclass(frozen=True)
class Recording:
    """What was recorded of a launch.

    Attributes:
        request: what was launched.
        assembled: its program.
        steps: RAW_STEP records in the order of execution, of all recorded clusters.
        values: of the registers that were kept, where `steps["value"]` says.
        taken: clusters that never began, for others took them over, where that was `abreast`.
    """

    request: LaunchRequest
    assembled: Assembled
    steps: npt.NDArray[np.void]
    values: npt.NDArray[np.uint64]
    taken: int = 0


@dataclass(frozen=True)
class Recorder:
    """Which clusters of the launches to come are recorded, and what was.

    Attributes:
        clusters: their indices, or None for all. others: whether the others run.
        abreast: who takes over clusters (`recording`). launches: what was recorded.
    """

    clusters: frozenset[int] | None
    others: bool
    abreast: bool = False
    launches: list[Recording] = field(default_factory=list)

    def plan(self, count: int) -> npt.NDArray[np.uint8]:
        """A `ClusterPlan` for each of `count` clusters."""
        plan = np.full(count, ClusterPlan.RUN if self.others else ClusterPlan.LEFT_OUT, np.uint8)
        chosen = range(count) if self.clusters is None else self.clusters
        plan[[index for index in chosen if index < count]] = ClusterPlan.RECORDED
        return plan


recorder: Ambient[Recorder | None] = Ambient("sm100sim_recorder", None)


@contextmanager
def recording(
    clusters: Iterable[int] | None = None,
    *,
    others: bool = True,
    everywhere: bool = False,
    abreast: bool = False,
) -> Iterator[Sequence[Recording]]:
    """Record the launches inside the block; yields what was recorded, one entry a launch.

    Args:
        clusters: indices of those to record, None for all; launches may have fewer.
        others: whether the other clusters run, without which results are incomplete.
        everywhere: those of other threads too, unless they record themselves.
        abreast: where clusters take over others (`clusterlaunchcontrol.try_cancel`), as many do as
            a chip holds at once, there and back in turn: who has the first of a round gets the last
            of the next. Else clusters run one after the other, so the first takes over all.

    Raises:
        ValueError: an index is negative.
        TypeError: the clusters are no sequence of whole numbers.
    """
    chosen = _chosen(clusters)
    if chosen and min(chosen) < 0:
        raise ValueError(f"clusters: {min(chosen)} is negative; indices begin at 0")
    mine = Recorder(chosen, others, abreast)
    with recorder.put(mine, everywhere):
        yield mine.launches


def _chosen(clusters: object) -> frozenset[int] | None:
    if clusters is None:
        return None
    if isinstance(clusters, str):
        raise TypeError(f"clusters: {clusters!r} is no sequence; None takes all")
    if not isinstance(clusters, Iterable):
        raise TypeError(f"clusters: {clusters!r} is no sequence; give e.g. range(4)")
    return frozenset(whole_number("clusters", index, "; give e.g. range(4)") for index in clusters)


def _leaders(assembled: Assembled) -> set[int]:
    """Instructions at which a way may begin: targets, and what follows a branch."""
    code = assembled.code
    names = {opcode_numbers()[name] for name in CONTROL}
    ends = [k for k, op in enumerate(code["op"].tolist()) if op in names]
    targets = chain(code["target"].tolist(), assembled.tables.tolist())
    return {0, *(k + 1 for k in ends), *(t for t in targets if t != NONE32)}


def kept_sources(assembled: Assembled, index: int, name: str) -> list[tuple[int, int]]:
    """The sources of an instruction whose values are kept, and their bits, in the order of values.

    Args:
        assembled: the program. index: of the instruction. name: its operation, of `KEPT`.
    """
    of, widths = KEPT[name]
    row = assembled.code[index]
    modifiers = of.from_buffer_copy(row["form"].tobytes()) if of else None
    found = []
    for which, width in widths:
        bits = width if isinstance(width, int) else int(getattr(modifiers, width))
        if isinstance(width, str) and not width.endswith("_bits"):
            bits *= 32  # a flag: the operand is there
        if bits and which < row["n_sources"]:
            found.append((which, bits))
    return found


def reads_parameter(assembled: Assembled, index: int, name: str) -> bool:
    """Whether an instruction loads a parameter, which is a constant in machine code."""
    if name != "LD":
        return False
    words = forms.Memory.from_buffer_copy(assembled.code["form"][index].tobytes())
    return bool(words.space == Space.PARAM)


class Arrays:
    """What the engine is given of a recording; it must live as long as the machine."""

    def __init__(
        self, assembled: Assembled, plan: npt.NDArray[np.uint8], *, abreast: bool = False
    ) -> None:
        """Args: the program; a `ClusterPlan` per cluster; who takes over others (`recording`)."""
        names = {number: name for name, number in opcode_numbers().items()}
        count = len(assembled.code)
        self._plan = plan
        self._taken = np.zeros(len(plan), np.uint8)
        self._kept = np.zeros(count + 1, np.uint8)
        self._kept[[k for k in _leaders(assembled) if k < count]] = 1
        self._first = np.zeros(count + 1, np.uint32)
        slots: list[tuple[int, int]] = []
        for index, number in enumerate(assembled.code["op"].tolist()):
            name = names[number]
            if name in CONTROL:
                self._kept[index] = 1
            elif name in KEPT and not reads_parameter(assembled, index, name):
                self._kept[index] = 1
                row = assembled.code[index]
                first = int(row["first_operand"]) + int(row["n_destinations"])
                slots += [
                    (int(assembled.operands[first + which]), bits)
                    for which, bits in kept_sources(assembled, index, name)
                ]
            self._first[index + 1] = len(slots)
        self._slots = (SlotWidth * max(len(slots), 1))(*(SlotWidth(*pair) for pair in slots))
        self.raw = RawRecording(
            clusters=self._plan.ctypes.data_as(ct.POINTER(U8)),
            kept=self._kept.ctypes.data_as(ct.POINTER(U8)),
            first=self._first.ctypes.data_as(ct.POINTER(U32)),
            slots=self._slots,
            out_taken=self._taken.ctypes.data_as(ct.POINTER(U8)) if abreast else None,
        )

    @property
    def taken(self) -> int:
        """Clusters that others took over."""
        return int(np.count_nonzero(self._taken))

"""What a step of a recording means for time: `DynamicEvent`s."""

from __future__ import annotations

import ctypes as ct
from functools import cache
from math import prod

from ...contract import forms
from ...contract.codes import (
    CP_SHAPES,
    LD_SHAPES,
    WGMMA_ELEMENTS,
    ArriveFlag,
    BarrierKind,
    MmaFlag,
    WgmmaFlag,
)
from ...contract.records import InstrDesc
from ...crew.recording import KEPT, Recording, kept_sources
from ...engine.binding import load_engine
from ..records import Action, DynamicEvent, Place
from .steps import LOW, Meaning, Step
from .transfers import access, bulk, cancel, lane_copies, tensor

OPERAND_BITS = 256
"""Bits of K that one MMA takes of each row of A."""
WGMMA_ROWS = 64
WGMMA_BITS = {"f16": 16, "bf16": 16, "tf32": 32}
"""Bits of elements of A; those that are not named have 8."""
ROW_LANES = {"32x32b": 32}
"""Lanes of Tensor Memory that a warp's access reaches; 16 for the shapes that are not named."""


class Events:
    """Events of the steps of a recording."""

    def __init__(self, recording: Recording, names: list[str]) -> None:
        """`names`: operation of each instruction."""
        self._recording, self._names = recording, names
        self._code = recording.assembled.code
        self._cluster_size = prod(recording.request.cluster)
        self._sources = cache(self._sources_of)

    def _sources_of(self, index: int) -> list[tuple[int, int]]:
        return kept_sources(self._recording.assembled, index, self._names[index])

    def event(self, number: int) -> DynamicEvent:
        """The event of a step, by its index in the recording."""
        step = self._recording.steps[number]
        index = int(step["instruction"])
        row, name = self._code[index], self._names[index]
        lanes = int(step["mask"])
        width, at = lanes.bit_count(), int(step["value"])
        values = {}
        for which, _ in self._sources(index):
            values[which] = self._recording.values[at : at + width]
            at += width
        kind = KEPT[name][0] or _BARE.get(name)
        form = kind.from_buffer_copy(row["form"].tobytes()) if kind else None
        counts = int(row["n_destinations"]), int(row["n_sources"])
        notes = tuple(step["notes"].tolist())
        rank = int(step["rank"])
        imm, size = int(row["imm"]), self._cluster_size
        found = Step(name, form, imm, counts, lanes, rank, notes, values, size)
        return MEANINGS[name](found)


_BARE: dict[str, type[forms.Form]] = {
    "WGMMA": forms.Wgmma, "MMA": forms.Mma, "TMEM_CP": forms.Tmem, "TMEM_LD": forms.TmemAccess,
    "TMEM_ST": forms.TmemAccess, "BULK_WAIT": forms.WaitGroup, "CP_WAIT": forms.WaitGroup,
}  # fmt: skip
"""Forms of operations none of whose fields says how wide an operand is."""


# ---- barriers -----------------------------------------------------------------------------------
def _init(step: Step) -> DynamicEvent:
    counts = tuple(step.sources[1].tolist())
    places = step.place(0)
    return DynamicEvent(Action.MBARRIER_INIT, step.lanes, places, shape=counts[: len(places)])


def _arrive(step: Step) -> DynamicEvent:
    assert isinstance(step.form, forms.Mbarrier)
    places = step.place(0)  # by several lanes: each its own
    expects = step.name == "MBAR_TX" or step.form.flags & ArriveFlag.EXPECT
    size = step.total(1 if step.name == "MBAR_TX" else 2) // len(places) if expects else 0
    count = 0 if step.name == "MBAR_TX" else step.total(1) // len(places)
    return DynamicEvent(Action.MBARRIER_ARRIVE, step.lanes, places, count=count, size=size)


def _copies_arrive(step: Step) -> DynamicEvent:
    return DynamicEvent(
        Action.MBARRIER_ARRIVE, step.lanes, step.place(0), count=step.lanes.bit_count(),
        detail=("cp.async",),
    )  # fmt: skip


def _wait(step: Step) -> DynamicEvent:
    return DynamicEvent(Action.MBARRIER_WAIT, step.lanes, step.place(0), phase=step.notes[0])


def _named(step: Step) -> DynamicEvent:
    assert isinstance(step.form, forms.Barrier)
    arrives = step.form.kind == BarrierKind.ARRIVE
    action = Action.NAMED_ARRIVE if arrives else Action.NAMED_BARRIER
    place = Place(step.rank, step.first(0))
    return DynamicEvent(action, step.lanes, (place,), count=step.first(1))


# ---- groups
def _groups(action: Action) -> Meaning:
    def meaning(step: Step) -> DynamicEvent:
        reads = isinstance(step.form, forms.WaitGroup) and step.form.read
        return DynamicEvent(action, step.lanes, count=step.imm, detail=("read",) if reads else ())

    return meaning


# ---- matrices -----------------------------------------------------------------------------------
def _wgmma(step: Step) -> DynamicEvent:
    form = step.form
    assert isinstance(form, forms.Wgmma)
    bits = WGMMA_BITS.get(WGMMA_ELEMENTS[form.a], 8)
    detail = ("a_registers",) if form.flags & WgmmaFlag.A_REGISTERS else ()
    shape = (WGMMA_ROWS, form.n, OPERAND_BITS // bits, bits)
    return DynamicEvent(Action.WGMMA, step.lanes, shape=shape, detail=detail)


def _mma(step: Step) -> DynamicEvent:
    form = step.form
    assert isinstance(form, forms.Mma)
    group = 2 if form.flags & MmaFlag.PAIR else 1
    found = InstrDesc()
    plain = LOW - 7 if form.flags & MmaFlag.SPARSE else LOW  # without the bits of a sparse A
    load_engine().instr_desc_decode(
        step.first(3) & plain, form.kind, group, bool(form.flags & MmaFlag.STATIONARY),
        ct.byref(found),
    )  # fmt: skip
    names = {"a_tmem": MmaFlag.A_TMEM, "pair": MmaFlag.PAIR, "stationary": MmaFlag.STATIONARY}
    detail = tuple(name for name, flag in names.items() if form.flags & flag)
    shape = (found.m, found.n, found.k, OPERAND_BITS // found.k)
    return DynamicEvent(
        Action.MMA, step.lanes, shape=shape, address=step.first(0) & LOW, detail=detail
    )


def _commit(step: Step) -> DynamicEvent:
    form = step.form
    assert isinstance(form, forms.Tmem)
    places = step.place(0)
    if form.multicast:
        mask, offset = step.first(1), places[0].offset
        places = tuple(Place(r, offset) for r in range(mask.bit_length()) if mask >> r & 1)
    return DynamicEvent(Action.MMA_COMMIT, step.lanes, places, count=form.group)


def _tensor_memory_copy(step: Step) -> DynamicEvent:
    assert isinstance(step.form, forms.Tmem)
    rows, bits = CP_SHAPES[step.form.shape].partition(".")[0].removesuffix("b").split("x")
    return DynamicEvent(Action.TMEM_COPY, step.lanes, shape=(int(rows), int(bits) // 32))


def _tensor_memory(step: Step) -> DynamicEvent:
    assert isinstance(step.form, forms.TmemAccess)
    loads = step.name == "TMEM_LD"
    registers = step.counts[0] if loads else step.counts[1] - 1
    shape = LD_SHAPES[step.form.shape]
    rows = ROW_LANES.get(shape, 16)
    return DynamicEvent(
        Action.TMEM_LOAD if loads else Action.TMEM_STORE, step.lanes,
        shape=(rows, registers * 32 // rows), address=step.first(0) + step.imm,
        detail=(shape, "packed") if step.form.packed else (shape,),
    )  # fmt: skip


MEANINGS: dict[str, Meaning] = {
    "MBAR_INIT": _init,
    "MBAR_ARRIVE": _arrive,
    "MBAR_TX": _arrive,
    "MBAR_WAIT": _wait,
    "CP_ARRIVE": _copies_arrive,
    "NAMED_BARRIER": _named,
    "CLUSTER_ARRIVE": _groups(Action.CLUSTER_ARRIVE),
    "CLUSTER_WAIT": _groups(Action.CLUSTER_WAIT),
    "SETMAXNREG": _groups(Action.REGISTERS),
    "TMA_LOAD": tensor,
    "TMA_STORE": tensor,
    "BULK_COPY": bulk,
    "BULK_STORE": bulk,
    "BULK_COMMIT": _groups(Action.BULK_COMMIT),
    "BULK_WAIT": _groups(Action.BULK_WAIT),
    "CP_ASYNC": lane_copies,
    "CP_COMMIT": _groups(Action.CP_COMMIT),
    "CP_WAIT": _groups(Action.CP_WAIT),
    "WGMMA": _wgmma,
    "WGMMA_WAIT": _groups(Action.WGMMA_WAIT),
    "MMA": _mma,
    "MMA_COMMIT": _commit,
    "TMEM_CP": _tensor_memory_copy,
    "TMEM_LD": _tensor_memory,
    "TMEM_ST": _tensor_memory,
    "TRY_CANCEL": cancel,
} | dict.fromkeys(
    ("LD", "ST", "ATOMIC", "ATOMIC_B128", "LDMATRIX", "STMATRIX", "ST_ASYNC", "RED_ASYNC"), access
)
"""Engine operation -> its event."""

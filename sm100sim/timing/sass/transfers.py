"""Events of copies and of accesses to memory: also how often they pass shared memory, and what they
touch of global memory.

Shared memory serves 32 banks of four bytes a pass. Lanes that move 8 or 16 bytes are served in
halves or quarters of the warp, each at least one pass; lanes that read one word share it (CUDA C++
programming guide, "Shared Memory", and published measurements, docs/sources.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...contract import forms
from ...contract.codes import WINDOW_LOCAL, WINDOW_RANK_SHIFT, WINDOW_SHARED, CopyFlag, Space
from ..records import SECTOR_BYTES, Action, DynamicEvent, Place
from .steps import LOW, Step

BANKS, BANK_BYTES = 32, 4
PASS_BYTES = BANKS * BANK_BYTES
Addresses = npt.NDArray[np.uint64]


def wavefronts(addresses: Addresses, lanes: int, width: int) -> int:
    """Return the passes of one access to shared memory.

    Args:
        addresses: byte addresses of the active lanes.
        lanes: the active lanes, a bit each. width: bytes of a lane.
    """
    each = max(1, min(BANKS, PASS_BYTES // max(width, BANK_BYTES)))
    numbers = np.flatnonzero([lanes >> k & 1 for k in range(BANKS)])
    total = 0
    for group in np.unique(numbers // each):
        first = addresses[numbers // each == group] // BANK_BYTES
        words = np.unique(first[:, None] + np.arange(max(1, width // BANK_BYTES), dtype=np.uint64))
        total += int(np.bincount((words % BANKS).astype(np.int64)).max())
    return total


def pieces(addresses: Addresses, width: int) -> tuple[int, ...]:
    """Return the 32-byte pieces of global memory that lanes touch, each with `width` bytes."""
    first, last = addresses // SECTOR_BYTES, (addresses + np.uint64(width - 1)) // SECTOR_BYTES
    reach = int((last - first).max()) + 1
    spans = first[:, None] + np.arange(reach, dtype=np.uint64)
    return tuple(np.unique(spans[spans <= last[:, None]]).tolist())


# ---- copies -------------------------------------------------------------------------------------
def _targets(step: Step, barrier: int, offset: int, mask: int, flags: int) -> tuple[Place, ...]:
    """Barriers that hear of a copy: in each CTA that it goes to, or in the leader of its pair.

    A copy to one CTA signals there, whichever its operand names: `mbarrier-address` in checking.md.
    """
    (own,) = step.place(barrier, offset)
    if not flags & (CopyFlag.MULTICAST | CopyFlag.PAIR):
        return tuple(Place(to.rank, own.offset) for to in step.place(0))
    if not flags & CopyFlag.MULTICAST:
        return (own,)
    ranks = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
    if flags & CopyFlag.PAIR:
        ranks = [rank & ~1 | own.rank & 1 for rank in ranks]
    return tuple(Place(rank, own.offset) for rank in ranks)


def _copy_details(flags: int) -> tuple[str, ...]:
    names = {"multicast": CopyFlag.MULTICAST, "pair": CopyFlag.PAIR, "reduce": CopyFlag.REDUCE}
    return tuple(name for name, flag in names.items() if flags & flag)


def tensor(step: Step) -> DynamicEvent:
    """A copy of a box of a tensor."""
    form = step.form
    assert isinstance(form, forms.Tensor)
    size, row = step.notes[0] & LOW, step.notes[0] >> 32
    loads = step.name == "TMA_LOAD"
    objects = _targets(step, 2, form.bar_offset, step.first(3), form.flags) if loads else ()
    return DynamicEvent(
        Action.COPY_LOAD if loads else Action.COPY_STORE, step.lanes, objects, size=size,
        shape=(size // row, row), address=step.notes[1], span=step.notes[2],
        detail=_copy_details(form.flags),
    )  # fmt: skip


def bulk(step: Step) -> DynamicEvent:
    """A copy of bytes in a row."""
    form = step.form
    assert isinstance(form, forms.Bulk)
    loads = step.name == "BULK_COPY"
    size = step.first(3 if loads else 2)
    objects = _targets(step, 2, form.bar_offset, step.first(4), form.flags) if loads else ()
    detail = _copy_details(form.flags)
    if loads and not form.flags & CopyFlag.FROM_GLOBAL:
        address, detail = 0, (*detail, "shared")
    else:
        address = step.first(1) + form.source_offset if loads else step.first(0) + step.imm
    action = Action.COPY_LOAD if loads else Action.COPY_STORE
    return DynamicEvent(
        action, step.lanes, objects, size=size, shape=(1, size), address=address, detail=detail
    )


def lane_copies(step: Step) -> DynamicEvent:
    """Copies of single lanes (cp.async)."""
    form = step.form
    assert isinstance(form, forms.Copy)
    from_ = step.sources[1] + np.uint64(form.source_offset % 2**64)
    to = (step.sources[0] + np.uint64(step.imm % 2**64)) & np.uint64(LOW)
    touched = pieces(from_, form.size)
    return DynamicEvent(
        Action.CP_ASYNC, step.lanes, size=form.size * step.lanes.bit_count(),
        wavefronts=wavefronts(to, step.lanes, form.size), sectors=len(touched), pieces=touched,
        address=int(from_.min()),
    )  # fmt: skip


def cancel(step: Step) -> DynamicEvent:
    """The answer to clusterlaunchcontrol.try_cancel, to the asking CTA or all of its cluster.

    Source: PTX ISA, "clusterlaunchcontrol.try_cancel": with `.multicast::cluster::all` each CTA's
    mbarrier at the same offset hears of the 16 bytes that are written to that CTA.
    """
    assert isinstance(step.form, forms.Cancel)
    places = step.place(1, step.form.bar_offset)
    if step.form.everywhere:
        places = tuple(Place(rank, p.offset) for p in places for rank in range(step.cluster_size))
    return DynamicEvent(Action.COPY_LOAD, step.lanes, places, size=16, detail=("cancel",))


# ---- memory -------------------------------------------------------------------------------------
def _space(form: forms.Form, address: int) -> Action:
    """Where a lane's address lies."""
    named = Space(getattr(form, "space", Space.SHARED_CLUSTER))
    if named in (Space.SHARED_CTA, Space.SHARED_CLUSTER):
        return Action.SHARED
    if named in (Space.GLOBAL, Space.LOCAL):
        return Action.GLOBAL if named == Space.GLOBAL else Action.LOCAL
    window = address >> 32
    if window & WINDOW_LOCAL == WINDOW_LOCAL and window >> 26 == 0:
        return Action.LOCAL
    return Action.SHARED if window == WINDOW_SHARED else Action.GLOBAL


def _width(step: Step) -> int:
    """Bytes that a lane moves."""
    form, (out, in_) = step.form, step.counts
    if isinstance(form, forms.Memory):
        return int(form.bytes) * (out if step.name == "LD" else in_ - 1)
    if isinstance(form, forms.Atomic):
        return 16 if step.name == "ATOMIC_B128" else max(1, form.elements) * form.register_bits // 8
    if isinstance(form, forms.Remote):
        return int(form.bytes) * max(1, in_ - 2)
    return 16  # a row of a matrix


def access(step: Step) -> DynamicEvent:
    """A load, store or atomic of lanes."""
    assert step.form is not None
    width, lanes = _width(step), step.lanes
    addresses = step.sources[0] + np.uint64(step.imm % 2**64)
    if isinstance(step.form, forms.Matrix):
        lanes &= (1 << step.form.rows) - 1
        addresses = addresses[: lanes.bit_count()]
    action = _space(step.form, int(addresses[0]))
    size = width * lanes.bit_count()
    name = step.name.lower()
    if action is not Action.SHARED:
        touched = pieces(addresses, width)
        answered = isinstance(step.form, forms.Atomic) and step.counts[0] > 0
        return DynamicEvent(
            action, step.lanes, size=size, sectors=len(touched),
            pieces=touched if action is Action.GLOBAL else (), address=int(addresses.min()),
            detail=(name, "answered") if answered else (name,),
        )  # fmt: skip
    addresses = addresses & np.uint64(LOW)
    rank = int(addresses[0]) >> WINDOW_RANK_SHIFT
    detail = (name,) if rank == step.rank else (name, "remote")
    objects = step.place(1, step.form.bar_offset) if isinstance(step.form, forms.Remote) else ()
    size //= max(len(objects), 1)  # what each barrier hears of
    count = wavefronts(addresses, lanes, width)
    return DynamicEvent(action, step.lanes, objects, size=size, wavefronts=count, detail=detail)

"""What of a launch comes from memory and goes there, where nothing was in the L2 before.

What several CTAs read comes once: of each copy or load of it that share counts which its bytes have
in all that is read of its tensor. Memory answers chunk by chunk, and not all after the same time.
Tensors are those of the launch, `LaunchTrace.tensors`; other accesses are taken to find the L2.
What is written goes to memory once. What a cluster reads again it finds in the L2, but for rows
that a CTA alone loads: they come from memory again as far as the L2 does not keep what all CTAs
load in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Final

import numpy as np

from ..chips import Draw
from ..records import (
    SECTOR_BYTES,
    Action,
    ClusterTrace,
    DynamicEvent,
    Extent,
    LaunchTrace,
    WarpStream,
)

MOVES: Final = (Action.COPY_LOAD, Action.COPY_STORE, Action.CP_ASYNC, Action.GLOBAL)
"""What asks the L2, but for what the L1 answers of it: the machine says how much that is."""
CHUNK_BYTES: Final = 1024
"""An H200's SMs wait for rows of 2 to 32 KB as long as for the last of so many that come each in
its own time, by lanes and by boxes (`benchmarks/timing/sharing/h200_rows.json`, `h200_boxes.json`).
"""
FETCHED_BYTES: Final = 64
"""Come at once: of a chain of loads 32 bytes apart every other one waits for memory, of one with 64
bytes and more each does (same record)."""
STORES: Final = ("st", "red")
"""Accesses of lanes that write, by the beginning of their name."""
Key = tuple[bool, int]
"""Whether it is written, and which tensor."""
Part = int | tuple[int, ...]
"""A piece that lanes fetch, or a box (`_box`)."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of a launch.

    Attributes:
        asked: of all copies, loads and stores, at the L2. read, written: at memory.
        repeated: of loads, what the cluster had loaded before; the L1 answers some of it.
        again: of that, what the L2 has lost. own: of loads of lanes, where no CTA shares the row.
    """

    asked: int
    read: float
    written: float
    repeated: int = 0
    again: float = 0
    own: int = 0

    def read_in_all(self, answered: float) -> float:
        """Bytes that memory reads where the L1 answers so many."""
        passing = max(1 - answered / self.repeated, 0) if self.repeated else 0
        return self.read + self.again * passing


NO_TRAFFIC: Final = Traffic(0, 0, 0)


@dataclass
class _Moved:
    """What clusters move of a tensor, of all clusters, and what one of each trace does.

    Attributes:
        whole: bytes that pass the L1. first: those of each trace's cluster. repeats: bytes that it
            loads again. loaded: bytes of all its loads by lanes.
    """

    whole: Counter[Key]
    first: list[Counter[Key]]
    repeats: list[Counter[Key]]
    loaded: list[Counter[Key]]
    asked: int = 0


def lost(size: float, draw: Draw) -> float:
    """Which share of what was loaded the L2 has lost when so many bytes have come since.

    An H200's SMs load rings of 22 to 52 MB in all again and again, and wait for memory the more
    often the larger they are (`benchmarks/timing/sharing/h200_rows.json`). Where a chip's file does
    not say how large the rings are nothing is lost.
    """
    if "l2_keeps_bytes" not in draw.values:
        return 0.0
    keeps, forgets = draw["l2_keeps_bytes"], draw["l2_forgets_bytes"]
    return min(max((size - keeps) / (forgets - keeps), 0), 1)


def of_launch(
    launch: LaunchTrace, draw: Draw, places: int, *, cold: bool
) -> tuple[LaunchTrace, Traffic]:
    """Return a launch whose copies and loads say how many share them and what is fresh.

    Args:
        launch, draw, places: as of `from_memory`. cold: nothing is in the L2 when it begins; else
            all that it reads is, and memory has nothing to do with it.
    """
    marked, traffic = from_memory(launch, draw, places)
    if cold:
        return marked, traffic
    traces = tuple(
        replace(trace, events=tuple(replace(e, fresh=0.0, late=0.0) for e in trace.events))
        for trace in marked.traces
    )
    return replace(marked, traces=traces), replace(traffic, read=0, written=0, again=0)


def from_memory(launch: LaunchTrace, draw: Draw, places: int) -> tuple[LaunchTrace, Traffic]:
    """Return a launch whose copies and loads say which share is fresh, and its traffic.

    Args:
        launch, draw: the launch, and values of a chip. places: clusters that run at once.
    """
    moved = _moved(launch)
    shares = {key: min(1.0, launch.tensors[key[1]].size / n) for key, n in moved.whole.items()}
    bytes_of = {
        written: sum(shares[key] * size for key, size in moved.whole.items() if key[0] is written)
        for written in (False, True)
    }
    traces, repeated, again, own = [], 0, 0.0, 0
    clusters = zip(launch.traces, moved.first, moved.repeats, moved.loaded, strict=True)
    for trace, first, repeats, loaded in clusters:
        alone = {key for key in first if not key[0] and shares[key] == 1}
        between = places * sum(first[key] for key in alone)
        gone = lost(min(between, sum(launch.tensors[key[1]].size for key in alone)), draw)
        marks = _Marks(launch.tensors, shares, {key[1]: gone for key in alone})
        traces.append(marks.marked(trace))
        count = len(trace.clusters)
        repeated += count * sum(repeats.values())
        again += count * gone * sum(repeats[key] for key in alone)
        own += count * sum(loaded[key] for key in alone)
    traffic = Traffic(moved.asked, bytes_of[False], bytes_of[True], repeated, again, own)
    return replace(launch, traces=tuple(traces)), traffic


def _moved(launch: LaunchTrace) -> _Moved:
    moved = _Moved(Counter(), [], [], [])
    for trace in launch.traces:
        seen: set[Part] = set()
        first, repeats, loaded = Counter[Key](), Counter[Key](), Counter[Key]()
        for event, count in moves(trace):
            moved.asked += moved_bytes(event) * count * len(trace.clusters)
            which = tensor_of(launch.tensors, event)
            if which is not None:
                key = writes(event), which
                size = _passing(event, count, seen)
                first[key] += size
                moved.whole[key] += size * len(trace.clusters)
                if event.pieces:
                    repeats[key] += moved_bytes(event) * count - size
                loaded[key] += moved_bytes(event) * count * _loads(event)
        moved.first.append(first)
        moved.repeats.append(repeats)
        moved.loaded.append(loaded)
    return moved


def writes(event: DynamicEvent) -> bool:
    """Whether an event writes global memory."""
    if event.kind is Action.GLOBAL:
        return bool(event.detail) and event.detail[0].startswith(STORES)
    return event.kind is Action.COPY_STORE


def awaited(event: DynamicEvent) -> bool:
    """Whether something is loaded that comes from memory."""
    return event.fresh > 0 and reads(event)


def awaited_by_lanes(event: DynamicEvent) -> bool:
    """Whether lanes load something that comes from memory."""
    return event.fresh > 0 and _loads(event)


def reads(event: DynamicEvent) -> bool:
    """Whether an event brings bytes of global memory to its SM, but for atomic operations."""
    return event.kind in (Action.COPY_LOAD, Action.CP_ASYNC) or _loads(event)


def _loads(event: DynamicEvent) -> bool:
    return event.kind is Action.GLOBAL and event.detail[:1] == ("ld",)


def moved_bytes(event: DynamicEvent) -> int:
    """Bytes that an event moves: of lanes, whole sectors."""
    return event.sectors * SECTOR_BYTES if event.sectors else event.size


def _passing(event: DynamicEvent, count: int, seen: set[Part]) -> int:
    """Bytes of an event's executions that the cluster did not ask for before, but for stores.

    Args:
        event, count: what was done, and how often. seen: what the cluster asked for before; the
            event's are added.
    """
    if writes(event):
        return moved_bytes(event) * count
    if not event.pieces:
        before = _box(event) in seen
        seen.add(_box(event))
        return 0 if before else moved_bytes(event)
    fresh = len({*event.pieces} - seen)
    seen.update(event.pieces)
    return fresh * SECTOR_BYTES


def _box(event: DynamicEvent) -> tuple[int, ...]:
    """Tells what a CTA copies from the same at another time, or from another CTA's."""
    return (*(place.rank for place in event.objects), event.address, event.span, *event.shape)


def _made(trace: ClusterTrace) -> np.ndarray:
    """How often each warp executes each event, (warps, events)."""
    kinds = len(trace.events)
    return np.array([np.bincount(s.event[s.event >= 0], minlength=kinds) for s in trace.streams])


def moves(trace: ClusterTrace) -> Iterator[tuple[DynamicEvent, int]]:
    """The copies, loads and stores of a cluster, and how often it makes each."""
    made = _made(trace).sum(axis=0)
    for event, count in zip(trace.events, made.tolist(), strict=True):
        if event.kind in MOVES and count:
            yield event, count


def tensor_of(tensors: tuple[Extent, ...], event: DynamicEvent) -> int | None:
    """The tensor that an access is of: that with the last first address before it."""
    which = bisect_right(tensors, event.address, key=lambda extent: extent.address) - 1
    if which < 0 or event.address >= tensors[which].address + tensors[which].reach:
        return None
    return which


@dataclass(frozen=True)
class _Marks:
    """Says of events of a cluster which share is fresh.

    Attributes:
        tensors, shares: of the launch; of what is read and written of each.
        gone: by tensor that no other cluster reads, what the L2 has lost of it.
    """

    tensors: tuple[Extent, ...]
    shares: dict[Key, float]
    gone: dict[int, float]

    def marked(self, trace: ClusterTrace) -> ClusterTrace:
        """What a cluster executes. What a warp loads again is another event, which finds the L2."""
        brought: set[Part] = set()
        events, again = [], np.arange(len(trace.events))
        later: list[DynamicEvent] = []
        made = _made(trace).max(axis=0)
        for at, (event, times) in enumerate(zip(trace.events, made, strict=True)):
            which = tensor_of(self.tensors, event) if event.kind in MOVES else None
            if which is None:
                events.append(event)
                continue
            share = self.shares.get((writes(event), which), 0)
            marked = replace(event, fresh=share)
            if reads(marked):
                parts = _fetched(event) - brought
                brought |= parts
                late = self._late(which, event, parts)
                marked = replace(marked, late=late, sharers=1 / share if share else 1)
                if times > 1:
                    gone = self.gone.get(which, 0) if event.pieces else 0
                    again[at] = len(trace.events) + len(later)
                    later.append(replace(marked, fresh=marked.fresh * gone))
                marked = replace(marked, fresh=marked.fresh * bool(parts))
            events.append(marked)
        streams = tuple(_renamed(stream, again) for stream in trace.streams)
        return replace(trace, events=(*events, *later), streams=streams)

    def _late(self, which: int, event: DynamicEvent, parts: set[Part]) -> float:
        """How late the last chunk is of what an event fetches of a tensor."""
        chunks = _chunks(event, parts or _fetched(event), self.tensors[which].address)
        return max((normal(which, chunk) for chunk in chunks), default=0.0)


def _renamed(stream: WarpStream, again: np.ndarray) -> WarpStream:
    """A warp's stream, where an event that is executed a second time is that which `again` says."""
    repeated = stream.event >= 0
    repeated[np.unique(stream.event, return_index=True)[1]] = False
    event = stream.event.copy()
    event[repeated] = again[event[repeated]]
    return replace(stream, event=event)


def _fetched(event: DynamicEvent) -> set[Part]:
    """What an event fetches: of lanes pieces of `FETCHED_BYTES`, of a copy its box."""
    if event.pieces:
        return {SECTOR_BYTES * piece // FETCHED_BYTES for piece in event.pieces}
    return {_box(event)}


def _chunks(event: DynamicEvent, parts: set[Part], first: int) -> set[int]:
    """Chunks of memory in which an event's parts lie, counted from the first byte of a tensor.

    Rows of a box lie evenly over what it spans; where that is not known, together.
    """
    if event.pieces:
        pieces = (part for part in parts if isinstance(part, int))
        return {(FETCHED_BYTES * piece - first) // CHUNK_BYTES for piece in pieces}
    rows, width = event.shape[:2] if event.shape else (1, event.size)
    pitch = ((event.span or event.size) - width) / max(rows - 1, 1)
    starts = event.address - first + np.arange(rows) * pitch
    places = starts[:, None] + np.arange(0, max(width, 1), CHUNK_BYTES)
    ends = starts + max(width, 1) - 1
    return {*(np.append(places, ends) // CHUNK_BYTES).astype(int).tolist()}


@cache
def normal(*which: int) -> float:
    """A number of the standard normal distribution, always the same one."""
    return Random(str(which)).gauss()

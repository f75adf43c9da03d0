"""What of a launch comes from memory and goes there, where nothing was in the L2 before.

What several CTAs read comes once: of each copy or load of it that share counts which its bytes have
in all that is read of its tensor. Memory answers chunk by chunk, and not all after the same time.
Tensors are those of the launch, `LaunchTrace.tensors`; other accesses are taken to find the L2.
What is written goes to memory once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Final

import numpy as np

from ..records import SECTOR_BYTES, Action, ClusterTrace, DynamicEvent, Extent, LaunchTrace

MOVES: Final = (Action.COPY_LOAD, Action.COPY_STORE, Action.CP_ASYNC, Action.GLOBAL)
"""What asks the L2, but for what the L1 answers of it: the machine says how much that is."""
CHUNK_BYTES: Final = 1024
"""An H200's SMs wait for rows of 2 to 32 KB as long as for the last of so many that come each in
its own time (`benchmarks/timing/sharing/h200_rows.json`)."""
FETCHED_BYTES: Final = 64
"""Come at once: of a chain of loads 32 bytes apart every other one waits for memory, of one with 64
bytes and more each does (same record)."""
STORES: Final = ("st", "red")
"""Accesses of lanes that write, by the beginning of their name."""
Key = tuple[bool, int]
"""Whether it is written, and which tensor."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of a launch.

    Attributes:
        asked: of all copies, loads and stores, at the L2. read, written: at memory.
    """

    asked: int
    read: float
    written: float


NO_TRAFFIC: Final = Traffic(0, 0, 0)


def from_memory(launch: LaunchTrace) -> tuple[LaunchTrace, Traffic]:
    """Return a launch whose copies and loads say which share is fresh, and its traffic."""
    moved: Counter[Key] = Counter()
    asked = 0
    for trace in launch.traces:
        seen: set[int] = set()
        for event, count in _moves(trace):
            asked += _bytes(event) * count * len(trace.clusters)
            which = _tensor(launch.tensors, event)
            if which is not None:
                size = _passing(event, count, seen) * len(trace.clusters)
                moved[writes(event), which] += size
    shares = {key: min(1.0, launch.tensors[key[1]].size / size) for key, size in moved.items()}
    bytes_of = {
        written: sum(shares[key] * size for key, size in moved.items() if key[0] is written)
        for written in (False, True)
    }
    traces = tuple(
        replace(trace, events=tuple(_marked(launch.tensors, shares, trace.events)))
        for trace in launch.traces
    )
    traffic = Traffic(asked, bytes_of[False], bytes_of[True])
    return replace(launch, traces=traces), traffic


def writes(event: DynamicEvent) -> bool:
    """Whether an event writes global memory."""
    if event.kind is Action.GLOBAL:
        return bool(event.detail) and event.detail[0].startswith(STORES)
    return event.kind is Action.COPY_STORE


def awaited(event: DynamicEvent) -> bool:
    """Whether lanes load something that comes from memory."""
    return event.kind is Action.GLOBAL and event.detail[:1] == ("ld",) and event.fresh > 0


def _bytes(event: DynamicEvent) -> int:
    """Bytes that an event moves: of lanes, whole sectors."""
    return event.sectors * SECTOR_BYTES if event.sectors else event.size


def _passing(event: DynamicEvent, count: int, seen: set[int]) -> int:
    """Bytes of an event's executions that the L1 lets pass: of loads by lanes each piece once.

    Args:
        event, count: what was done, and how often. seen: pieces that the cluster asked for before;
            the event's are added.
    """
    if writes(event) or not event.pieces:
        return _bytes(event) * count
    fresh = len({*event.pieces} - seen)
    seen.update(event.pieces)
    return fresh * SECTOR_BYTES


def _moves(trace: ClusterTrace) -> Iterator[tuple[DynamicEvent, int]]:
    """The copies, loads and stores of a cluster, and how often it makes each."""
    made = np.zeros(len(trace.events), np.int64)
    for stream in trace.streams:
        made += np.bincount(stream.event[stream.event >= 0], minlength=len(trace.events))
    for event, count in zip(trace.events, made.tolist(), strict=True):
        if event.kind in MOVES and count:
            yield event, count


def _tensor(tensors: tuple[Extent, ...], event: DynamicEvent) -> int | None:
    """The tensor that an access is of: that with the last first address before it."""
    which = bisect_right(tensors, event.address, key=lambda extent: extent.address) - 1
    if which < 0 or event.address >= tensors[which].address + tensors[which].reach:
        return None
    return which


def _marked(
    tensors: tuple[Extent, ...], shares: dict[Key, float], events: Iterable[DynamicEvent]
) -> Iterator[DynamicEvent]:
    """The events of a cluster, each with its share that is fresh.

    What a load before it has brought is not fresh, though nobody asked for it.
    """
    brought: set[int] = set()
    for event in events:
        which = _tensor(tensors, event) if event.kind in MOVES else None
        if which is None:
            yield event
            continue
        marked = replace(event, fresh=shares.get((writes(event), which), 0))
        if not (awaited(marked) and event.pieces):
            yield marked
            continue
        fetched = {SECTOR_BYTES * piece // FETCHED_BYTES for piece in event.pieces}
        first = tensors[which].address
        chunks = {(FETCHED_BYTES * part - first) // CHUNK_BYTES for part in fetched - brought}
        late = max((normal(which, chunk) for chunk in chunks), default=0.0)
        yield replace(marked, fresh=marked.fresh if chunks else 0, late=late)
        brought |= fetched


@cache
def normal(*which: int) -> float:
    """A number of the standard normal distribution, always the same one."""
    return Random(str(which)).gauss()

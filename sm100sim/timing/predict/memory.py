"""Which copies of a launch come from memory and go there, where nothing was in the L2 before.

What several CTAs read comes once: of each copy of it that share counts which its bytes have in all
that is read of its tensor. Tensors are known by the tensor maps of the launch; other accesses are
taken to find the L2. What is written goes to memory once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..records import Action, ClusterTrace, DynamicEvent, Extent, LaunchTrace

COPIES = (Action.COPY_LOAD, Action.COPY_STORE)
Key = tuple[Action, int]
"""A direction, and which tensor."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of a launch.

    Attributes:
        asked: of all copies, at the L2. read, written: at memory.
    """

    asked: int
    read: float
    written: float


NO_TRAFFIC: Final = Traffic(0, 0, 0)


def from_memory(launch: LaunchTrace) -> tuple[LaunchTrace, Traffic]:
    """Return a launch whose copies say which share of them is fresh, and its traffic."""
    moved: Counter[Key] = Counter()
    asked = 0
    for trace in launch.traces:
        for event, count in _copies(trace):
            size = event.size * count * len(trace.clusters)
            asked += size
            which = _tensor(launch.tensors, event)
            if which is not None:
                moved[event.kind, which] += size
    shares = {key: min(1.0, launch.tensors[key[1]].size / size) for key, size in moved.items()}
    bytes_of = {
        kind: sum(shares[key] * size for key, size in moved.items() if key[0] is kind)
        for kind in COPIES
    }
    traces = tuple(
        replace(trace, events=tuple(_marked(launch.tensors, shares, e) for e in trace.events))
        for trace in launch.traces
    )
    traffic = Traffic(asked, bytes_of[Action.COPY_LOAD], bytes_of[Action.COPY_STORE])
    return replace(launch, traces=traces), traffic


def _copies(trace: ClusterTrace) -> Iterator[tuple[DynamicEvent, int]]:
    """The copies of a cluster, and how often it makes each."""
    made = np.zeros(len(trace.events), np.int64)
    for stream in trace.streams:
        made += np.bincount(stream.event[stream.event >= 0], minlength=len(trace.events))
    for event, count in zip(trace.events, made.tolist(), strict=True):
        if event.kind in COPIES and count:
            yield event, count


def _tensor(tensors: tuple[Extent, ...], event: DynamicEvent) -> int | None:
    """The tensor that a copy is of: that with the last first address before it."""
    which = bisect_right(tensors, event.address, key=lambda extent: extent.address) - 1
    if which < 0 or event.address >= tensors[which].address + tensors[which].reach:
        return None
    return which


def _marked(
    tensors: tuple[Extent, ...], shares: dict[Key, float], event: DynamicEvent
) -> DynamicEvent:
    which = _tensor(tensors, event) if event.kind in COPIES else None
    return event if which is None else replace(event, fresh=shares.get((event.kind, which), 0))

"""What a whole launch asks of the L2 and of memory, where all of its clusters are there or some."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..chips import Chip, Draw
from ..records import ClusterTrace, DynamicEvent, LaunchTrace
from .gpu import asked_of_l2, places_of
from .memory import MOVES, from_memory, moved_bytes, moves, of_launch, reads, tensor_of


def is_whole(launch: LaunchTrace) -> bool:
    """Whether the traces of a launch stand for all clusters that begin."""
    return sum(len(trace.clusters) for trace in launch.traces) == launch.begun


def begins_cold(launch: LaunchTrace, chip: Chip) -> bool:
    """Whether a launch reads more than the L2 holds, so that it cannot find all of that there."""
    whole, draw = _in_turn(launch), chip.draw()
    _, traffic = from_memory(whole, draw, places_of(whole, draw))
    return traffic.read > draw["l2_size_bytes"]


def marked(launch: LaunchTrace, draw: Draw, *, cold: bool) -> LaunchTrace:
    """Return a launch, or a part of one, whose copies and loads say who shares them, what is fresh.

    Args:
        launch, draw, cold: as of `gpu.time_launch`.
    """
    whole = _in_turn(launch)
    found, _ = of_launch(whole, draw, places_of(whole, draw), cold=cold)
    pairs = zip(found.traces, launch.traces, strict=True)
    traces = tuple(replace(trace, clusters=own.clusters) for trace, own in pairs)
    return replace(launch, traces=traces)


def asked_by(launch: LaunchTrace, chip: Chip, *, cold: bool) -> dict[str, float]:
    """Return what draws of a chip lack: how much a launch asks of the L2 and of memory.

    Of a part of a launch the other clusters are taken to be like those that are there.
    """
    draw = asked_of_l2(_in_turn(launch), chip.draw(), cold=cold)
    return {name: value for name, value in draw.values.items() if name not in chip.parameters}


def shared_by_all(launch: LaunchTrace) -> LaunchTrace:
    """Return a launch whose copies and loads are shared by as many as read their bytes in all.

    For clusters that stand for others, and for one that did the work of many: what a cluster asks
    for again counts, too, as others would ask for it at the same time.
    """
    asked: Counter[int] = Counter()
    begun = launch.begun / sum(len(trace.clusters) for trace in launch.traces)
    for trace in launch.traces:
        for event, count in moves(trace):
            which = tensor_of(launch.tensors, event)
            if which is not None and reads(event):
                asked[which] += moved_bytes(event) * count * len(trace.clusters)
    sharers = {k: max(begun * n / launch.tensors[k].size, 1.0) for k, n in asked.items()}

    def marked(event: DynamicEvent) -> DynamicEvent:
        which = tensor_of(launch.tensors, event) if event.kind in MOVES and reads(event) else None
        return event if which is None else replace(event, sharers=sharers.get(which, 1.0))

    traces = (replace(t, events=tuple(map(marked, t.events))) for t in launch.traces)
    return replace(launch, traces=tuple(traces))


def bytes_asked(trace: ClusterTrace) -> int:
    """Bytes that a cluster asks the L2 for, and stores."""
    return sum(moved_bytes(event) * count for event, count in moves(trace))


def _in_turn(launch: LaunchTrace) -> LaunchTrace:
    """A launch that its traces stand for in turn, where not all of its clusters are there."""
    if is_whole(launch):
        return launch
    count = len(launch.traces)
    traces = (
        replace(trace, clusters=tuple(range(k, launch.begun, count)))
        for k, trace in enumerate(launch.traces)
    )
    return replace(launch, traces=tuple(traces))

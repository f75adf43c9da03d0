"""What a whole launch asks of the L2 and of memory, where all of its clusters are there or some."""

from __future__ import annotations

from dataclasses import replace

from ..chips import Chip, Draw
from ..records import LaunchTrace
from .gpu import asked_of_l2, places_of
from .memory import from_memory, of_launch


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

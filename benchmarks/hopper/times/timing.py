"""How long a call takes on the GPU: CUDA events around the replay of a graph that holds it.

Runners of one problem take turns, so that clocks and temperature are alike for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Final

import torch

WARMUP: Final = 3
HOST_ROUNDS: Final = 5
HOST_CALLS: Final = 20
"""Few enough that the queue of launches is never full."""
FLUSH_BYTES: Final = 256 * 2**20
"""What is overwritten between two runs: five times the L2 of an H100."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of the runs of one call."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that counts."""
        return median(self.runs)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.runs) < 2:
            return 0.0
        low, _, high = quantiles(self.runs, n=4)
        return (high - low) / 2 / self.median


def graph_of(call: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """A graph of one call, which has run before outside of it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMUP):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


class Flush:
    """Empties the L2 by writing more than it holds; `cold` False leaves it alone."""

    def __init__(self, cold: bool) -> None:
        """Allocate what is written."""
        self._space = torch.empty(FLUSH_BYTES if cold else 0, dtype=torch.uint8, device="cuda")

    def __call__(self) -> None:
        """Enqueue the write."""
        if self._space.numel():
            self._space.zero_()


def measured(
    calls: Mapping[str, Callable[[], Any]], rounds: int, flush: Flush
) -> tuple[dict[str, Times], dict[str, str]]:
    """Times of each call, which take turns, and why a call has none.

    A call that cannot be captured is timed without a graph and is named as such among the reasons.
    """
    ready, notes = {}, {}
    for name, call in calls.items():
        try:
            ready[name] = graph_of(call).replay
        except RuntimeError as error:
            torch.cuda.synchronize()
            notes[name] = f"without a graph: {str(error).splitlines()[0][:120]}"
            ready[name] = call
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in ready}
    for turn in range(WARMUP + rounds):
        for name, run in ready.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush()
            start.record()
            run()
            end.record()
            if turn >= WARMUP:
                events[name].append((start, end))
    torch.cuda.synchronize()
    times = {
        name: Times(tuple(start.elapsed_time(end) for start, end in pairs))
        for name, pairs in events.items()
    }
    return times, notes


def host_cost(call: Callable[[], Any]) -> float:
    """Microseconds of Python and driver for a call, the GPU's time left out: it only enqueues."""
    costs = []
    for _ in range(HOST_ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(HOST_CALLS):
            call()
        costs.append((time.perf_counter() - start) / HOST_CALLS * 1e6)
    torch.cuda.synchronize()
    return median(costs)


def copy_rate(flush: Flush, rounds: int) -> float:
    """GB/s of a copy from device memory to device memory, bytes read and bytes written."""
    source = torch.ones(2**30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times, _ = measured({"copy": lambda: target.copy_(source)}, rounds, flush)
    return 2 * int(source.numel()) / times["copy"].median / 1e6

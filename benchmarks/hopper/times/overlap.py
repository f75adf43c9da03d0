"""What ran at the same time on one GPU: attention, transfers between GPUs, and everything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

Interval = tuple[float, float]
"""Start and end."""
Kernel = tuple[str, float, float]
"""Name, start and end in milliseconds."""
ATTENTION: Final = "fa4_sm"
"""How names of this package's attention kernels begin."""
TRANSFER: Final = "nccldevkernel"
"""What is in the name of every kernel of NCCL, in lower case."""


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same times as intervals that do not meet, in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> float:
    """Return how long at least one of ``intervals`` lasts."""
    return sum(end - start for start, end in union(intervals))


def common(some: Sequence[Interval], others: Sequence[Interval]) -> float:
    """Return how long one of ``some`` and one of ``others`` last at the same time."""
    return length(some) + length(others) - length([*some, *others])


@dataclass(frozen=True)
class Timeline:
    """One rank's share of a call, in milliseconds.

    Attributes:
        span: from the start of the first kernel to the end of the last.
        attention: some attention kernel runs.
        transfer: some kernel of NCCL runs, which includes its wait for the peer.
        hidden: both run.
        other: only further kernels run: packing, copies, joining.
        idle: nothing runs.
    """

    span: float
    attention: float
    transfer: float
    hidden: float
    other: float
    idle: float

    @classmethod
    def of(cls, kernels: Iterable[Kernel], calls: int = 1) -> Timeline:
        """Return the timeline of ``kernels``, which belong to ``calls`` calls in a row.

        Raises:
            ValueError: there is no kernel.
        """
        attention: list[Interval] = []
        transfer: list[Interval] = []
        other: list[Interval] = []
        for name, start, end in kernels:
            kind = attention if name.startswith(ATTENTION) else other
            (transfer if TRANSFER in name.lower() else kind).append((start, end))
        whole = [*attention, *transfer, *other]
        if not whole:
            raise ValueError("kernels: none was recorded")
        span = max(end for _, end in whole) - min(start for start, _ in whole)
        busy = [*attention, *transfer]
        times = (
            span, length(attention), length(transfer), common(attention, transfer),
            length(whole) - length(busy), span - length(whole),
        )  # fmt: skip
        return cls(*(time / calls for time in times))


def kernels_of(events: Iterable[Any]) -> list[Kernel]:
    """Return what ran on the GPU among the events of ``torch.profiler``, in milliseconds.

    Ranges that torch writes above kernels ("nccl:send", "ProfilerStep#1") are no kernels.
    """
    import torch

    ranges = ("nccl:", "ProfilerStep")

    return [
        (e.name, e.time_range.start / 1e3, e.time_range.end / 1e3)
        for e in events
        if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith(ranges)
    ]

"""Intervals of kernels: what ran, what was hidden, when nothing ran."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hopper.times.overlap import Timeline, common, kernels_of, length, union

NCCL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
INTERVALS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda x: (x[0], x[0] + x[1])), max_size=6
)


def ticks(intervals: list[tuple[int, int]]) -> set[int]:
    return {tick for start, end in intervals for tick in range(start, end)}


@given(INTERVALS, INTERVALS)
def test_lengths_count_ticks(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    assert length(some) == len(ticks(some))
    assert common(some, others) == len(ticks(some) & ticks(others))
    found = union(some)
    assert all(one[1] < other[0] for one, other in pairwise(found))


def test_a_timeline_tells_hidden_transfers_from_others() -> None:
    kernels = [
        ("copy", 0.0, 1.0), (NCCL, 1.0, 5.0), ("fa4_sm90_bf16", 2.0, 8.0), ("join", 7.0, 9.0),
        ("fa4_combine_bf16", 12.0, 13.0),
    ]  # fmt: skip
    found = Timeline.of(kernels)
    assert found == Timeline(
        span=13.0, attention=6.0, transfer=4.0, hidden=3.0, other=3.0, idle=3.0
    )
    assert Timeline.of(kernels, 2).transfer == 2.0


def test_without_transfers_nothing_has_to_hide() -> None:
    assert Timeline.of([("fa4_sm90_bf16", 0.0, 1.0)]).transfer == 0.0
    with pytest.raises(ValueError, match="none was recorded"):
        Timeline.of([])


def test_only_what_ran_on_the_gpu_counts() -> None:
    def event(name: str, kind: str) -> SimpleNamespace:
        device = getattr(torch.autograd.DeviceType, kind)
        return SimpleNamespace(
            name=name, device_type=device, time_range=SimpleNamespace(start=2000.0, end=5500.0)
        )

    events = [event("copy", "CUDA"), event("aten::copy_", "CPU"), event("nccl:send", "CUDA")]
    events.append(event("ProfilerStep#1", "CUDA"))
    assert kernels_of(events) == [("copy", 2.0, 5.5)]

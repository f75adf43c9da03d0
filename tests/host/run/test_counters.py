"""Counters of query tiles: who shares them, and who must not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
import torch

import fa4_cute
from fa4_cute.host.run import counters, device
from fa4_cute.host.run.counters import CHUNK, COUNTER_BYTES, CounterStore, counters_on
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.launch import Workspace
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Partition, Variant


class Memory:
    """Hands out addresses; every piece is 1 << 30 after the one before."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) << 30


def test_a_stream_keeps_its_counters_and_shares_them_with_no_other() -> None:
    memory = Memory()
    store = CounterStore(memory)
    first = store.of_stream(7, 32)
    assert store.of_stream(7, 32) == store.of_stream(7, 5) == first
    other = store.of_stream(8, 32)
    assert other.address == first.address + 32 * COUNTER_BYTES
    assert memory.sizes == [CHUNK * COUNTER_BYTES]


def test_a_stream_that_needs_more_gets_new_ones() -> None:
    store = CounterStore(Memory())
    few = store.of_stream(7, 3)
    many = store.of_stream(7, 5)
    assert (few.number, many.number) == (4, 8)
    assert many.address >= few.address + few.number * COUNTER_BYTES
    assert store.of_stream(7, 3) == many


def test_every_captured_call_has_its_own() -> None:
    store = CounterStore(Memory())
    found = [store.new(10) for _ in range(3)]
    assert {b.address - a.address for a, b in pairwise(found)} == {40}


def test_another_chunk_where_one_is_used_up() -> None:
    memory = Memory()
    store = CounterStore(memory)
    assert store.new(CHUNK - 1).address == 1 << 30
    assert store.new(2).address == 2 << 30
    assert store.new(CHUNK + 1).address == 3 << 30
    assert memory.sizes == [CHUNK * COUNTER_BYTES] * 2 + [(CHUNK + 1) * COUNTER_BYTES]


def test_on_the_host_every_call_has_new_ones() -> None:
    found = counters_on(torch.device("cpu"), 5)
    assert found.memory.tolist() == [0] * 5
    assert (found.address, found.number) == (found.memory.data_ptr(), 5)
    assert counters_on(torch.device("cpu"), 5).address != found.address


@contextlib.contextmanager
def gpu(*, captures: bool) -> Iterator[Memory]:
    memory = Memory()
    launcher = mock.Mock(zeros=memory)
    with (
        mock.patch.object(counters, "_stores", {}),
        mock.patch.object(device, "launcher", return_value=launcher),
        mock.patch.object(device, "current_stream", side_effect=lambda index: 100 + index),
        mock.patch.object(torch.cuda, "device", return_value=contextlib.nullcontext()),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=captures),
    ):
        yield memory


def test_on_a_gpu_they_are_those_of_the_stream() -> None:
    one, two = torch.device("cuda", 0), torch.device("cuda", 1)
    with gpu(captures=False) as memory:
        found = [counters_on(where, 6) for where in (one, two, one)]
    assert found[0] == found[2]
    assert found[1].address != found[0].address
    assert len(memory.sizes) == 2


def test_on_a_gpu_a_captured_call_shares_none() -> None:
    where: Any = torch.device("cuda", 0)
    with gpu(captures=True):
        one, two = (counters_on(where, 6) for _ in range(2))
    assert two.address == one.address + 6 * COUNTER_BYTES


@pytest.mark.parametrize(("seqlen_q", "count"), [(1, 16), (16, 16), (33, 48)])
def test_one_for_every_query_tile(seqlen_q: int, count: int) -> None:
    """Eight heads of a group share a Q tile of 16 positions."""
    sizes = AttentionSizes(4, seqlen_q, 900, 32, 4)
    last, other = (
        KernelSpec.for_attention(DType.BF16, 128, group=8, num_qo=1, variant=Variant(partition=p))
        for p in (Partition.LAST, Partition.WORKSPACE)
    )
    assert Workspace.of(last, sizes, 2).counters == count
    assert Workspace.of(other, sizes, 2).counters == 0


@pytest.mark.slow
def test_repeated_and_resized_calls_have_counters() -> None:
    """The second call is repeated, the third has other sizes; each as a call of its own."""
    generator = torch.Generator().manual_seed(0)
    cache = torch.randn(6, 64, 1, 64, generator=generator).bfloat16()
    pages = torch.tensor([[3, 1, 0], [5, 2, 4]], dtype=torch.int32)
    used = torch.tensor([150, 40], dtype=torch.int32)
    for queries in (2, 2, 3, 40):
        q = torch.randn(2 * queries, 4, 64, generator=generator).bfloat16()
        starts = torch.tensor([0, queries, 2 * queries], dtype=torch.int32)
        options = {"seqused_k": used, "page_table": pages, "num_splits": 3, "num_qo": 1}
        out, workspace = (
            fa4_cute.flash_attn_varlen(
                q, cache, cache, cu_seqlens_q=starts, max_seqlen_q=queries, split=split, **options
            )
            for split in ("last", "workspace")
        )
        assert torch.equal(out, workspace)

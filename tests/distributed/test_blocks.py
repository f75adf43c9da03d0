"""Blocks of keys as messages, and the order of sending, computing and waiting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from fa4_cute.distributed.blocks import Block, Blocks, gathered_block, ring_blocks
from fa4_cute.distributed.members import Members
from fa4_cute.plan.ranks.band import CAUSAL, Band
from fa4_cute.plan.ranks.shards import Layout, Shards
from fa4_cute.plan.ranks.steps import ContextPlan

ROWS = 11


def plan(ranks: int, band: Band = CAUSAL, layout: Layout = Layout.ZIGZAG) -> ContextPlan:
    shards = Shards((ROWS,), ranks, layout)
    return ContextPlan(shards, shards, band)


def whole(dtype: torch.dtype = torch.bfloat16) -> Block:
    """K and V of all rows, with v narrower than k."""
    return torch.randn(2, ROWS, 3, 24).to(dtype), torch.randn(2, ROWS, 3, 16).to(dtype)


def held(shards: Shards, rank: int, block: Block) -> Block:
    rows = [i for x in shards.runs(rank)[0] for i in range(x.start, x.stop)]
    return block[0][:, rows], block[1][:, rows]


def equal(one: Block, other: Block) -> bool:
    return all(torch.equal(a.float(), b.float()) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_a_message_holds_k_and_v(dtype: torch.dtype) -> None:
    shards, everything = plan(2).keys, whole(dtype)
    own = held(shards, 1, everything)
    blocks = Blocks(shards, own)
    assert blocks.size(1) == own[0].nbytes + own[1].nbytes
    message = blocks.packed(1, blocks.size(1) + 5)
    assert equal(blocks.views(message, 1), own)
    assert blocks.shapes(0) == [tuple(x.shape) for x in held(shards, 0, everything)]


class Transfer:
    """A transfer that arrives when it is waited for."""

    def __init__(self, events: list[str], operation: Any, arriving: bytes) -> None:
        self.events, self.operation, self.arriving = events, operation, arriving

    def wait(self) -> None:
        way, tensor, peer = self.operation
        self.events.append(f"{way} {peer} done")
        if way == "irecv":
            tensor.copy_(torch.frombuffer(bytearray(self.arriving), dtype=torch.uint8))


def ring(
    rank: int, given: ContextPlan, everything: Block, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[tuple[int, Block]]]:
    """What one rank does in the ring, and the blocks that it gets."""
    events: list[str] = []
    incoming = [step.receives for step in given.ring(rank) if step.receives is not None]

    def post(operations: list[Any]) -> list[Transfer]:
        found = []
        for way, tensor, peer in operations:
            events.append(f"{way} {peer}")
            arriving = b""
            if way == "irecv":
                source = incoming.pop(0)
                theirs = Blocks(given.keys, held(given.keys, source, everything))
                arriving = theirs.packed(source, theirs.size(source)).numpy().tobytes()
            found.append(Transfer(events, (way, tensor, peer), arriving))
        return found

    monkeypatch.setattr(dist, "P2POp", lambda call, x, to, group: (call.__name__, x, to))
    monkeypatch.setattr(dist, "batch_isend_irecv", post)
    monkeypatch.setattr(dist, "get_global_rank", lambda group, number: 10 + number)
    got = []
    members = Members(None, rank, given.ranks)
    for step, block in ring_blocks(given, members, held(given.keys, rank, everything)):
        events.append(f"compute {step.source}")
        got.append((step.source, (block[0].clone(), block[1].clone())))
    return events, got


@pytest.mark.parametrize("rank", range(3))
def test_the_next_block_is_on_its_way_while_one_is_computed(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, everything = plan(3), whole()
    events, got = ring(rank, given, everything, monkeypatch)
    to, source = 10 + (rank + 1) % 3, 10 + (rank - 1) % 3
    turn = [f"isend {to}", f"irecv {source}", "compute", f"isend {to} done", f"irecv {source} done"]
    assert [x.split()[0] if "compute" in x else x for x in events] == [*turn, *turn, "compute"]
    assert [number for number, _ in got] == [rank, (rank - 1) % 3, (rank - 2) % 3]
    assert all(equal(block, held(given.keys, number, everything)) for number, block in got)


def test_nobody_waits_for_what_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = plan(3, Band(2, 0), Layout.CONTIGUOUS)
    everything = whole()
    assert ring(0, given, everything, monkeypatch)[0] == ["isend 11", "compute 0", "isend 11 done"]
    assert ring(2, given, everything, monkeypatch)[0] == [
        "irecv 11", "compute 2", "irecv 11 done", "compute 1"
    ]  # fmt: skip


@pytest.mark.parametrize("layout", Layout)
def test_gathered_blocks_are_in_order(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    given, everything = plan(3, layout=layout), whole()
    sizes = []

    def gather(members: Members, mine: Any) -> Any:
        sizes.append(mine.numel())
        every = [Blocks(given.keys, held(given.keys, rank, everything)) for rank in range(3)]
        return torch.stack([x.packed(rank, mine.numel()) for rank, x in enumerate(every)])

    monkeypatch.setattr(Members, "gather_bytes", gather)
    found = gathered_block(given, Members(None, 1, 3), held(given.keys, 1, everything))
    assert equal(found, everything)
    assert sizes == [given.keys.most_rows() * 2 * 3 * (24 + 16) * 2]

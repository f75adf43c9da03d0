"""K and V on their way between ranks: one message of bytes for each block, and who gets it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..plan.ranks.shards import Shards
from ..plan.ranks.steps import ContextPlan, Step
from .members import Members

Block = tuple[Any, Any]
"""k and v of some rows: (batch, rows, heads, head_dim), or without batch."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Shapes of the blocks of all ranks, and K and V of this one.

    Attributes:
        shards: who holds which rows.
        own: K and V of this rank.
    """

    shards: Shards
    own: Block

    def shapes(self, rank: int) -> list[tuple[int, ...]]:
        """Return the shapes of K and V on ``rank``."""
        rows = self.shards.rows(rank)
        return [(*x.shape[:-3], rows, *x.shape[-2:]) for x in self.own]

    def size(self, rank: int) -> int:
        """Return the bytes of K and V on ``rank``."""
        return sum(map(math.prod, self.shapes(rank))) * int(self.own[0].element_size())

    def empty(self, size: int) -> Any:
        """Return room for ``size`` bytes where K and V are."""
        import torch

        return torch.empty(size, dtype=torch.uint8, device=self.own[0].device)

    def packed(self, rank: int, size: int) -> Any:
        """Return a copy of this rank's K and V in ``size`` bytes; ``rank`` is its own number."""
        message = self.empty(size)
        for room, values in zip(self.views(message, rank), self.own, strict=True):
            room.copy_(values)
        return message

    def views(self, message: Any, rank: int) -> Block:
        """Return K and V of ``rank`` within the bytes of ``message``."""
        found, start = [], 0
        for shape, like in zip(self.shapes(rank), self.own, strict=True):
            stop = start + math.prod(shape) * like.element_size()
            found.append(message[start:stop].view(like.dtype).view(shape))
            start = stop
        return found[0], found[1]


def ring_blocks(plan: ContextPlan, members: Members, own: Block) -> Iterator[tuple[Step, Block]]:
    """Yield the steps of this rank, each with the K and V of its source.

    While the caller computes with a block, it goes on to the next rank and the following one
    arrives. Of all other ranks' blocks two are held at a time.

    Args:
        plan: what each rank needs.
        members: the ranks.
        own: K and V of this rank.
    """
    import torch.distributed as dist

    blocks = Blocks(plan.keys, own)
    here, message = own, None
    for step in plan.ring(members.rank):
        coming, operations = None, []
        if step.sends:
            if message is None:
                message = blocks.packed(members.rank, blocks.size(members.rank))
            to = members.global_rank(members.rank + 1)
            operations.append(dist.P2POp(dist.isend, message, to, members.group))
        if step.receives is not None:
            coming = blocks.empty(blocks.size(step.receives))
            source = members.global_rank(members.rank - 1)
            operations.append(dist.P2POp(dist.irecv, coming, source, members.group))
        transfers = dist.batch_isend_irecv(operations) if operations else []
        yield step, here
        for transfer in transfers:
            transfer.wait()
        if step.receives is not None:
            here, message = blocks.views(coming, step.receives), coming


def gathered_block(plan: ContextPlan, members: Members, own: Block) -> Block:
    """Return K and V of all ranks in the order of the sequences.

    Args:
        plan: what each rank holds.
        members: the ranks.
        own: K and V of this rank.
    """
    import torch

    blocks = Blocks(plan.keys, own)
    room = max(blocks.size(rank) for rank in range(members.ranks))
    if not room:
        return own
    messages = members.gather_bytes(blocks.packed(members.rank, room))
    found = [blocks.views(message, rank) for rank, message in enumerate(messages)]
    runs = plan.keys.in_order()
    k, v = (
        torch.cat([found[x.rank][n][..., x.local : x.local_stop, :, :] for x in runs], dim=-3)
        for n in range(2)
    )
    return k, v

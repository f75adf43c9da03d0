"""``shard`` and ``unshard``: from whole sequences to a rank's rows, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..host.ask.checks import check_count, check_kind
from ..plan.ranks.shards import Layout, Shards
from .agree import check_rows
from .asked import one_of, whole_lengths
from .members import Members

if TYPE_CHECKING:
    import torch


def shard(
    tensor: torch.Tensor,
    *,
    group: Any = None,
    layout: str = "zigzag",
    dim: int | None = None,
    cu_seqlens: Any = None,
) -> torch.Tensor:
    """Return this rank's rows of ``tensor``; nothing is sent.

    ``shard(torch.arange(seqlen), dim=0)`` gives the positions of this rank's rows, for example for
    rotary embeddings.

    Args:
        tensor: whole sequences, the same on all ranks.
        group: process group of ``torch.distributed``; None is the default group.
        layout: ``"zigzag"`` or ``"contiguous"``, as for :func:`context_parallel_attn`.
        dim: where the rows are; None is 1, or 0 with ``cu_seqlens``.
        cu_seqlens: (batch + 1,) integers: first row of each sequence, and the end, if sequences
            are packed; each sequence is dealt out separately.

    Returns:
        A contiguous copy, with the rank's earlier rows of every sequence first.

    Raises:
        TypeError, ValueError: an argument is wrong; names it.
    """
    import torch

    members = Members.of(group)
    cut = _Cut.of(tensor, dim, layout, cu_seqlens)
    rows = tensor.shape[cut.dim]
    lengths = (rows,) if cut.lengths is None else cut.lengths
    if sum(lengths) != rows:
        raise ValueError(
            f"cu_seqlens: ends with {sum(lengths)}, and dim={cut.dim} of shape "
            f"{tuple(tensor.shape)} has {rows} rows"
        )
    shards = Shards(lengths, members.ranks, cut.layout)
    starts = shards.starts()
    held = [
        tensor.narrow(cut.dim, starts[run.sequence] + run.start, run.stop - run.start)
        for runs in shards.runs(members.rank)
        for run in runs
    ]
    return torch.cat(held or [tensor.narrow(cut.dim, 0, 0)], dim=cut.dim)


def unshard(
    tensor: torch.Tensor,
    *,
    group: Any = None,
    layout: str = "zigzag",
    dim: int | None = None,
    cu_seqlens: Any = None,
) -> torch.Tensor:
    """Return the whole sequences, on every rank; all ranks of the group call this.

    Args:
        tensor: this rank's rows, as :func:`shard` deals them out. For a log-sum-exp ``dim`` is -1.
        group, layout, dim, cu_seqlens: as for :func:`shard`.

    Raises:
        TypeError, ValueError: an argument is wrong, on the rank that has it; or, on every rank,
            shapes or element types differ, or a rank does not hold its share.
    """
    import torch

    members = Members.of(group)
    cut = _Cut.of(tensor, dim, layout, cu_seqlens)
    by_row = tensor.movedim(cut.dim, 0).contiguous()
    rows = _rows_of_all(members, by_row)
    shards = Shards(cut.lengths or (sum(rows),), members.ranks, cut.layout)
    check_rows("tensor", shards, rows)
    # Bytes, because a backend need not know the element type; equally many from every rank.
    row_bytes = math.prod(by_row.shape[1:]) * by_row.element_size()
    if not shards.most_rows() * row_bytes:
        return tensor.clone()
    mine = torch.zeros(shards.most_rows() * row_bytes, dtype=torch.uint8, device=tensor.device)
    mine[: by_row.nbytes] = by_row.flatten().view(torch.uint8)
    every = members.gather_bytes(mine).view(-1).view(tensor.dtype)
    every = every.view(members.ranks, shards.most_rows(), *by_row.shape[1:])
    held = [every[run.rank, run.local : run.local_stop] for run in shards.in_order()]
    return torch.cat(held).movedim(0, cut.dim).contiguous()


@dataclass(frozen=True)
class _Cut:
    """Along which dimension, into which sequences, and how a tensor is cut."""

    dim: int
    lengths: tuple[int, ...] | None
    layout: Layout

    @classmethod
    def of(cls, tensor: Any, dim: Any, layout: Any, cu_seqlens: Any) -> _Cut:
        """Return the checked arguments."""
        check_kind("tensor", tensor)
        if dim is None:
            dim = 1 if cu_seqlens is None else 0
        check_count("dim", dim, -tensor.dim())
        if dim >= tensor.dim():
            raise ValueError(
                f"dim={dim}: shape {tuple(tensor.shape)} has dimensions 0 to {tensor.dim() - 1}"
            )
        lengths = None if cu_seqlens is None else whole_lengths("cu_seqlens", cu_seqlens)
        known = tuple(x.value for x in Layout)
        return cls(dim % tensor.dim(), lengths, Layout(one_of("layout", layout, known)))


def _rows_of_all(members: Members, by_row: Any) -> list[int]:
    """Return how many rows every rank holds.

    Raises:
        ValueError: what the ranks hold differs in more than that.
    """
    found = members.gathered((tuple(by_row.shape), str(by_row.dtype)))
    for rank, (shape, dtype) in enumerate(found):
        if (shape[1:], dtype) != (found[0][0][1:], found[0][1]):
            raise ValueError(
                f"tensor: {found[0][0]} of {found[0][1]} on rank 0, and {shape} of {dtype} on rank "
                f"{rank}, rows first; only the rows may differ"
            )
    return [int(shape[0]) for shape, _ in found]

"""Attention of one rank: plain calls on what is there, joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from ..host.interface import flash_attn, flash_attn_varlen
from ..plan.ranks.band import CAUSAL, FULL, Band, Span
from ..plan.ranks.places import places
from ..plan.ranks.steps import Call, ContextPlan
from .blocks import Block, gathered_block, ring_blocks
from .members import Members
from .partial import Partial


def over_ranks(
    plan: ContextPlan,
    members: Members,
    inputs: tuple[Any, Any, Any],
    method: str,
    options: Mapping[str, Any],
    sink: Any = None,
) -> tuple[Any, Any]:
    """Return O and log-sum-exp of this rank's queries over the keys of all ranks.

    Args:
        plan: what each rank computes.
        members: the ranks.
        inputs: q, k and v of this rank.
        method: ``"ring"`` or ``"all_gather"``.
        options: keyword arguments of every plain call.
        sink: (heads,) float32 or None: joined once.
    """
    q, k, v = inputs
    if method == "all_gather":
        blocks = [(plan.whole_calls(members.rank), gathered_block(plan, members, (k, v)))]
        calls: Iterable[tuple[Sequence[Call], Block]] = blocks
        kept = places(blocks[0][0])
    else:
        steps = ring_blocks(plan, members, (k, v))
        calls = ((step.calls, block) for step, block in steps)
        kept = places(call for step in plan.ring(members.rank) for call in step.calls)
    count = 1 + max((place.number for place in kept), default=0)
    total, following = Partial(q, v.shape[-1], count, sink), iter(kept)
    for of_block, block in calls:
        for call, place in zip(of_block, following, strict=False):
            rows = selection([part.rows for part in call.parts], q)
            room = total.room(place, rows)
            total.add(place, rows, *results(call, q, block, {**options, "out": room}))
    return total.finished()


def results(call: Call, q: Any, block: Block, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return O and log-sum-exp of a call's rows.

    Args:
        call: what to compute.
        q: queries of this rank.
        block: the keys and values that are there.
        options: keyword arguments of the plain call.
    """
    given = {**options, **window_arguments(call.band), "return_lse": True}
    rows = selection([part.rows for part in call.parts], q)
    keys = selection([part.keys for part in call.parts], q)
    picked = q[..., rows, :, :], *(x[..., keys, :, :] for x in block)
    if q.dim() == 4:
        out, lse = flash_attn(*picked, **given)
        return out, lse
    for name, spans in (("q", [p.rows for p in call.parts]), ("k", [p.keys for p in call.parts])):
        lengths = [stop - start for start, stop in spans]
        given[f"cu_seqlens_{name}"] = on_device((0, *accumulate(lengths)), q, "int32")
        given[f"max_seqlen_{name}"] = max(lengths)
    # The offsets are made here, so there is nothing to read back.
    out, lse = flash_attn_varlen(*picked, **{**given, "unchecked": True})
    return out, lse


def window_arguments(band: Band) -> dict[str, Any]:
    """Return ``band`` as arguments of a plain call, which puts its last row at its last key."""
    if band == FULL:
        return {}
    return {"causal": True} if band == CAUSAL else {"window_size": (band.left, band.right)}


def selection(spans: Sequence[Span], q: Any) -> Any:
    """Return an index of the rows of ``spans``: a slice where they follow one another."""
    if all(one[1] == other[0] for one, other in pairwise(spans)):
        return slice(spans[0][0], spans[-1][1])
    return on_device([row for span in spans for row in range(*span)], q, "int64")


def on_device(values: Sequence[int], q: Any, dtype: str) -> Any:
    """Return ``values`` as a tensor where ``q`` is."""
    import torch

    return torch.tensor(values, dtype=getattr(torch, dtype)).to(q.device, non_blocking=True)

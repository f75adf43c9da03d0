"""The ranks agree on what they compute before one of them waits for another's keys.

A rank that got wrong arguments, or others than its peers, would leave these waiting for ever. So
every rank first describes its call, or says why it refuses it, and all look at all descriptions:
either every rank goes on with the same plan, or every rank raises the same sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..plan.ranks.band import Band
from ..plan.ranks.shards import Layout, Shards
from ..plan.ranks.steps import ContextPlan
from .members import Members

_KINDS: Final = (NotImplementedError, TypeError, ValueError, RuntimeError)
"""Errors that other ranks raise too: of these the first that fits."""
KEPT_AGREEMENTS: Final = 64
"""Plans that are remembered for each group, for calls that do not ask again."""


@dataclass(frozen=True)
class Description:
    """What one rank was asked to compute.

    Attributes:
        rows: rows of q, and of k and v, on this rank.
        lengths: of all sequences of q and of k, whole; None when they follow from ``rows``.
        layout, band: as for :class:`ContextPlan`.
        settings: everything else that all ranks have in common, with its name.
        refusal: the kind of error and its sentence, when the arguments are wrong.
    """

    rows: tuple[int, int] = (0, 0)
    lengths: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    layout: Layout = Layout.ZIGZAG
    band: Band = field(default_factory=Band)
    settings: tuple[tuple[str, Any], ...] = ()
    refusal: tuple[str, str] | None = None

    @property
    def common(self) -> dict[str, Any]:
        """What must be equal on all ranks, by the names of the arguments."""
        of_q, of_k = (None, None) if self.lengths is None else self.lengths
        return {
            "layout": self.layout.value,
            "window": (self.band.left, self.band.right),
            "lengths in cu_seqlens_q": of_q,
            "lengths in cu_seqlens_k": of_k,
            **dict(self.settings),
        }


_AGREED: WeakKeyDictionary[Any, dict[Description, ContextPlan]] = WeakKeyDictionary()


def agreed(
    describe: Callable[[], Description], members: Members, *, unchecked: bool
) -> ContextPlan:
    """Return the plan of all ranks; every rank of the group must call this.

    Args:
        describe: makes this rank's description, or raises what is wrong with its arguments.
        members: the ranks.
        unchecked: ask the others only if this rank has met no such description yet, and so no
            longer tell them of an error here; otherwise all ranks exchange theirs in every call.

    Raises:
        TypeError, ValueError, NotImplementedError: a rank refused its arguments, or they do not fit
            together; on every rank.
    """
    known = _AGREED.setdefault(members.group, {})
    own: Exception | None = None
    try:
        mine = describe()
    except Exception as error:
        if unchecked and known:
            raise
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), RuntimeError)
        mine, own = Description(refusal=(kind.__name__, str(error))), error
    if unchecked and mine in known:
        return known[mine]
    plan = plan_of(members.gathered(mine), own)
    if len(known) >= KEPT_AGREEMENTS:
        known.clear()
    known[mine] = plan
    return plan


def plan_of(found: list[Description], own: Exception | None = None) -> ContextPlan:
    """Return the plan of ``found``, the descriptions of all ranks in order.

    Args:
        found: the descriptions.
        own: this rank's own refusal, which it raises instead of another rank's.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`agreed`.
    """
    if own is not None:
        raise own
    for rank, one in enumerate(found):
        if one.refusal is not None:
            kind = {kind.__name__: kind for kind in _KINDS}[one.refusal[0]]
            raise kind(f"rank {rank} of the group refused its call: {one.refusal[1]}")
    first = found[0]
    for rank, one in enumerate(found):
        for name, value in one.common.items():
            if value != first.common.get(name):
                raise ValueError(
                    f"{name}: {first.common.get(name)!r} on rank 0, and {value!r} on rank {rank} "
                    f"of the group; all ranks make the same call"
                )
    lengths = first.lengths
    if lengths is None:
        lengths = (sum(one.rows[0] for one in found),), (sum(one.rows[1] for one in found),)
    queries, keys = (Shards(each, len(found), first.layout) for each in lengths)
    for name, shards, which in (("q", queries, 0), ("k", keys, 1)):
        check_rows(name, shards, [one.rows[which] for one in found])
    return ContextPlan(queries, keys, first.band)


def check_rows(name: str, shards: Shards, rows: list[int]) -> None:
    """Refuse ranks that hold another number of rows than their share.

    Raises:
        ValueError: names the first such rank.
    """
    for rank, have in enumerate(rows):
        if have != shards.rows(rank):
            raise ValueError(
                f"{name}: rank {rank} holds {have} rows, and its share of {sum(shards.lengths)} "
                f"rows on {shards.ranks} ranks in layout={shards.layout.value!r} is "
                f"{shards.rows(rank)}; nearest supported choice: fa4_cute.distributed.shard"
            )

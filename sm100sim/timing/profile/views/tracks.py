"""The timeline of a run: what each warp and each unit of the SM did in every cycle.

Warps compete for issue slots and units here, so their spans are those of the machine: a warp that
is ready while another one issues waits for the slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ....contract import clock
from ...records import DynamicEvent
from ..detail import Detail, Floats, Ints
from ..handovers import names_of
from ..path import NOTHING, WORKS, Piece
from ..roles import Role

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "runs": ("issued", "stall", "branch"),
    "issue slot": ("not selected",),
    "pipe": ("pipe", "queue"),
    "mbarrier": ("mbarrier",),
    "barrier": ("named barrier", "cluster barrier"),
    "MMA registers": ("tensor",),
    "TMEM": ("tmem",),
    "MUFU": ("mufu",),
    "memory": ("shared", "global", "copy"),
    "code": ("fetch",),
    "other": ("other result", "blocked"),
}
"""What a span of a warp is called -> the reasons that it holds."""

PATH: Final = "critical path"
"""Name of its track."""

Label = Callable[[DynamicEvent], str]
"""Names the work of a unit by its event: an MMA by what it computes, say."""


@dataclass(frozen=True, eq=False)
class Track:
    """A line of the timeline: spans one after the other.

    Attributes:
        name: of the line. rank: of its CTA. unit: of the SM; "" for a warp.
        start, end: cycles of each span. label: place in `labels` of each span.
        warp: its number in the run; -1 for what is no warp.
    """

    name: str
    rank: int
    unit: str
    start: Floats
    end: Floats
    label: Ints
    labels: tuple[str, ...]
    warp: int = -1

    @property
    def shown_end(self) -> Floats:
        """End of each span, or the start of the next where two overlap, as copies under way do."""
        following = np.concatenate([self.start[1:], [np.inf]])
        result: Floats = np.minimum(self.end, following)
        return result

    def cycles(self, label: str) -> float:
        """Return the cycles of one label."""
        if label not in self.labels:
            return 0.0
        mine = self.label == self.labels.index(label)
        return float((self.end - self.start)[mine].sum())


def tracks_of(
    detail: Detail, roles: Sequence[Role], label: Label | None = None
) -> tuple[Track, ...]:
    """Return the tracks of the first copy: warps by role, then the units of each SM.

    Args:
        detail: a run. roles: its roles, whose names the warps bear.
        label: names the work of units; "MMA", "load" and "store" when not given.
    """
    count = len(detail.trace.streams)
    found = [
        _warp_track(detail, member, _name(role, detail.place(member)[2]))
        for role in roles
        for member in role.members
        if member < count
    ]
    ranks = sorted({stream.rank for stream in detail.trace.streams})
    found += [
        track
        for rank in ranks
        for unit in WORKS
        if (track := _unit_track(detail, unit, rank, label)) is not None
    ]
    several = len(ranks) > 1
    return tuple(_with_rank(track) if several else track for track in found)


def _name(role: Role, warp: int) -> str:
    return f"{role.name}: warp {warp}" if role.named else f"warp {warp}"


def _with_rank(track: Track) -> Track:
    return replace(track, name=f"{track.name}, rank {track.rank}")


def _warp_track(detail: Detail, warp: int, name: str) -> Track:
    kind = {why: k for k, whys in enumerate(KINDS.values()) for why in whys}
    table = np.array([kind[why] for why in clock.REASONS])
    mine = detail.stands[detail.stands["warp"] == warp]
    issued = detail.issued[detail.first[warp] : detail.first[warp + 1]]
    start = np.concatenate([mine["start"], issued])
    end = np.concatenate([mine["end"], issued + 1])
    label = np.concatenate([table[mine["why"]], np.zeros(len(issued), np.int64)])
    order = np.argsort(start, kind="stable")
    start, end, label = start[order], end[order], label[order]
    first = np.flatnonzero(np.concatenate([[True], label[1:] != label[:-1]]))
    last = np.concatenate([first[1:], [len(label)]]) - 1
    rank = detail.place(warp)[1]
    return Track(name, rank, "", start[first], end[last], label[first], tuple(KINDS), warp)


def path_track(path: Sequence[Piece], roles: Sequence[Role]) -> Track:
    """Return the critical path as a track: whose cycles they are, a role's or a unit's."""
    names = names_of(roles)
    whose = [
        piece.what if piece.what in WORKS.values() else names.get(piece.warp, NOTHING)
        for piece in path
    ]
    labels = {name: k for k, name in enumerate(dict.fromkeys(whose))}
    label = np.array([labels[name] for name in whose], np.int64)
    first = np.flatnonzero(np.concatenate([[True], label[1:] != label[:-1]]))
    start = np.array([piece.start for piece in path])[first]
    end = np.concatenate([start[1:], [path[-1].end]])
    shown = tuple(f"path: {name}" for name in labels)
    return Track(PATH, 0, PATH, start, end, label[first], shown)


def _unit_track(detail: Detail, unit: str, rank: int, label: Label | None) -> Track | None:
    number = clock.SHARED_UNITS.index(unit)
    works = detail.works[(detail.works["what"] == number) & (detail.works["sm"] == rank)]
    works = works[np.argsort(works["start"], kind="stable")]
    if not len(works):
        return None
    plain = {"tensor": "MMA", "copy": "load", "store": "store"}[unit]
    names: dict[str, int] = {}
    labels = []
    for step in works["step"].tolist():
        event = detail.event(step)
        text = plain if label is None or event is None else label(event)
        labels.append(names.setdefault(text, len(names)))
    return Track(
        WORKS[unit], rank, unit, works["start"].copy(), works["end"].copy(),
        np.array(labels, np.int64), tuple(names),
    )  # fmt: skip


def slots(detail: Detail, width: int) -> Floats:
    """Return the share of issue slots used: an array of SMs, sub-partitions and bins of cycles.

    Args:
        detail: a run. width: cycles of a bin.
    """
    ranks = 1 + max(stream.rank for stream in detail.trace.streams)
    bins = int(detail.cycles) // width + 1
    places = [detail.place(warp) for warp in range(len(detail.first) - 1)]
    part = np.array([rank * 4 + number % 4 for _, rank, number in places])
    key = part[detail.warp] * bins + (detail.issued // width).astype(np.int64)
    counts = np.bincount(key, minlength=ranks * 4 * bins)
    return counts.reshape(ranks, 4, bins) / width

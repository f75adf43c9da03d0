"""A timeline as trace-event JSON, which ui.perfetto.dev opens; one cycle is one microsecond.

A process is an SM, with a thread for each warp and unit, and counters for the issue slots of its
sub-partitions. Arrows are the handovers of the critical path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from ..kernel_profile import KernelProfile
from ..path import WORKS
from .tracks import Track, slots

BIN: Final = 64
"""Cycles of a value of a counter."""


def perfetto_text(found: KernelProfile, tracks: Sequence[Track]) -> str:
    """Return the document."""
    entries = [*_names(found, tracks), *_spans(tracks), *_slots(found), *_arrows(found, tracks)]
    return json.dumps({"traceEvents": entries, "displayTimeUnit": "ns",
                       "otherData": {"kernel": found.kernel, "chip": found.chip,
                                     "unit": "1 us is one predicted cycle"}})  # fmt: skip


def _names(found: KernelProfile, tracks: Sequence[Track]) -> Iterator[dict[str, Any]]:
    for rank in sorted({track.rank for track in tracks}):
        yield {"name": "process_name", "ph": "M", "pid": rank, "tid": 0,
               "args": {"name": f"SM of CTA rank {rank}: {found.kernel[:60]}"}}  # fmt: skip
    for thread, track in enumerate(tracks):
        yield {"name": "thread_name", "ph": "M", "pid": track.rank, "tid": thread + 1,
               "args": {"name": track.name}}  # fmt: skip
        yield {"name": "thread_sort_index", "ph": "M", "pid": track.rank, "tid": thread + 1,
               "args": {"sort_index": thread}}  # fmt: skip


def _spans(tracks: Sequence[Track]) -> Iterator[dict[str, Any]]:
    for thread, track in enumerate(tracks):
        ends = track.shown_end.tolist()  # slices of a thread must not overlap by a part
        for start, end, label in zip(track.start.tolist(), ends, track.label.tolist(), strict=True):
            yield {"name": track.labels[label], "ph": "X", "pid": track.rank, "tid": thread + 1,
                   "ts": start, "dur": end - start,
                   "cat": "unit" if track.unit else "warp"}  # fmt: skip


def _slots(found: KernelProfile) -> Iterator[dict[str, Any]]:
    table = slots(found.detail, BIN)
    for rank, parts in enumerate(table):
        for number, part in enumerate(parts):
            for k, value in enumerate(part.tolist()):
                yield {"name": f"issue slots of sub-partition {number}", "ph": "C", "pid": rank,
                       "tid": 0, "ts": k * BIN, "args": {"share": round(value, 3)}}  # fmt: skip


def _arrows(found: KernelProfile, tracks: Sequence[Track]) -> Iterator[dict[str, Any]]:
    """From the instruction that ended a wait to the one that waited, along the critical path."""
    threads = {track.warp: thread + 1 for thread, track in enumerate(tracks) if track.warp >= 0}
    warp = found.detail.warp
    left = None
    for number, (piece, following) in enumerate(pairwise(found.path)):
        left = piece if piece.cause >= 0 else left
        if left is None or following.what in WORKS.values():
            continue
        giver, taker = int(warp[left.cause]), following.warp
        if giver != taker and giver in threads and taker in threads:
            for phase, member, time in (("s", giver, left.start), ("f", taker, following.start)):
                yield {"name": f"critical path: {left.what}", "cat": "path", "ph": phase,
                       "id": number, "pid": found.detail.place(member)[1],
                       "tid": threads[member], "ts": time,
                       **({"bp": "e"} if phase == "f" else {})}  # fmt: skip
        left = None

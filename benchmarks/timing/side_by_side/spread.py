"""How the kernels of the page spread query tiles over clusters, and which clusters are executed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Final

from benchmarks.hopper.times.problems import BYTES, Problem
from benchmarks.timing.side_by_side.callers import (
    SMS,
    Column,
    heads_in_turns,
    line_of,
    records,
    tiles_in_turns,
)
from benchmarks.timing.side_by_side.extents import clusters
from benchmarks.timing.side_by_side.grid.tiles import KEY_TILES, Extent, Layout
from fa4_cute.plan.launch.tiles import heads_of_section
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.records import Action, ClusterTrace, LaunchTrace

OURS: Final = "fa4_cute"
HEAD_BY_HEAD: Final = ("Modular", "CUTLASS")
"""Whose CTAs take the tiles of a head one after the other."""
RISING: Final = ("CUTLASS", "Gluon")
"""Whose first CTAs have the first queries, and with a mask the fewest keys."""
TURN: Final = "Gluon"
"""Whose CTAs are as many as the SMs, also with a mask, and take the tiles in turn."""
TURN_HEADS: Final = 4
"""Heads over which it goes with a mask before it takes the next queries."""
HALVES: Final = (1, 2)
"""Parts of a query tile's rows that have MMAs of their own: with a mask the first half may see
nothing of the last block, and in a window the second one nothing of the first."""
Batches = tuple[tuple[int, int], ...]
ALIKE: Final[dict[bool, Batches]] = {False: ((1024, 8), (2048, 4)), True: ((2048, 4),)}
"""Lengths and batches of the launches of which clusters are executed, without and with a mask."""
IN_TURN: Final[dict[bool, Batches]] = {False: ((1024, 3),), True: ((4096, 2),)}
"""Further ones of persistent CTAs. With a mask those of one launch see almost as many keys, so
that what a key costs needs another length; without one, what a tile costs another number of them.
"""
TAKEN_OVER: Final[dict[bool, Batches]] = {
    False: ((1024, 1), (1024, 2), (2048, 1)),
    True: ((1024, 1), (1024, 2), (4096, 1)),
}
"""Lengths and heads of the launches that one cluster executes whole whose CTAs take over others.

With a mask what a key costs needs the longer ones: by 2,048 a pair's came below its MMAs."""
NARROW, WIDE = 383, 1151
"""Windows that are executed for one that is no narrower; for others itself, and ``WIDER``."""
WIDER: Final = 639
L2_BYTES: Final = 50 << 20
"""What FlashAttention-4 takes the L2 to hold of keys and values."""


def windows_of(window: int | None) -> tuple[int | None, ...]:
    """Windows of launches of which clusters are executed: two, so that query tiles differ in keys.

    What a key and the ends of a window cost is the same in any.
    """
    if window is None:
        return (None,)
    return (NARROW, WIDE) if window >= NARROW else (window, WIDER)


def taken_by(
    launch: LaunchTrace, problem: Problem, layout: Layout, column: Column | None, parts: int = 1
) -> Iterator[tuple[ClusterTrace, list[int]]]:
    """The executed clusters, and the keys of the tiles that each took, of ``parts`` of their rows
    together."""
    extent = extent_of(problem, layout.runner, column)
    tiles = extent.tiles(layout) if parts == 1 else extent.by_parts(layout, parts)
    for trace in launch.traces:
        for number in trace.clusters:
            yield trace, layout.taken(tiles, number, clusters(launch))


def block_of(
    launches: Sequence[tuple[LaunchTrace, Problem]], layout: Layout, column: Column | None = None
) -> int:
    """How many keys the kernel takes at once: so that its MMAs grow with its blocks.

    Raises:
        ValueError: no such number; so the clusters are not those that they are taken for.
    """
    told = []
    for parts, block in product(HALVES, KEY_TILES):
        of = replace(layout, block=block)
        work = [
            (sum(taken) // block, work_of(trace)[1])
            for launch, problem in launches
            for trace, taken in taken_by(launch, problem, of, column, parts)
        ]
        if all(blocks * work[0][1] == mmas * work[0][0] for blocks, mmas in work):
            return block
        told.append(f"{block} keys: {work}")
    raise ValueError(f"(blocks, MMAs) of the executed clusters: {'; '.join(told)}")


def work_of(trace: ClusterTrace) -> tuple[int, int]:
    """What a cluster did, by which those that are alike are known: its copies and its MMAs."""
    kinds = [event.kind for event in trace.events]
    copies = mmas = 0
    for stream in trace.streams:
        seen = stream.event[stream.event >= 0]
        copies += sum(kinds[e] is Action.COPY_LOAD for e in seen.tolist())
        mmas += sum(kinds[e] is Action.MMA for e in seen.tolist())
    return copies, mmas


def layout_of(column: Column, problem: Problem, request: LaunchRequest) -> Layout:
    """How the kernel of a request spreads its tiles; one more call says the rows of a tile."""
    size, count, ours = prod(request.cluster), clusters(request), column.runner == OURS
    order = order_of(column, problem)
    rising = column.runner in RISING
    of = partial(Layout, cluster=size, order=order, runner=column.runner, rising=rising)
    if not is_persistent(column) and (count != SMS // size or problem.causal):
        total = problem.batch * problem.heads * problem.seqlen_q
        return of(rows=total // count, persistent=False)
    few = replace(problem, batch=1, heads=2, heads_kv=2)  # Gluon's has no kernel for one
    seen: list[LaunchRequest] = []

    def none(request: LaunchRequest) -> list[int]:
        seen.append(request)
        return []

    records(column, few, none)
    rows = few.heads * few.seqlen_q // clusters(seen[0])
    tiles = problem.batch * problem.heads * -(-problem.seqlen_q // rows)
    return of(rows=rows, persistent=count < tiles, turns=ours)


def in_a_row(column: Column) -> bool:
    """Whether tiles of a head follow one another."""
    ours = column.runner == OURS and is_persistent(column)
    return column.runner in HEAD_BY_HEAD or column.clc or ours


def order_of(column: Column, problem: Problem) -> str:
    """The order of a layout; persistent CTAs of this package take windows by sections."""
    in_sections = column.runner == OURS and problem.window is not None
    return "heads" if in_a_row(column) and not in_sections else "sections"


def is_persistent(column: Column) -> bool:
    """Whether a column of this package insists on persistent CTAs, or has no others."""
    return column.runner == TURN or ("scheduler", "persistent") in column.options


def takes_over(column: Column) -> bool:
    """Whether the CTAs of a column take over others: it asks for that."""
    return column.clc or (column.runner == OURS and ("scheduler", "dynamic") in column.options)


def extent_of(problem: Problem, runner: str, column: Column | None = None) -> Extent:
    """A problem as a grid of ``runner`` sees it; of a ``column`` of this package whose persistent
    CTAs take sections, with these."""
    row = (problem.head_dim + problem.head_dim_v) * BYTES[problem.dtype]
    if column is not None and (turned := heads_in_turns(column, problem)):
        section = turned
    elif runner == OURS:
        section = heads_of_section(problem.heads, problem.seqlen_k * row)
    elif runner == TURN:
        section = TURN_HEADS
    else:
        section = 1 << max(0, (L2_BYTES // (problem.seqlen_k * row)).bit_length() - 1)
    heads, kept = problem.batch * problem.heads, row if runner == OURS else 0
    return Extent(
        heads, problem.seqlen_q, problem.seqlen_k, problem.causal, section, kept, problem.window
    )


def sampled(
    request: LaunchRequest, problem: Problem, column: Column, _: Sequence[int] = ()
) -> list[int]:
    """Clusters to execute: the first; with a mask, of the first tiles' head, half and a quarter.

    Of persistent ones with a mask two that take as many tiles, and one that takes others.
    """
    if not problem.causal:
        return [0]
    count = clusters(request)
    if is_persistent(column):
        return [0, TURN_HEADS if column.runner == TURN else 3, count - 8]
    extent = extent_of(problem, column.runner)
    tiles = count // extent.heads
    stride = 1 if in_a_row(column) else min(extent.section, extent.heads)
    return [0, tiles // 2 * stride, 3 * tiles // 4 * stride]


def busiest(
    request: LaunchRequest, problem: Problem, column: Column, lengths: Sequence[int] = ()
) -> list[int]:
    """Clusters that stand for a launch executed as it is: one that has most query tiles.

    With a mask those of `sampled`; of chunks over pages, whose query tiles see nearly as many keys,
    the first one. CTAs that go back and forth begin with the last one in every other round, so that
    it has one tile more than the first where such a round is not full. With stream-K one that has
    most to do (``streamed``).

    Raises:
        ValueError: a stream-K launch has not the CTAs of its line.
    """
    line = line_of(column, problem, lengths)
    if line:
        if clusters(request) != line.num_ctas * line.lines:
            raise ValueError(f"{clusters(request)} CTAs, {line.num_ctas * line.lines} stretches")
        return [line.busiest()]
    if problem.causal:
        return [0] if problem.page else sampled(request, problem, column)
    count = clusters(request)
    rounds, rest = divmod(tiles_in_turns(column, problem), count)
    return [count - 1 if rest and rounds % 2 else 0]

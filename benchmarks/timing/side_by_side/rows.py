"""Makes rows of the side-by-side page: a few clusters are executed, the grid follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, Final

from benchmarks.hopper.times.problems import BYTES, Problem
from benchmarks.machine_state import CHIP, DRAWS, model
from benchmarks.timing.side_by_side import claimed, extents
from benchmarks.timing.side_by_side.callers import (
    Column,
    assembler_for,
    chosen,
    joined_after,
    records,
    settled,
)
from benchmarks.timing.side_by_side.extents import Costs, Executed, representatives
from benchmarks.timing.side_by_side.grid.fetched import Pace, Shared, fetched, once
from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout
from benchmarks.timing.side_by_side.problems import TOKENS, Family, Other, moved_bytes
from benchmarks.timing.side_by_side.records import shares
from benchmarks.timing.side_by_side.spread import (
    ALIKE,
    IN_TURN,
    OURS,
    TAKEN_OVER,
    block_of,
    busiest,
    extent_of,
    layout_of,
    order_of,
    sampled,
    taken_by,
    takes_over,
    windows_of,
)
from benchmarks.timing.side_by_side.steps import mixed
from sm100sim.crew.recording import Recording
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.predict.gpu import time_launch
from sm100sim.timing.records import LaunchTrace, SassKernel
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.trace import Matcher

Launches = list[tuple[LaunchTrace, Problem]]
KEPT: Final = 8  # problems whose recordings are kept


class Maker:
    """Makes rows of a chip; keeps the machine code that it has seen."""

    def __init__(self, chip_name: str = CHIP, *others: Maker, in_turn: Any = IN_TURN) -> None:
        """Nothing seen, but for what others recorded and assembled; `in_turn`: as `IN_TURN`."""
        chip, self._in_turn = load_chip(chip_name), in_turn
        self.draws: list[Draw] = [chip.draw(number) for number in range(DRAWS + 1)]
        self._kernels: dict[tuple[str, str], SassKernel] = {}
        self._costs: dict[tuple[Column, Family], tuple[Costs, Layout, SassKernel]] = {}
        self._recorded: dict[tuple[Any, ...], list[Recording]] = {}
        for other in others:
            self._kernels |= other._kernels
            self._recorded |= other._recorded

    def records(
        self, column: Column, problem: Problem, lengths: tuple[int, ...] = (), which: Any = sampled
    ) -> list[Recording]:
        """What the clusters of `which` executed; of packed sequences with `lengths`, all of them.

        Columns that differ in their assembler share it. Only the last problems are kept.
        """
        key = (replace(column, name="", assembler=""), problem, lengths, which)
        if key not in self._recorded:
            for old in list(self._recorded)[:-KEPT]:
                del self._recorded[old]

            def choice(request: LaunchRequest) -> list[int] | None:
                every = lengths and not problem.page
                return None if every else which(request, problem, column, lengths)

            self._recorded[key] = records(column, problem, choice, lengths)
        return self._recorded[key]

    def kernel(self, column: Column, request: LaunchRequest) -> SassKernel:
        """The machine code of a launch by a column's assembler."""
        key = (column.assembler, request.ptx)
        if key not in self._kernels:
            ptxas = assembler_for(column, request.ptx)
            self._kernels[key] = compiled(request.ptx, "sm_100a", request.kernel, ptxas=ptxas)
        return self._kernels[key]

    def family(self, column: Column, family: Family) -> list[dict[str, Any]]:
        """Rows of all lengths of a family.

        Raises:
            Declined: the column has no such kernel.
            ValueError: the executed clusters are not what the layout says they are.
        """
        rows = []
        for length in family.lengths:
            problem = family.problem(length, TOKENS // length)
            insisting = settled(column, problem)
            costs, layout, kernel = self.costs(insisting, family)
            extent = extent_of(problem, column.runner, insisting)
            moved = problem.bytes()
            if family.what:
                moved += again(costs, layout, extent, problem, int(self.draws[0]["sms"]))
            found = extents.whole(costs, layout, extent, self.draws, moved)
            rows.append(
                {
                    "family": family.name, "length": length, "column": column.name,
                    **self._facts([kernel]), "residue": round(costs.residue, 4),
                    "taken": round(found.taken, 3), "uneven": round(found.uneven, 4),
                    "beyond": {part: round(share, 4) for part, share in found.beyond.items()},
                    "busy": shares(found.busy), "cycles": [round(c) for c in found.cycles],
                }
            )  # fmt: skip
        return rows

    def costs(self, column: Column, family: Family) -> tuple[Costs, Layout, SassKernel]:
        """What a kernel's start, tiles and keys cost.

        Raises:
            Declined, ValueError: as `family`.
        """
        key = (replace(column, name=""), family)
        if key not in self._costs:
            executed, layout, kernel = self._executed(column, family)
            self._costs[key] = Costs.of(executed), layout, kernel
        return self._costs[key]

    def whole(self, column: Column, family: Family, length: int, heads: int) -> extents.Whole:
        """What a member of a family takes, of so many heads of all sequences.

        Raises:
            Declined, ValueError: as `family`.
        """
        problem = replace(family.problem(length, 1), heads=heads, heads_kv=heads)
        costs, layout, _ = self.costs(settled(column, problem), family)
        extent = extent_of(problem, column.runner)
        return extents.whole(costs, layout, extent, self.draws, problem.bytes())

    def other(self, column: Column, other: Other) -> dict[str, Any]:
        """The row of a problem that is executed as it is; launches come one after the other.

        One whose CTAs take over others is not: its costs say what it takes (``claimed``). Nor is
        one of sequences of a cache that differ, where its CTAs differ as much (``mixed``).
        """
        if other.lengths and other.problem.page and column.runner != OURS:
            return self._mixed(column, other)
        kernels: list[SassKernel] = []
        busy = {"HBM": extents.moving(moved_bytes(other), self.draws[0])}
        if other.problem.packed and other.lengths and takes_over(
            column := chosen(column, other.problem, other.lengths)
        ):
            moved = moved_bytes(other)
            cycles, used, kernel = claimed.cycles(self, column, other.problem, other.lengths, moved)
            busy |= used
            kernels.append(kernel)
        else:
            cycles = self._executed_as_it_is(column, other, busy, kernels)
        of_time = {unit: count / cycles[0] for unit, count in busy.items()}
        taken = round(of_time.pop(extents.TAKEN), 3)
        return {
            "family": "other", "name": other.name, "column": column.name,
            **self._facts(kernels), "taken": taken, "busy": shares(of_time),
            "cycles": [round(c) for c in cycles],
        }  # fmt: skip

    def _mixed(self, column: Column, other: Other) -> dict[str, Any]:
        found, costs, kernel = mixed.launch(
            self, column, other.problem, other.lengths, moved_bytes(other)
        )
        return {
            "family": "other", "name": other.name, "column": column.name,
            **self._facts([kernel]), "residue": round(costs.residue, 4),
            "taken": round(found.taken, 3), "busy": shares(found.busy),
            "cycles": [round(c) for c in found.cycles],
        }  # fmt: skip

    def _executed_as_it_is(
        self, column: Column, other: Other, busy: dict[str, float], kernels: list[SassKernel]
    ) -> list[float]:
        """Cycles by draw; adds what units do, and the kernels."""
        cycles = [0.0] * len(self.draws)
        for recorded in self.records(column, other.problem, other.lengths, busiest):
            kernel = self.kernel(column, recorded.request)
            launch = representatives(kernel, recorded)
            moved = moved_bytes(other) if not kernels else 0
            found = [time_launch(launch, draw) for draw in self.draws]
            after = joined_after(column, other.problem, other.lengths)
            for k, draw in enumerate(self.draws):
                read = draw["launch_cycles"] + extents.moving(moved, draw)
                cycles[k] += max(found[k].cycles, read + after)
            for unit, count in extents.spent(launch, found[0]).items():
                busy[unit] = busy.get(unit, 0.0) + count
            kernels.append(kernel)
        return cycles

    def _facts(self, kernels: Sequence[SassKernel]) -> dict[str, Any]:
        local = sum(i.opcode in ("LDL", "STL") for k in kernels for i in k.instructions)
        return {"launches": len(kernels), "local": local, "compiler": kernels[0].compiler,
                "model": model()}  # fmt: skip

    def _executed(
        self, column: Column, family: Family
    ) -> tuple[list[Executed], Layout, SassKernel]:
        if takes_over(column):
            return self._executed_whole(column, family)
        sizes = list(product(ALIKE[family.causal], windows_of(family.window)))
        launches: Launches = []
        while len(launches) < len(sizes):
            problem = sized(family, *sizes[len(launches)])
            (recorded,) = self.records(column, problem)
            kernel = self.kernel(column, recorded.request)
            launches.append((Matcher(kernel, recorded).launch(), problem))
            if len(launches) == 1:
                layout = layout_of(column, problem, recorded.request)
                in_turn = self._in_turn[family.causal] if layout.persistent else ()
                sizes += product(in_turn, windows_of(family.window)[-1:])
        return *self._timed(column, launches, layout), kernel

    def _executed_whole(
        self, column: Column, family: Family
    ) -> tuple[list[Executed], Layout, SassKernel]:
        """Small launches of a dynamic kernel: its first cluster takes over all others."""
        launches: Launches = []
        narrow, *_, wide = windows_of(family.window) * 2
        windows = (narrow, narrow, wide)
        for (length, heads), window in zip(TAKEN_OVER[family.causal], windows, strict=True):
            small = sized(family, (length, 1), window)
            problem = replace(small, heads=heads, heads_kv=heads)
            (recorded,) = records(column, problem, lambda _: None)
            kernel = self.kernel(column, recorded.request)
            launches.append((extents.of_one(kernel, recorded), problem))
        rows = problem.seqlen_q * problem.heads // extents.clusters(recorded.request)
        size, order = prod(recorded.request.cluster), order_of(column, problem)
        layout = Layout(rows, size, False, order, runner=column.runner, claims=True)
        return *self._timed(column, launches, layout), kernel

    def _timed(
        self, column: Column, launches: Launches, layout: Layout
    ) -> tuple[list[Executed], Layout]:
        """What executed clusters took, and the layout with the keys that they take at once."""
        layout = replace(layout, block=block_of(launches, layout, column))
        found = [
            Executed(len(taken), sum(taken), extents.times(trace, launch, self.draws))
            for launch, problem in launches
            for trace, taken in taken_by(launch, problem, layout, column)
        ]
        return found, layout


def sized(family: Family, size: tuple[int, int], window: int | None) -> Problem:
    """A member of a length and a batch, in another window where it has one."""
    return (family if window is None else family.in_window(window)).problem(*size)


def again(costs: Costs, layout: Layout, extent: Extent, problem: Problem, sms: int) -> int:
    """Bytes of K, V and biases that a launch reads from memory more than once."""
    row = (problem.head_dim + problem.head_dim_v) * BYTES[problem.dtype]
    shared = Shared(row, BYTES["bf16"] * (problem.added == "bias"), problem.heads)
    start, tile, key = costs.cycles[0]
    pace = Pace(tile + start * (not layout.persistent), key * layout.block)
    places = sms // layout.cluster
    return fetched(extent, layout, shared, pace, places) - once(extent, layout, shared)

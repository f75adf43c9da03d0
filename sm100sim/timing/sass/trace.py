"""From a recording and machine code to what the clocked machine executes: `LaunchTrace`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from ...contract.codes import SMEM_RESERVED
from ...crew.recording import Recording, reads_parameter
from ...layouts.tensor_map import TensorMap
from ..lane_loops import unrolled
from ..records import (
    Action,
    ClusterTrace,
    DynamicEvent,
    Extent,
    Indices,
    LaunchTrace,
    SassKernel,
    WarpStream,
)
from .events import Events
from .flow import Way
from .kinds import ACCESSES
from .relation import Related
from .script import BRANCH, Letter, Program
from .walk import Walker

Steps = npt.NDArray[np.int64]
MAP_BYTES: Final = 128
MAP_ALIGNMENT: Final = 64
"""Of a tensor map in memory (PTX ISA, `prefetch.tensormap` and `cp.async.bulk.tensor`)."""
FLAGS_END: Final = 12
"""Bytes of a map before its strides: the address, and flags, some of which only a driver sets."""


@dataclass(frozen=True)
class _Placed:
    """Something at a place in a warp's order: its index, and the anchors before it.

    `guarded`: it may be an instruction that did nothing there.
    """

    index: int
    anchors: int
    guarded: bool = False


class Matcher:
    """Machine code of a kernel and one recording of its PTX, whose clusters become traces.

    Attributes:
        names: engine operation of each instruction of the PTX.
        guesses: decisions about the ways of warps that neither script nor anchors confirmed.
        lost: accesses of the PTX's run for which no instruction was found, by PTX line.
    """

    def __init__(self, kernel: SassKernel, recording: Recording) -> None:
        """Relate both."""
        self._kernel, self._recording = kernel, recording
        self._program = Program(recording)
        related = Related(kernel, self._program)
        self._ignored = related.ignored
        self._walker = Walker(related)
        self.names = self._program.names
        self._events = Events(recording, self.names)
        self._moves = [
            name in ACCESSES and not reads_parameter(recording.assembled, k, name)
            for k, name in enumerate(self._program.names)
        ]
        self._accesses = self._instructions_of_accesses()
        static, dynamic = recording.assembled.static_smem, recording.request.smem_bytes
        self._shared_bytes = SMEM_RESERVED + static + dynamic
        self.guesses = 0
        self.lost: dict[int, int] = defaultdict(int)

    def _instructions_of_accesses(self) -> dict[tuple[int, tuple[str, ...]], list[int]]:
        """PTX line and opcodes of an access that may move -> instructions that it became."""
        opcodes: dict[int, set[tuple[str, ...]]] = defaultdict(set)
        for line, name in zip(self._program.lines, self._program.names, strict=True):
            opcodes[line].add(ACCESSES.get(name, ()))
        found: dict[tuple[int, tuple[str, ...]], list[int]] = defaultdict(list)
        for instruction in self._kernel.instructions:
            of = instruction.ptx_line or 0
            for which in opcodes.get(of, ()):
                if instruction.opcode in which:
                    found[of, which].append(instruction.index)
        return found

    def cluster(self, index: int) -> ClusterTrace:
        """The trace of one recorded cluster.

        Raises:
            Unmatched: no way through the machine code agrees with what a warp did.
            ValueError: the cluster was not recorded.
        """
        steps = self._recording.steps
        mine = np.flatnonzero(steps["cluster"] == index)
        if not len(mine):
            raise ValueError(f"cluster {index} was not recorded")
        key = steps["rank"][mine].astype(np.int64) << 16 | steps["warp"][mine]
        table: dict[DynamicEvent, int] = {}
        lines: dict[int, int] = {}
        streams = []
        for warp in np.unique(key):
            of = mine[key == warp]
            script = [x for x in self._program.script(of) if x.kind not in self._ignored]
            way = self._walker.way(script)
            self.guesses += way.guesses
            events = np.full(len(way.order), -1, np.int32)
            anchors = np.flatnonzero(way.letters >= 0)
            for at, letter in zip(anchors.tolist(), way.letters[anchors].tolist(), strict=True):
                event = self._events.event(script[letter].step)
                lines[int(way.order[at])] = script[letter].line
                events[at] = table.setdefault(event, len(table))
            for at, moved in self._moved(of, script, way).items():
                events[at] = table.setdefault(moved, len(table))
            streams.append(WarpStream(int(warp) >> 16, int(warp) & 0xFFFF, way.order, events))
        trace = ClusterTrace(
            self._kernel, (index,), tuple(streams), tuple(table), lines, self._shared_bytes
        )
        return unrolled(trace)

    def _moved(
        self, steps: Steps, script: Sequence[Letter], way: Way
    ) -> Mapping[int, DynamicEvent]:
        """Events of accesses that may move, by place in the order."""
        ran = self._recording.steps[steps]
        before = _anchors_before(steps, [x.step for x in script if x.kind != BRANCH])
        wanted: dict[tuple[int, tuple[str, ...]], list[_Placed]] = defaultdict(list)
        for step, k, mask, anchors in zip(
            steps.tolist(), ran["instruction"].tolist(), ran["mask"].tolist(), before.tolist(),
            strict=True,
        ):  # fmt: skip
            if mask and self._moves[k]:
                of = self._program.lines[k], ACCESSES[self._program.names[k]]
                wanted[of].append(_Placed(step, anchors))
        passed = np.cumsum(way.letters >= 0).astype(np.int32)
        found: dict[int, int] = {}
        for of, accesses in wanted.items():
            executed = []
            for instruction in self._accesses.get(of, ()):
                guarded = self._kernel.instructions[instruction].guarded
                places = np.flatnonzero(way.order == instruction).tolist()
                executed.append([_Placed(p, int(passed[p]), guarded) for p in places])
            found |= _pairs(executed, accesses)
        events = {at: self._events.event(step) for at, step in found.items()}
        answered = set(found.values())
        rest = [x for accesses in wanted.values() for x in accesses if x.index not in answered]
        rest.sort(key=lambda access: access.index)
        return {**events, **self._elsewhere(rest, way, passed, events)}

    def _elsewhere(
        self, rest: Sequence[_Placed], way: Way, passed: Indices, events: Mapping[int, DynamicEvent]
    ) -> Mapping[int, DynamicEvent]:
        """Events of accesses that ptxas joined with others, so that their line is gone.

        They belong to an instruction of their kind without an event and with the same anchors
        before it, in order; to the same where there are more of them.
        """
        found: dict[int, DynamicEvent] = {}
        groups: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
        for access in rest:
            name = self.names[int(self._recording.steps["instruction"][access.index])]
            groups[ACCESSES[name], access.anchors].append(access.index)
        for (opcodes, anchors), steps in groups.items():
            window = np.flatnonzero(passed == anchors).tolist()
            free = [
                at for at in window
                if at not in events and self._kernel.instructions[way.order[at]].opcode in opcodes
            ]  # fmt: skip
            for k, at in enumerate(free[: len(steps)]):
                count = min(len(free), len(steps))
                part = steps[k * len(steps) // count : (k + 1) * len(steps) // count]
                found[at] = _joined([self._events.event(step) for step in part])
            if not free:
                for k in self._recording.steps["instruction"][steps].tolist():
                    self.lost[self._program.lines[k]] += 1
        return found

    def launch(self, clusters: Sequence[int] | None = None) -> LaunchTrace:
        """The trace of a launch; clusters whose warps took the same ways share one.

        Args:
            clusters: indices; all that were recorded when not given.

        Raises:
            Unmatched, ValueError: as `cluster`.
        """
        recorded = np.unique(self._recording.steps["cluster"]).tolist()
        same: dict[tuple[bytes, ...], list[ClusterTrace]] = defaultdict(list)
        for index in recorded if clusters is None else clusters:
            trace = self.cluster(index)
            same[tuple(stream.order.tobytes() for stream in trace.streams)].append(trace)
        touched = Counter(line for group in same.values() for t in group for line in t.touched)
        common = frozenset(line for line, clusters in touched.items() if clusters > 1)
        request = self._recording.request
        return LaunchTrace(
            grid=request.grid,
            block=request.block,
            cluster=request.cluster,
            shared_bytes=self._shared_bytes,
            traces=tuple(
                replace(
                    group[0], clusters=tuple(trace.clusters[0] for trace in group),
                    common=common & group[0].touched,
                )
                for group in same.values()
            ),
            tensors=tensors_of(request.params),
            taken=self._recording.taken,
        )  # fmt: skip


def tensors_of(params: Sequence[bytes]) -> tuple[Extent, ...]:
    """What tensor maps among those parameters, or in structures, describe: one for each address."""
    found: dict[int, Extent] = {}
    for described in chain.from_iterable(map(_maps_in, params)):
        steps = (described.element_bytes, *described.strides)
        reach = max(n * step for n, step in zip(described.sizes, steps, strict=True))
        size = prod(described.sizes) * described.element_bytes
        known = found.get(described.address)
        if known is None or known.size < size:
            found[described.address] = Extent(described.address, reach, size)
    return tuple(found[address] for address in sorted(found))


def _maps_in(raw: bytes) -> Iterator[TensorMap]:
    """Tensor maps in a parameter, which may be a structure, as those of CUTLASS in C++ are.

    What a structure has besides is none: a map has an address, and nothing in what it does not use.
    """
    for at in range(0, len(raw) - MAP_BYTES + 1, MAP_ALIGNMENT):
        part = bytes(raw[at : at + MAP_BYTES])
        with suppress(ValueError):
            described = TensorMap.decode(part)
            alone = len(raw) == MAP_BYTES
            if alone or (described.address and described.encode()[FLAGS_END:] == part[FLAGS_END:]):
                yield described


def _anchors_before(steps: Steps, anchors: Sequence[int]) -> Indices:
    """For each step the anchors of its warp up to it."""
    return np.searchsorted(np.array(anchors, np.int64), steps, "right").astype(np.int32)


def _pairs(executed: Sequence[Sequence[_Placed]], accesses: Sequence[_Placed]) -> dict[int, int]:
    """Executions, by instruction, and the accesses of one line that they made, in order.

    An instruction that ran as often as there are accesses made each of them, or a part of each
    where there are several such. Of a loop that was unrolled, or of two ways, all instructions
    together did; those of what is left of its turns run under guards, as often as it takes. Another
    one that runs under a guard runs more often than its access is made: then those with the same
    anchors before them belong together.
    """
    places = sorted((place for one in executed for place in one), key=lambda place: place.index)
    sure = sum(not place.guarded for place in places)
    if sure <= len(accesses) and not any(len(one) == len(accesses) for one in executed):
        if sure and len(accesses) < len(places):
            spare = len(accesses) - sure
            kept = np.cumsum([place.guarded for place in places]) <= spare
            places = [p for p, keep in zip(places, kept, strict=True) if keep or not p.guarded]
        if len(places) <= len(accesses):
            return _in_order(places, accesses)
    return {k: v for one in executed for k, v in _in_order(one, accesses).items()}


def _in_order(executed: Sequence[_Placed], accesses: Sequence[_Placed]) -> dict[int, int]:
    """As many of both are pairs one after the other, else those with the same anchors are."""
    if len(executed) == len(accesses):
        return {a.index: b.index for a, b in zip(executed, accesses, strict=True)}
    by_anchors: dict[int, list[int]] = defaultdict(list)
    for access in reversed(accesses):
        by_anchors[access.anchors].append(access.index)
    return {
        place.index: by_anchors[place.anchors].pop()
        for place in executed
        if by_anchors.get(place.anchors)
    }


def _joined(parts: Sequence[DynamicEvent]) -> DynamicEvent:
    """The event of an access that moves what several would: neighbours share passes and sectors.

    One that initialises mbarriers initialises those of all.
    """
    if parts[0].kind is Action.MBARRIER_INIT:
        counts = {p: n for part in parts for p, n in zip(part.objects, part.shape, strict=True)}
        return replace(parts[0], objects=tuple(counts), shape=tuple(counts.values()))
    return replace(
        parts[0],
        size=sum(part.size for part in parts),
        wavefronts=max(part.wavefronts for part in parts),
        sectors=max(part.sectors for part in parts),
        pieces=tuple(sorted({piece for part in parts for piece in part.pieces})),
    )


def traced(kernel: SassKernel, recording: Recording) -> LaunchTrace:
    """Return the trace of a recorded launch on machine code (`lines.compiled`).

    Raises:
        Unmatched: no way through the machine code agrees with what a warp did.
    """
    return Matcher(kernel, recording).launch()

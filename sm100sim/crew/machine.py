"""The engine's machine: made, run, read, and freed."""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..contract.codes import NONE32
from ..contract.records import (
    LOADED,
    OUT_OF_MEMORY,
    Handle,
    Options,
    Progress,
    RawEvent,
    RawFinding,
    RawStep,
    Region,
    Shared,
    Totals,
)
from ..engine.binding import load_engine
from ..isa.assemble import Assembled, parameter_buffer, raw_program
from ..isa.cross_talk import Talk
from ..launch_request import LaunchRequest
from ..memory import Allocation
from ..options import MODES, RunOptions
from ..report import Event, EventKind
from .recording import RAW_STEP, Arrays
from .results import Results


@dataclass(frozen=True)
class Prepared:
    """A launch, ready to be executed.

    Attributes:
        request: what to launch.
        assembled: its program.
        options: how to run it.
        memory: what the kernel may touch.
    """

    request: LaunchRequest
    assembled: Assembled
    options: RunOptions
    memory: list[Allocation]

    def raw_options(self) -> Options:
        """The options as the engine takes them."""
        request, options, assembled = self.request, self.options, self.assembled
        raw = Options()
        raw.grid[:] = request.grid
        raw.block[:] = request.block
        raw.cluster[:] = request.cluster
        raw.dynamic_smem = request.smem_bytes
        offsets = assembled.param_offsets
        raw.n_params_bytes = max(
            [o + len(p) for o, p in zip(offsets, request.params, strict=True)], default=0
        )
        raw.mode = MODES.index(options.mode)
        raw.poison = int(options.poison)
        raw.check = int(options.checks)
        raw.exact_mma = int(options.exact_mma)
        raw.trace_cluster = NONE32 if options.trace_cluster is None else options.trace_cluster
        raw.max_findings = options.max_findings
        raw.talks = int(assembled.talk is Talk.WAITS)
        raw.seed = options.seed & (2**64 - 1)
        raw.max_idle_instructions = options.max_idle_instructions
        raw.max_instructions = options.max_instructions or 0
        return raw


class Share:
    """What the machines of one launch have in common."""

    def __init__(self, raw: Options) -> None:
        """`raw`: the launch's options.

        Raises:
            MemoryError: there is no host memory for it.
        """
        self.handle: Shared | None = None
        self.lib = load_engine()
        self.handle = self.lib.sm100_share_new(ct.byref(raw))
        if not self.handle:
            raise MemoryError("the simulator got no host memory for a launch")

    def __del__(self) -> None:
        handle, self.handle = self.handle, None
        if handle:
            self.lib.sm100_share_free(handle)

    def holds(self) -> bool:
        """Whether what ran in several threads is what one thread would have made."""
        return bool(self.lib.sm100_share_holds(self.handle))

    def undo(self) -> None:
        """Give the launch's memory its former bytes; all machines have ended."""
        self.lib.sm100_share_undo(self.handle)


class Machine:
    """The engine's machine for a launch, or for the clusters of one that fall to one thread.

    While it runs it writes to itself and to the launch's buffers; nothing may be freed meanwhile.
    """

    def __init__(self, launch: Prepared) -> None:
        """Make it, with program and memory.

        Raises:
            MemoryError: there is no host memory for it.
        """
        self.handle: Handle | None = None
        self._share: Share | None = None  # lives as long as the machine
        self._recording: Arrays | None = None  # the same
        self.lib = load_engine()
        self.assembled = launch.assembled
        self.max_findings = launch.options.max_findings
        self.params = parameter_buffer(launch.assembled, launch.request.params)
        self.progress = Progress()
        self.handle = self.lib.sm100_machine_new(ct.byref(launch.raw_options()))
        if not self.handle:
            raise MemoryError("the simulator got no host memory for a machine")
        self._load(launch.memory)

    def _load(self, memory: list[Allocation]) -> None:
        """Give the machine its program and its memory."""
        regions = (Region * max(len(memory), 1))()
        for region, known in zip(regions, memory, strict=False):
            region.lo, region.hi = known.start, known.start + known.size
            region.kind = known.kind
        params = ct.cast(self.params, ct.POINTER(ct.c_uint8))
        answers = (
            self.lib.sm100_machine_load(self.handle, ct.byref(raw_program(self.assembled))),
            self.lib.sm100_machine_memory(self.handle, regions, len(memory), params),
        )
        if OUT_OF_MEMORY in answers:
            raise MemoryError("the simulator got no host memory for the program")
        if answers[0] != LOADED:
            raise RuntimeError(
                f"instruction {answers[0]} has an opcode that the engine does not have"
            )

    def __del__(self) -> None:
        # A thread that still runs holds a reference.
        self.free()

    def free(self) -> None:
        """Give its memory back."""
        handle, self.handle = self.handle, None
        if handle:
            self.lib.sm100_machine_free(handle)

    def share(self, share: Share) -> None:
        """Take the launch's clusters in turns with other machines.

        Raises:
            MemoryError: there is no host memory for it.
        """
        self._share = share
        if not self.lib.sm100_machine_share(self.handle, share.handle):
            raise MemoryError("the simulator got no host memory for a machine")

    def record(self, plan: npt.NDArray[np.uint8], *, abreast: bool) -> None:
        """Record what the warps of clusters execute: a `ClusterPlan` for each of the launch.

        `abreast`: who takes over clusters (`recording`).
        """
        self._recording = Arrays(self.assembled, plan, abreast=abreast)
        self.lib.sm100_machine_record(self.handle, ct.byref(self._recording.raw))

    def run(self) -> None:
        """Run to the end."""
        self.lib.sm100_machine_run(self.handle, ct.byref(self.progress))

    def stop(self) -> None:
        """End the run soon."""
        self.lib.sm100_machine_stop(self.handle)

    def results(self) -> Results:
        """What it has to tell, at its end."""
        return Results(
            self._totals(), *self._counts(), self._findings(self.max_findings), self._events(),
            self._output(),
        )  # fmt: skip

    @property
    def taken(self) -> int:
        """Clusters that others took over while it recorded."""
        return self._recording.taken if self._recording else 0

    def steps(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint64]]:
        """Recorded steps (RAW_STEP) and the values of registers that were kept."""
        steps = np.empty(self.lib.sm100_machine_steps(self.handle, None, 0), RAW_STEP)
        values = np.empty(self.lib.sm100_machine_values(self.handle, None, 0), np.uint64)
        to_steps = steps.ctypes.data_as(ct.POINTER(RawStep))
        self.lib.sm100_machine_steps(self.handle, to_steps, len(steps))
        to_values = values.ctypes.data_as(ct.POINTER(ct.c_uint64))
        self.lib.sm100_machine_values(self.handle, to_values, len(values))
        return steps, values

    def _totals(self) -> Totals:
        """Counts of the run."""
        out = Totals()
        self.lib.sm100_machine_totals(self.handle, ct.byref(out))
        return out

    def _counts(self) -> tuple[list[int], list[int]]:
        """Executed warp instructions per opcode and per engine instruction."""
        per_opcode = (ct.c_uint64 * self.lib.sm100_opcode_count())()
        per_instruction = (ct.c_uint64 * len(self.assembled.code))()
        self.lib.sm100_machine_counts(self.handle, per_opcode, per_instruction)
        return list(per_opcode), list(per_instruction)

    def _output(self) -> str:
        """What the kernel printed; bytes that are no UTF-8 become replacement characters."""
        count = self.lib.sm100_machine_output(self.handle, None, 0)
        out = (ct.c_uint8 * max(count, 1))()
        self.lib.sm100_machine_output(self.handle, out, count)
        return bytes(out[:count]).decode(errors="replace")

    def _findings(self, cap: int) -> list[RawFinding]:
        """At most `cap` findings, and the fault."""
        out = (RawFinding * (cap + 1))()
        count = self.lib.sm100_machine_findings(self.handle, out, cap + 1)
        return list(out[:count])

    def _events(self) -> list[Event]:
        """The timeline of the traced cluster."""
        count = self.lib.sm100_machine_events(self.handle, None, 0)
        out = (RawEvent * max(count, 1))()
        self.lib.sm100_machine_events(self.handle, out, count)
        return [
            Event(EventKind(e.kind), e.rank, e.warp, e.line, e.t0, e.t1, e.a, e.b)
            for e in out[:count]
        ]

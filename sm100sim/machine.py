"""The engine's machine for one launch: made, run while interrupts are heard, read, and freed."""

from __future__ import annotations

import ctypes as ct
import threading
from collections.abc import Sequence

from .contract.codes import NONE32
from .contract.records import (
    LOADED,
    OUT_OF_MEMORY,
    Options,
    Progress,
    RawEvent,
    RawFinding,
    Region,
    Totals,
)
from .engine.binding import load_engine
from .engine.progress import wait_and_show
from .isa.assemble import Assembled, parameter_buffer, raw_program
from .launch_request import LaunchRequest
from .memory import Allocation
from .options import MODES, RunOptions
from .report import Event, EventKind

START_SECONDS = 10.0
"""How long a thread may take that was interrupted between its creation and its start."""


def _options(request: LaunchRequest, options: RunOptions, offsets: Sequence[int]) -> Options:
    raw = Options()
    raw.grid[:] = request.grid
    raw.block[:] = request.block
    raw.cluster[:] = request.cluster
    raw.dynamic_smem = request.smem_bytes
    raw.n_params_bytes = max(
        [o + len(p) for o, p in zip(offsets, request.params, strict=True)], default=0
    )
    raw.mode = MODES.index(options.mode)
    raw.poison = int(options.poison)
    raw.check = int(options.checks)
    raw.exact_mma = int(options.exact_mma)
    raw.trace_cluster = NONE32 if options.trace_cluster is None else options.trace_cluster
    raw.max_findings = options.max_findings
    raw.seed = options.seed & (2**64 - 1)
    raw.max_idle_instructions = options.max_idle_instructions
    raw.max_instructions = options.max_instructions or 0
    return raw


class Machine:
    """The engine's machine for one launch; a context manager that stops and frees it.

    The engine runs in a thread of its own, so that the caller's thread hears interrupts. It writes
    to the machine and to the launch's buffers until it has ended; before that nothing is freed, and
    no interrupt, a second one neither, leaves the block. `Thread.join` would not do: in Python up
    to 3.12 an interrupted join takes the thread for ended, and the next join returns at once.
    """

    def __init__(
        self,
        request: LaunchRequest,
        assembled: Assembled,
        options: RunOptions,
        memory: list[Allocation],
    ):
        self.handle: int | None = None
        self.lib = load_engine()
        self.assembled = assembled
        self.params = parameter_buffer(assembled, request.params)
        self.progress = Progress()
        self._ended = threading.Event()
        self._worker: threading.Thread | None = None
        self.handle = self.lib.sm100_machine_new(
            ct.byref(_options(request, options, assembled.param_offsets))
        )
        if not self.handle:
            raise MemoryError("the simulator got no host memory for a machine")
        self._load(memory)

    def _load(self, memory: list[Allocation]) -> None:
        """Give the machine its program and its memory."""
        regions = (Region * max(len(memory), 1))()
        for region, known in zip(regions, memory, strict=False):
            region.lo, region.hi = known.start, known.start + known.size
            region.writable = int(known.writable)
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

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        held: BaseException | None = None
        while True:
            try:
                while self._worker is not None and not self._ended.is_set():
                    self.lib.sm100_machine_stop(self.handle)
                    if not self._ended.wait(START_SECONDS) and self._worker.ident is None:
                        return  # interrupted before it was a thread; __del__ frees the machine
                break
            except BaseException as interrupt:
                held = interrupt
        self._free()
        if held is not None:
            raise held

    def __del__(self) -> None:
        # A thread that still runs holds a reference.
        self._free()

    def _free(self) -> None:
        handle, self.handle = self.handle, None
        if handle:
            self.lib.sm100_machine_free(handle)

    def run(self, name: str) -> None:
        """Run to the end.

        Args:
            name: what to call the launch when it takes long.

        Raises:
            KeyboardInterrupt: it came meanwhile; leaving the block stops the engine.
        """
        total = self.totals().clusters_total
        self._worker = threading.Thread(target=self._run, name=f"sm100sim {name}")
        try:
            self._worker.start()
        except RuntimeError:  # the process may have no more threads
            self._worker = None
            raise
        wait_and_show(self._ended, name, self.progress, total)

    def _run(self) -> None:
        try:
            self.lib.sm100_machine_run(self.handle, ct.byref(self.progress))
        finally:
            self._ended.set()

    def totals(self) -> Totals:
        """Counts of the run."""
        out = Totals()
        self.lib.sm100_machine_totals(self.handle, ct.byref(out))
        return out

    def counts(self) -> tuple[list[int], list[int]]:
        """Executed warp instructions per opcode and per engine instruction."""
        per_opcode = (ct.c_uint64 * self.lib.sm100_opcode_count())()
        per_instruction = (ct.c_uint64 * len(self.assembled.code))()
        self.lib.sm100_machine_counts(self.handle, per_opcode, per_instruction)
        return list(per_opcode), list(per_instruction)

    def output(self) -> str:
        """What the kernel printed; bytes that are no UTF-8 become replacement characters."""
        count = self.lib.sm100_machine_output(self.handle, None, 0)
        out = (ct.c_uint8 * max(count, 1))()
        self.lib.sm100_machine_output(self.handle, out, count)
        return bytes(out[:count]).decode(errors="replace")

    def findings(self, cap: int) -> list[RawFinding]:
        """At most `cap` findings, and the fault."""
        out = (RawFinding * (cap + 1))()
        count = self.lib.sm100_machine_findings(self.handle, out, cap + 1)
        return list(out[:count])

    def events(self) -> list[Event]:
        """The timeline of the traced cluster."""
        count = self.lib.sm100_machine_events(self.handle, None, 0)
        out = (RawEvent * max(count, 1))()
        self.lib.sm100_machine_events(self.handle, out, count)
        return [
            Event(EventKind(e.kind), e.rank, e.warp, e.line, e.t0, e.t1, e.a, e.b)
            for e in out[:count]
        ]

"""One launch: PTX text and launch configuration in, `Report` out."""

from __future__ import annotations

import ctypes as ct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .contract.codes import LANES as WARP_THREADS
from .contract.codes import MAX_CLUSTER, MAX_WARPS, NONE32, SMEM_MAX, SMEM_RESERVED, Severity
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
from .engine.binding import load_engine, opcode_numbers
from .isa.assemble import Assembled, assemble, parameter_buffer, raw_program
from .launch_request import LaunchRequest
from .memory import Allocation, allocations
from .options import MODES, RunOptions, current_options
from .ptx.parser import parse
from .ptx.program import Module
from .report import Event, EventKind, Finding, Report, SimulationFault

MAX_SHARED = SMEM_MAX - SMEM_RESERVED
MAX_THREADS = MAX_WARPS * WARP_THREADS
PROGRESS_AFTER_SECONDS = 2.0


@lru_cache(maxsize=16)
def _module(ptx: str) -> Module:
    return parse(ptx)


@lru_cache(maxsize=64)
def prepare(ptx: str, kernel: str) -> Assembled:
    """Parse and lower one kernel of a PTX module; kept for further launches.

    Raises:
        PtxError: something in the PTX is not understood; names the line.
        ValueError: the module has no such kernel.
    """
    module = _module(ptx)
    if kernel not in module.kernels:
        raise ValueError(
            f"kernel: {kernel!r} is not in the PTX; it has {', '.join(module.kernels)}"
        )
    return assemble(module, module.kernels[kernel], opcode_numbers())


def _check_request(request: LaunchRequest, assembled: Assembled) -> None:
    """Refuse launches that the hardware would refuse (CUDA driver API, cuLaunchKernelEx)."""
    threads = int(np.prod(request.block))
    ctas = int(np.prod(request.cluster))
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(
            f"block: {request.block} has {threads} threads; 1 to {MAX_THREADS} are possible"
        )
    if not 1 <= ctas <= MAX_CLUSTER:
        raise ValueError(
            f"cluster: {request.cluster} has {ctas} CTAs; 1 to {MAX_CLUSTER} are possible"
        )
    for size, part in zip(request.grid, request.cluster, strict=True):
        if size < 1 or size % part:
            raise ValueError(
                f"grid: {request.grid} is not a positive multiple of cluster {request.cluster}"
            )
    need = request.smem_bytes + assembled.static_smem
    if need > MAX_SHARED:
        raise ValueError(f"smem_bytes: {need} bytes of shared memory, {MAX_SHARED} exist per CTA")
    required = assembled.kernel.directives.get("reqntid")
    if isinstance(required, tuple) and tuple(request.block) != tuple(required):
        raise ValueError(f"block: {request.block} differs from the kernel's .reqntid {required}")


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
    return raw


class _Machine:
    """The engine's machine for one launch; a context manager that frees it."""

    def __init__(
        self,
        request: LaunchRequest,
        assembled: Assembled,
        options: RunOptions,
        memory: list[Allocation],
    ):
        self.lib = load_engine()
        self.assembled = assembled
        self.handle = self.lib.sm100_machine_new(
            ct.byref(_options(request, options, assembled.param_offsets))
        )
        if not self.handle:
            raise MemoryError("the simulator got no host memory for a machine")
        self.progress = Progress()
        self.params = parameter_buffer(assembled, request.params)
        try:
            self._load(memory)
        except BaseException:
            self.lib.sm100_machine_free(self.handle)
            raise

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

    def __enter__(self) -> _Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.lib.sm100_machine_free(self.handle)

    def run(self, name: str) -> None:
        """Run to the end; a keyboard interrupt stops the engine."""
        done = threading.Event()
        shower = threading.Thread(target=_show_progress, args=(name, self, done), daemon=True)
        shower.start()
        worker = threading.Thread(target=self._run)
        worker.start()
        try:
            worker.join()
        except BaseException:
            self.lib.sm100_machine_stop(self.handle)
            worker.join()
            raise
        finally:
            done.set()
            shower.join()

    def _run(self) -> None:
        self.lib.sm100_machine_run(self.handle, ct.byref(self.progress))

    def totals(self) -> Totals:
        out = Totals()
        self.lib.sm100_machine_totals(self.handle, ct.byref(out))
        return out

    def counts(self) -> tuple[list[int], list[int]]:
        """Executed warp instructions per opcode and per engine instruction."""
        per_opcode = (ct.c_uint64 * self.lib.sm100_opcode_count())()
        per_instruction = (ct.c_uint64 * len(self.assembled.code))()
        self.lib.sm100_machine_counts(self.handle, per_opcode, per_instruction)
        return list(per_opcode), list(per_instruction)

    def findings(self, cap: int) -> list[RawFinding]:
        out = (RawFinding * (cap + 1))()
        count = self.lib.sm100_machine_findings(self.handle, out, cap + 1)
        return list(out[:count])

    def events(self) -> list[Event]:
        count = self.lib.sm100_machine_events(self.handle, None, 0)
        out = (RawEvent * max(count, 1))()
        self.lib.sm100_machine_events(self.handle, out, count)
        return [
            Event(EventKind(e.kind), e.rank, e.warp, e.line, e.t0, e.t1, e.a, e.b)
            for e in out[:count]
        ]


def _show_progress(name: str, machine: _Machine, done: threading.Event) -> None:
    """On a terminal, show a long run's progress in one line; silent in a pipe."""
    if done.wait(PROGRESS_AFTER_SECONDS) or not sys.stderr.isatty():
        return
    start = time.monotonic() - PROGRESS_AFTER_SECONDS
    total = machine.totals().clusters_total
    while not done.wait(0.5):
        finished, instructions = machine.progress.clusters, machine.progress.instructions
        spent = time.monotonic() - start
        left = f"{spent / finished * (total - finished):.0f} s left" if finished else "first tile"
        print(
            f"\rsm100sim {name[:40]}: {finished}/{total} clusters, "
            f"{instructions / spent:,.0f} warp instructions/s, {left}",
            end="\x1b[K", file=sys.stderr, flush=True,
        )  # fmt: skip
    print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _finding(raw: RawFinding, source: Sequence[str]) -> Finding:
    def text(line: int) -> str:
        return source[line - 1] if 0 < line <= len(source) else ""

    known = raw.rank != NONE32
    return Finding(
        code=raw.code.decode(),
        message=raw.text.decode(errors="replace"),
        line=raw.line,
        source=text(raw.line),
        line2=raw.line2,
        source2=text(raw.line2),
        ctaid=(raw.ctaid[0], raw.ctaid[1], raw.ctaid[2]) if known else None,
        rank=raw.rank if known else None,
        warp=raw.warp if raw.warp != NONE32 else None,
        lane=raw.lane if raw.warp != NONE32 else None,
        fatal=raw.severity == Severity.FAULT,
        count=raw.count,
    )


def _report(
    request: LaunchRequest,
    machine: _Machine,
    options: RunOptions,
    times: tuple[float, float],
    memory: str,
) -> Report:
    totals = machine.totals()
    per_opcode, per_instruction = machine.counts()
    source = request.ptx.splitlines()
    findings = tuple(_finding(raw, source) for raw in machine.findings(options.max_findings))
    names = {number: name for name, number in opcode_numbers().items()}
    lines: Counter[int] = Counter()
    for line, count in zip(machine.assembled.code["line"], per_instruction, strict=True):
        lines[int(line)] += count
    ended = totals.clusters_done == totals.clusters_total and not totals.faulted
    complete = ended and not totals.lost
    return Report(
        kernel=request.kernel,
        grid=request.grid,
        block=request.block,
        cluster=request.cluster,
        verdict="findings" if findings else "clean" if complete else "incomplete",
        complete=complete,
        findings=findings,
        instructions=totals.instructions,
        thread_instructions=totals.thread_instructions,
        clusters=totals.clusters_done,
        seconds=times[1],
        prepare_seconds=times[0],
        cycles=totals.cycles,
        tma_bytes_loaded=totals.tma_bytes_loaded,
        tma_bytes_stored=totals.tma_bytes_stored,
        mma_instructions=totals.mma_instructions,
        mma_flops=totals.mma_flops,
        opcode_counts={names[k]: n for k, n in enumerate(per_opcode) if n},
        line_counts=dict(lines),
        events=tuple(machine.events()),
        memory_check=memory,
    )


def run(
    request: LaunchRequest, options: RunOptions | None = None, buffers: Iterable[Any] = ()
) -> Report:
    """Execute a launch on the virtual SM100.

    Args:
        request: PTX, kernel, grid and parameters.
        options: how to run; the current options when not given.
        buffers: host memory that the kernel may touch, besides what `register` made known.

    Raises:
        SimulationFault: a rule was broken, or a dead- or livelock (unless options say otherwise).
        PtxError: something in the PTX is not understood.
        ValueError: a launch that the hardware would refuse.
    """
    options = options or current_options()
    start = time.perf_counter()
    assembled = prepare(request.ptx, request.kernel)
    _check_request(request, assembled)
    known, words = allocations(buffers)
    known += [Allocation(array.ctypes.data, array.nbytes) for _, array in assembled.globals]
    prepared = time.perf_counter()
    with _Machine(request, assembled, options, known) as machine:
        machine.run(request.kernel)
        spent = time.perf_counter() - prepared
        report = _report(request, machine, options, (prepared - start, spent), words)
    if options.raise_on_fault and any(f.fatal for f in report.findings):
        raise SimulationFault(report)
    return report

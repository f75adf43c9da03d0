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

from .engine.binding import Options, RawEvent, RawFinding, Region, load_engine, opcode_numbers
from .host.launch_request import LaunchRequest
from .isa.assemble import Assembled, assemble, parameter_buffer
from .memory import Allocation, allocations
from .options import MODES, RunOptions, current_options
from .ptx.parser import parse
from .ptx.program import Module
from .report import Event, EventKind, Finding, Report, SimulationFault

NONE32 = 0xFFFFFFFF
CHECK_MMA_EXACT = 256
MAX_SHARED = 232448
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
    if not 1 <= threads <= 1024:
        raise ValueError(f"block: {request.block} has {threads} threads; 1 to 1024 are possible")
    if not 1 <= ctas <= 16:
        raise ValueError(f"cluster: {request.cluster} has {ctas} CTAs; 1 to 16 are possible")
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
    raw.check = int(options.checks) | (CHECK_MMA_EXACT if options.exact_mma else 0)
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
        self.handle = ct.c_void_p(
            self.lib.sm100_machine_new(
                ct.byref(_options(request, options, assembled.param_offsets))
            )
        )
        a = assembled
        failed = self.lib.sm100_machine_load(
            self.handle, a.code.ctypes.data, len(a.code), a.operands.ctypes.data, len(a.operands),
            a.register_template.ctypes.data, len(a.register_template), a.specials.ctypes.data,
            len(a.specials), a.static_smem, a.entry_registers, a.local_bytes,
        )  # fmt: skip
        if failed:
            raise RuntimeError(
                f"instruction {failed - 1} has an opcode that the engine does not have"
            )
        regions = (Region * max(len(memory), 1))()
        for region, known in zip(regions, memory, strict=False):
            region.lo, region.hi = known.start, known.start + known.size
            region.writable = int(known.writable)
        self.params = parameter_buffer(assembled, request.params)
        self.lib.sm100_machine_memory(self.handle, regions, len(memory), ct.addressof(self.params))
        self.progress = np.zeros(4, np.uint64)

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
        self.lib.sm100_machine_run(self.handle, self.progress.ctypes.data, 2**62)

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        per_op = np.zeros(self.lib.sm100_opcode_count(), np.uint64)
        per_ins = np.zeros(len(self.assembled.code), np.uint64)
        totals = np.zeros(11, np.uint64)
        self.lib.sm100_machine_counts(
            self.handle, per_op.ctypes.data, per_ins.ctypes.data, totals.ctypes.data
        )
        return per_op, per_ins, totals

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
    total = int(machine.totals()[2][3])
    while not done.wait(0.5):
        finished, instructions = int(machine.progress[0]), int(machine.progress[2])
        spent = time.monotonic() - start
        left = f"{spent / finished * (total - finished):.0f} s left" if finished else "first tile"
        print(
            f"\rsm100sim {name[:40]}: {finished}/{total} clusters, "
            f"{instructions / spent:,.0f} warp instructions/s, {left}",
            end="\x1b[K", file=sys.stderr, flush=True,
        )  # fmt: skip
    print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _finding(raw: RawFinding, source: Sequence[str]) -> Finding:
    code, _, message = raw.text.decode(errors="replace").partition("\n")

    def text(line: int) -> str:
        return source[line - 1] if 0 < line <= len(source) else ""

    known = raw.rank != NONE32
    return Finding(
        code=code.rstrip("!"),
        message=message,
        line=raw.line,
        source=text(raw.line),
        line2=raw.line2,
        source2=text(raw.line2),
        ctaid=(raw.ctaid[0], raw.ctaid[1], raw.ctaid[2]) if known else None,
        rank=raw.rank if known else None,
        warp=raw.warp if raw.warp != NONE32 else None,
        lane=raw.lane if raw.warp != NONE32 else None,
        fatal=code.endswith("!"),
        count=raw.count,
    )


def _report(
    request: LaunchRequest,
    machine: _Machine,
    options: RunOptions,
    times: tuple[float, float],
    memory: str,
) -> Report:
    per_op, per_ins, totals = machine.totals()
    source = request.ptx.splitlines()
    findings = tuple(_finding(raw, source) for raw in machine.findings(options.max_findings))
    names = {number: name for name, number in opcode_numbers().items()}
    lines: Counter[int] = Counter()
    for line, count in zip(machine.assembled.code["line"], per_ins, strict=True):
        lines[int(line)] += int(count)
    complete = totals[2] == totals[3] and not totals[9] and not totals[10]
    return Report(
        kernel=request.kernel,
        grid=request.grid,
        block=request.block,
        cluster=request.cluster,
        verdict="findings" if findings else "clean" if complete else "incomplete",
        complete=bool(complete),
        findings=findings,
        instructions=int(totals[0]),
        thread_instructions=int(totals[1]),
        clusters=int(totals[2]),
        seconds=times[1],
        prepare_seconds=times[0],
        cycles=int(totals[8]),
        tma_bytes_loaded=int(totals[4]),
        tma_bytes_stored=int(totals[5]),
        mma_instructions=int(totals[6]),
        mma_flops=int(totals[7]),
        opcode_counts={names[k]: int(n) for k, n in enumerate(per_op) if n},
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

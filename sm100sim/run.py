"""One launch: PTX text and launch configuration in, `Report` out."""

from __future__ import annotations

import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .contract.codes import LANES as WARP_THREADS
from .contract.codes import MAX_CLUSTER, MAX_WARPS, NONE32, SMEM_MAX, SMEM_RESERVED, Severity
from .contract.records import RawFinding
from .crew.crew import Crew
from .crew.results import Results
from .engine.binding import opcode_numbers
from .findings.suppress import divided
from .isa.assemble import Assembled, assemble
from .launch_request import LaunchRequest
from .memory import Allocation, allocations, readable, with_names, with_shared_names
from .options import Ambient, RunOptions, current_options
from .ptx.collection import paused
from .ptx.errors import Unsupported
from .ptx.parser import parse
from .ptx.places import Places
from .ptx.program import Module
from .report import Finding, FindingsError, Report, SimulationFault, UnsupportedExecuted, keep

MAX_SHARED = SMEM_MAX - SMEM_RESERVED
MAX_THREADS = MAX_WARPS * WARP_THREADS
MAX_GRID = (2**31 - 1, 65_535, 65_535)
MAX_BLOCK = (1024, 1024, 64)
"""CTAs of a grid and threads of a CTA in x, y, z (CUDA programming guide, "Technical Specifications
per Compute Capability")."""


@lru_cache(maxsize=16)
def read_module(ptx: str) -> Module:
    """Parse a PTX module; kept for further launches. Kernels are read when they are launched.

    Raises:
        PtxError: the PTX cannot be read; names the line.
    """
    with paused():
        return parse(ptx, bodies=False)


UNSUPPORTED = "unsupported"
"""Code of the fault at an instruction without a meaning here."""

_places = lru_cache(maxsize=16)(Places)


@lru_cache(maxsize=64)
def prepare(ptx: str, kernel: str, placed: tuple[tuple[str, int], ...] = ()) -> Assembled:
    """Parse and lower one kernel of a PTX module; kept for further launches.

    Args:
        ptx: the module's text.
        kernel: name of the entry.
        placed: (name, address) of global variables that lie somewhere already.

    Raises:
        PtxError: the PTX cannot be read; names the line.
        ValueError: the module has no such kernel.
    """
    module = read_module(ptx)
    if kernel not in module.kernels:
        raise ValueError(
            f"kernel: {kernel!r} is not in the PTX; it has {', '.join(module.kernels)}"
        )
    with paused():
        return assemble(module, module.kernels[kernel].whole(), opcode_numbers(), dict(placed))


def _check_request(request: LaunchRequest, assembled: Assembled) -> None:
    """Refuse launches that the hardware would refuse (CUDA driver API, cuLaunchKernelEx)."""
    for name, most in (("grid", MAX_GRID), ("block", MAX_BLOCK)):
        extents = getattr(request, name)
        if any(n > limit for n, limit in zip(extents, most, strict=True)):
            raise ValueError(f"{name}: {extents} is larger than {most}, which is the most")
    threads = math.prod(request.block)
    ctas = math.prod(request.cluster)
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
    required = assembled.directives.get("reqntid")
    if isinstance(required, tuple) and tuple(request.block) != tuple(required):
        raise ValueError(f"block: {request.block} differs from the kernel's .reqntid {required}")


def _with_places(message: str, places: Places) -> str:
    """A message with the source line after every PTX line that it names."""

    def named(found: re.Match[str]) -> str:
        place = places.at(int(found.group(1)))
        return found.group() if place is None else f"{found.group()} ({place})"

    return re.sub(r"PTX line (\d+)", named, message)


def _tells(finding: Finding, why: Unsupported) -> bool:
    """Whether the run stopped at the instruction of `why`."""
    return finding.code == UNSUPPORTED and (finding.line, finding.message) == (why.line, why.what)


@dataclass(frozen=True)
class _Words:
    """What findings are put into words with.

    Attributes:
        places: PTX lines and source lines.
        refused: instructions without a meaning, which a fault names by number.
        memory: allocations of the launch.
        shared: shared variables by window offset.
    """

    places: Places
    refused: Sequence[Unsupported]
    memory: Sequence[Allocation]
    shared: Sequence[Allocation]

    def message(self, raw: RawFinding) -> str:
        """The sentence of a finding with names of source lines and buffers."""
        text = raw.text.decode(errors="replace")
        if raw.code.decode() == UNSUPPORTED and text.isdecimal():
            return self.refused[int(text)].what
        named = with_shared_names(with_names(text, self.memory), self.shared)
        return _with_places(named, self.places)

    def finding(self, raw: RawFinding) -> Finding:
        """The engine's record for people."""
        known, places = raw.rank != NONE32, self.places
        return Finding(
            code=raw.code.decode(),
            message=self.message(raw),
            line=raw.line,
            source=places.ptx_line(raw.line),
            line2=raw.line2,
            source2=places.ptx_line(raw.line2),
            ctaid=(raw.ctaid[0], raw.ctaid[1], raw.ctaid[2]) if known else None,
            rank=raw.rank if known else None,
            warp=raw.warp if raw.warp != NONE32 else None,
            lane=raw.lane if raw.warp != NONE32 else None,
            fatal=raw.severity == Severity.FAULT,
            count=raw.count,
            place=places.at(raw.line) if raw.line else None,
            place2=places.at(raw.line2) if raw.line2 else None,
        )


def _report(
    request: LaunchRequest,
    assembled: Assembled,
    results: Results,
    options: RunOptions,
    times: tuple[float, float],
    memory: tuple[list[Allocation], str],
) -> Report:
    totals = results.totals
    places = _places(request.ptx)
    shared = [Allocation(at, size, name=readable(name)) for name, at, size in assembled.shared]
    words = _Words(places, assembled.refused, memory[0], shared)
    found = [words.finding(raw) for raw in results.findings]
    findings, suppressed = divided(options.suppressions, request.kernel, found)
    names = {number: name for name, number in opcode_numbers().items()}
    lines: Counter[int] = Counter()
    for line, count in zip(assembled.code["line"].tolist(), results.per_instruction, strict=True):
        lines[line] += count
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
        tma_bytes_loaded=totals.tma_bytes_loaded,
        tma_bytes_stored=totals.tma_bytes_stored,
        mma_instructions=totals.mma_instructions,
        mma_flops=totals.mma_flops,
        opcode_counts={names[k]: n for k, n in enumerate(results.per_opcode) if n},
        line_counts=dict(lines),
        events=tuple(results.events),
        output=results.output,
        memory_check=memory[1],
        places=places,
        suppressed=suppressed,
        options=options,
    )


Change = Callable[[LaunchRequest, RunOptions], tuple[LaunchRequest, RunOptions]]
_changes: Ambient[tuple[Change, ...]] = Ambient("sm100sim_changes", ())


@contextmanager
def before_launch(change: Change, *, everywhere: bool = False) -> Iterator[None]:
    """Let `change` see, and replace, request and options of every launch inside the block.

    It hears the launches of its own thread or asynchronous task; `everywhere`: those of threads
    too that have set none. Blocks may be nested; the outermost comes first.
    """
    with _changes.put((*_changes.get(), change), everywhere):
        yield


Take = Callable[[LaunchRequest, RunOptions, Iterable[Any]], Report]
_taken: Ambient[Take | None] = Ambient("sm100sim_taken", None)


@contextmanager
def instead_of_launching(take: Take) -> Iterator[None]:
    """Let `take` have the launches of this thread, or asynchronous task, inside the block."""
    with _taken.put(take, everywhere=False):
        yield


def captures() -> bool:
    """Whether a launch would not be made now, but kept."""
    return _taken.get() is not None


def run(
    request: LaunchRequest, options: RunOptions | None = None, buffers: Iterable[Any] = ()
) -> Report:
    """Execute a launch on the virtual SM100.

    Args:
        request: PTX, kernel, grid and parameters.
        options: how to run; the current options when not given.
        buffers: host memory that the kernel may touch, besides what `register` made known.

    Raises:
        SimulationFault: a rule was broken, or a dead- or livelock (unless options say otherwise);
            `UnsupportedExecuted`, a PtxError too, at an instruction without a meaning here.
        FindingsError: anything was found, if options say so.
        PtxError: the PTX cannot be read.
        ValueError: a launch that the hardware would refuse.
        TypeError: `options` are none.
    """
    if not isinstance(options, RunOptions | None):
        raise TypeError(
            f"options={options!r}: expected sm100sim.RunOptions(...), got {type(options).__name__}"
        )
    options = options or current_options()
    for change in _changes.get():
        request, options = change(request, options)
    take = _taken.get()
    if take is not None:
        return take(request, options, buffers)
    start = time.perf_counter()
    assembled = prepare(request.ptx, request.kernel, request.placed)
    _check_request(request, assembled)
    held = tuple(buffers)  # alive until the launch has ended
    known, words = allocations(held)
    known += [Allocation(a.ctypes.data, a.nbytes, name=name) for name, a in assembled.globals]
    prepared = time.perf_counter()
    results = Crew(request, assembled, options, known).run()
    times = prepared - start, time.perf_counter() - prepared
    report = _report(request, assembled, results, options, times, (known, words))
    keep(report)
    if report.output:
        (options.print_to or sys.stdout.write)(report.output)
    if options.raise_on_fault and any(f.fatal for f in report.findings):
        stopped = [why for f in report.findings for why in assembled.refused if _tells(f, why)]
        raise UnsupportedExecuted(report, stopped[0]) if stopped else SimulationFault(report)
    if options.raise_on_findings and report.findings:
        raise FindingsError(report)
    return report

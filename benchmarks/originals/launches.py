"""What a launch is and does, as plain data: the same figures for every kernel, whoever wrote it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.kernel_facts import Facts
from benchmarks.originals.machine_code import Cycles
from sm100sim.crew.recording import Recording, recording
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import Check, RunOptions, run_options
from sm100sim.report import EventKind, Report, record
from sm100sim.run import before_launch, prepare

MANGLED = re.compile(r"_[0-9a-f]{8}$")
"""The end of the names that Mojo gives to kernels."""
MANY_FINDINGS = 2000


@dataclass(frozen=True)
class LaunchFacts:
    """One launch.

    Attributes:
        kernel: its name.
        grid, cluster: CTAs.
        warps: of a CTA.
        smem_bytes: shared memory of a CTA, static and dynamic.
        copies: where bulk copies put boxes: (offset, bytes) of the first cluster, by offset.
        stores: where they fetch them.
        barriers: offsets of its mbarriers.
        columns: Tensor Memory columns that MMAs write: (first, number).
        ptx: instructions of the PTX.
        instructions: executed by all warps. mmas: MMA instructions.
        loaded, stored: bytes of bulk copies.
        findings: what the checkers say -> at how many places.
        code: of the machine code, where there is an assembler. cycles: predicted, likewise.
    """

    kernel: str
    grid: tuple[int, ...]
    cluster: tuple[int, ...]
    warps: int
    smem_bytes: int
    copies: tuple[tuple[int, int], ...]
    stores: tuple[tuple[int, int], ...]
    barriers: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]
    ptx: int
    instructions: int
    mmas: int
    loaded: int
    stored: int
    findings: dict[str, int] = field(default_factory=dict)
    code: Facts | None = None
    cycles: Cycles | None = None


Heard = list[tuple[LaunchRequest, Report, Recording | None]]
"""Launches; what stopped has no recording."""


@contextmanager
def hearing(**options: Any) -> Iterator[Heard]:
    """Collect all launches inside the block, run under the checkers with a timeline.

    Args:
        options: other fields of `RunOptions`.
    """
    requests: list[LaunchRequest] = []

    def seen(request: LaunchRequest, given: RunOptions) -> tuple[LaunchRequest, RunOptions]:
        requests.append(request)
        return request, given

    heard: Heard = []
    settings = {
        "mode": "fast", "checks": Check.ALL, "trace_cluster": 0, "max_findings": MANY_FINDINGS,
        **options,
    }  # fmt: skip
    with (
        run_options(everywhere=True, **settings),
        before_launch(seen, everywhere=True),
        record(everywhere=True) as reports,
        recording(everywhere=True, abreast=True) as recordings,
    ):
        yield heard
    ended = {id(recorded.request): recorded for recorded in recordings}
    for request, report in zip(requests, reports, strict=True):
        heard.append((request, report, ended.get(id(request))))


def _pairs(report: Report, kind: EventKind) -> list[tuple[int, int]]:
    """(b, a) of the events of a kind in the first CTA, each once, in order."""
    return sorted({(e.b, e.a) for e in report.events if e.kind is kind and e.rank == 0})


def launch_facts(
    request: LaunchRequest, report: Report, code: Facts | None, cycles: Cycles | None = None
) -> LaunchFacts:
    """The figures of a launch that was heard."""
    barriers = {e.a for e in report.events if e.kind is EventKind.BARRIER and e.rank == 0}
    assembled = prepare(request.ptx, request.kernel, request.placed)
    return LaunchFacts(
        kernel=MANGLED.sub("", request.kernel),
        grid=request.grid,
        cluster=request.cluster,
        warps=math.prod(request.block) // 32,
        smem_bytes=request.smem_bytes + assembled.static_smem,
        copies=tuple(_pairs(report, EventKind.TMA_LOAD)),
        stores=tuple(_pairs(report, EventKind.TMA_STORE)),
        barriers=tuple(sorted(barriers)),
        columns=tuple(sorted({(a, b) for b, a in _pairs(report, EventKind.MMA)})),
        ptx=len(assembled.code),
        instructions=report.instructions,
        mmas=report.mma_instructions,
        loaded=report.tma_bytes_loaded,
        stored=report.tma_bytes_stored,
        findings=dict(sorted(Counter(finding.code for finding in report.findings).items())),
        code=code,
        cycles=cycles,
    )

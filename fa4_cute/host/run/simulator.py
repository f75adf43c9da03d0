"""The one place where this package reaches ``sm100sim``, the virtual SM100."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sm100sim import Report

    from .launch import PackedLaunch

_of_thread = threading.local()


@dataclass(frozen=True)
class HostBuffer:
    """Bytes of host memory that a launch may touch.

    Attributes:
        address: first byte.
        size: bytes.
        writable: whether the kernel may write there.
        is_read: whether what it reads there was there before it.
    """

    address: int
    size: int
    writable: bool
    is_read: bool = False


def launch(ptx: str, kernel: str, packed: PackedLaunch, buffers: Sequence[HostBuffer]) -> Report:
    """Execute one launch on the virtual SM100 and remember its report.

    Args:
        ptx: text of the module that holds the kernel.
        kernel: name of the entry.
        packed: grid, block, cluster, shared memory and packed parameters.
        buffers: all the global memory of the launch; an access outside of it is a fault.

    Raises:
        sm100sim.report.SimulationFault: the kernel broke a rule of the machine; names the PTX line.
    """
    from sm100sim import LaunchRequest
    from sm100sim.memory import Allocation
    from sm100sim.report import SimulationFault
    from sm100sim.run import run

    request = LaunchRequest(
        ptx=ptx,
        kernel=kernel,
        grid=packed.plan.grid,
        block=packed.plan.block,
        cluster=packed.plan.cluster,
        smem_bytes=packed.plan.smem_bytes,
        params=packed.params,
    )
    known = [Allocation(b.address, b.size, b.writable) for b in buffers]
    try:
        report = run(request, None, known)
    except SimulationFault as fault:
        _of_thread.report = fault.report
        raise
    _of_thread.report = report
    return report


def last_report() -> Report | None:
    """Return the ``sm100sim.Report`` of this thread's latest simulated launch, or None.

    Calls that launch nothing (empty tensors) and calls on CUDA tensors do not change it.
    """
    report: Report | None = getattr(_of_thread, "report", None)
    return report


@contextmanager
def simulator_options(**changes: Any) -> Iterator[Any]:
    """Run the simulated launches inside the block with these ``sm100sim.options.RunOptions``.

    Example: ``with fa4_cute.simulator_options(trace_cluster=0): ...`` records the timeline of the
    first work tile, which :func:`last_report` then holds.

    Raises:
        TypeError: when an option does not exist.
        ValueError: when its value is out of range.
    """
    from sm100sim.options import run_options

    with run_options(**changes) as options:
        yield options

"""How a launch is executed: when asynchronous work lands, which checks watch, what is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import IntFlag
from typing import Any, Literal

MODES = ("fast", "random", "late")


class Check(IntFlag):
    """Optional watchers.

    `STRICT_LD` reports every use of a register that tcgen05.ld writes before tcgen05.wait::ld. The
    ISA asks for the wait; shipped kernels rely on the register dependency. `STRICT_EXIT`, with
    `PROTOCOL`, reports mbarriers that are left in the middle of a phase, as the last
    `producer_acquire` of CuTe DSL pipelines does. `STRICT_FENCE`, with `RACES`, lets signals
    between threads order Tensor Memory only with the tcgen05.fence pair that the ISA asks for,
    which shipped kernels leave out. `STRICT_LANES`, with `RACES`, takes the lanes of a warp for the
    threads that they are: what one lane signals or waits for, the others have no part in before
    bar.warp.sync or another barrier. `STRICT_SCOPE`, with `RACES`, takes the scope of mbarrier
    operations at its word: one of CTA scope orders no memory between CTAs. `ALL` leaves these out;
    `TO_THE_LETTER` is all of them but `STRICT_EXIT`.
    """

    NONE = 0
    REGISTERS = 1
    SHARED = 2
    TMEM = 4
    RACES = 8
    PROTOCOL = 16
    STRICT_LD = 32
    STRICT_EXIT = 64
    STRICT_FENCE = 128
    STRICT_LANES = 512
    STRICT_SCOPE = 1024
    TO_THE_LETTER = STRICT_LD | STRICT_FENCE | STRICT_LANES | STRICT_SCOPE
    UNINITIALISED = REGISTERS | SHARED | TMEM
    ALL = REGISTERS | SHARED | TMEM | RACES | PROTOCOL


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    Attributes:
        mode: "fast" lands asynchronous work at once; "random" at moments drawn from `seed`, with a
            random order of warps; "late" only when no warp can go on.
        seed: repeats a run exactly.
        checks: which watchers look on; they never change a run.
        poison: fill shared memory, Tensor Memory and registers with NaN patterns before the start.
        exact_mma: the bit-level accumulation model instead of one rounding per instruction.
        trace_cluster: index of the cluster whose timeline is recorded, or None.
        raise_on_fault: raise `SimulationFault` when a run stops; otherwise only report.
        max_findings: further findings are dropped.
        max_idle_instructions: warp instructions without progress before it is a livelock.
    """

    mode: Literal["fast", "random", "late"] = "fast"
    seed: int = 0
    checks: Check = Check.NONE
    poison: bool = True
    exact_mma: bool = False
    trace_cluster: int | None = None
    raise_on_fault: bool = True
    max_findings: int = 64
    max_idle_instructions: int = 20_000_000

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode: {self.mode!r} is not one of {', '.join(MODES)}")


_current: ContextVar[RunOptions] = ContextVar("sm100sim_options", default=RunOptions())  # noqa: B039
"""Each thread, and each asynchronous task, has its own."""


def current_options() -> RunOptions:
    """The options that the next launch uses when it is given none."""
    return _current.get()


@contextmanager
def run_options(**changes: Any) -> Iterator[RunOptions]:
    """Use other options for the launches inside the block, e.g. `run_options(mode="late")`.

    The block rules the launches of its own thread; a thread that it starts has the defaults.
    """
    options = replace(_current.get(), **changes)
    token = _current.set(options)
    try:
        yield options
    finally:
        _current.reset(token)

"""How a launch is executed: when asynchronous work lands, which checks watch, what is traced."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from enum import IntFlag
from typing import Any, Final, Generic, Literal, TypeVar

from .findings.suppress import Suppression, suppressions_of

MODES: Final = ("fast", "random", "late", "timed")
MAX_FINDINGS = 65_536
"""`RunOptions.max_findings` at most; each takes half a kilobyte."""


class Check(IntFlag):
    """Optional watchers.

    `STRICT_LD` reports every use of a register that tcgen05.ld writes before tcgen05.wait::ld. The
    ISA requires the wait; shipped kernels rely on the register dependency. `STRICT_EXIT`, with
    `PROTOCOL`, reports mbarriers that are left in the middle of a phase, as they are after the last
    `producer_acquire` of CuTe DSL pipelines. `STRICT_FENCE`, with `RACES`, lets signals
    between threads order Tensor Memory only with the tcgen05.fence pair that the ISA requires,
    which shipped kernels leave out. `STRICT_LANES`, with `RACES`, treats the lanes of a warp as
    separate threads: what one lane signals or waits for does not order the others before
    bar.warp.sync or another barrier. `STRICT_SCOPE`, with `RACES`, takes the scope of mbarrier
    operations literally: one of CTA scope orders no memory between CTAs. `ALL` leaves these out;
    `TO_THE_LETTER` is all of them except `STRICT_EXIT`.
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


def checks_of(value: Any) -> Check:
    """The checks that a value names: a `Check` or its number, a name or several names.

    Args:
        value: e.g. `Check.ALL`, "all", "races, protocol", ["races", "strict-lanes"].

    Raises:
        ValueError: a name or a number is not a check; names the nearest one.
        TypeError: neither a name nor a number.
    """
    if isinstance(value, str):
        names = [name for name in re.split(r"[\s,|+]+", value) if name]
        return _named(names)
    if isinstance(value, Iterable) and not isinstance(value, int):
        found = Check.NONE
        for item in value:
            found |= checks_of(item)
        return found
    number = whole_number("checks", value, " or names such as 'all'")
    known = sum(check.value for check in Check)
    if number < 0 or number & ~known:
        raise ValueError(f"checks: {number:#x} has bits that are no Check; all are {known:#x}")
    return Check(number)


def _named(names: list[str]) -> Check:
    found = Check.NONE
    members = {name.lower(): check for name, check in Check.__members__.items()}
    for name in names:
        key = name.lower().replace("-", "_").removeprefix("check.")
        if key not in members:
            raise ValueError(f"checks: {name!r} is no check; {_nearest(key, members)}")
        found |= members[key]
    return found


def _nearest(name: str, names: Iterable[str]) -> str:
    known = list(names)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"


def whole_number(name: str, value: Any, otherwise: str = "") -> int:
    """Return a whole number of any kind.

    Raises:
        TypeError: it is none; names the argument, the value and, as `otherwise`, what to give.
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}: {value!r} is no whole number{otherwise}")


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    Attributes:
        mode: when asynchronous work lands: "timed", in the order of modelled time, which warps
            keep to, too; "fast", at once; "random", at moments drawn from `seed`, with a random
            order of warps; "late", only when no warp can go on.
        seed: repeats a run exactly.
        checks: the watchers that are on; they never change a run. Names also work, see `checks_of`.
        poison: fill shared memory, Tensor Memory and registers with NaN patterns before the start.
        exact_mma: the bit-level accumulation model instead of one rounding per instruction.
        trace_cluster: index of the cluster whose timeline is recorded, or None.
        raise_on_fault: raise `SimulationFault` when a run stops; otherwise only report.
        max_findings: further findings are dropped; the first fault never is.
        max_idle_instructions: warp instructions without progress before it is a livelock, for a
            loop that polls; one that only computes, or watches the clock, gets 50 times as many.
        max_instructions: warp instructions before the run is stopped with a fault; None for no
            limit. A loop that stores or meets a barrier in each round makes progress forever.
        print_to: called with what the kernel printed, once, when the launch has ended; None means
            standard output.
        raise_on_findings: raise `FindingsError` after a launch with findings.
        suppressions: findings that are accepted: a TOML file, or `Suppression`s.
        threads: cores that the clusters of a launch may use; None for all that the process may use.
            They do not change what a launch computes and reports.

    Raises:
        ValueError: a value is out of range, or a name is unknown; the message names the nearest.
        TypeError: a value is of another kind.
    """

    mode: Literal["fast", "random", "late", "timed"] = "timed"
    seed: int = 0
    checks: Check = Check.NONE
    poison: bool = True
    exact_mma: bool = False
    trace_cluster: int | None = None
    raise_on_fault: bool = True
    max_findings: int = 64
    max_idle_instructions: int = 20_000_000
    max_instructions: int | None = None
    print_to: Callable[[str], object] | None = None
    raise_on_findings: bool = False
    suppressions: tuple[Suppression, ...] = ()
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            near = get_close_matches(str(self.mode), MODES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"mode: {self.mode!r} is not one of {', '.join(MODES)}{hint}")
        # Frozen: what was given in other words is kept in one form.
        object.__setattr__(self, "checks", checks_of(self.checks))
        object.__setattr__(self, "suppressions", suppressions_of(self.suppressions))
        for name in ("poison", "exact_mma", "raise_on_fault", "raise_on_findings"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}: {getattr(self, name)!r} is neither True nor False")
        if self.print_to is not None and not callable(self.print_to):
            raise TypeError(f"print_to: {self.print_to!r} cannot be called")
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name in ("trace_cluster", "max_instructions", "threads"):
                continue
            number = whole_number(name, value)
            if not least <= number <= most:
                raise ValueError(f"{name}: {number} is not in {least} ... {most}")
            object.__setattr__(self, name, number)


_LIMITS = {
    "seed": (-(2**63), 2**64 - 1),
    "trace_cluster": (0, 2**32 - 2),
    "max_findings": (0, MAX_FINDINGS),
    "max_idle_instructions": (1, 2**64 - 1),
    "max_instructions": (1, 2**64 - 1),
    "threads": (1, 1024),
}
"""Least and greatest value of the options that are numbers."""


T = TypeVar("T")


class Ambient(Generic[T]):
    """A value that each thread, and each asynchronous task, has for itself; others see a default.

    Args:
        name: for debuggers.
        default: what threads see that have set nothing.
    """

    def __init__(self, name: str, default: T) -> None:
        self._own: ContextVar[T] = ContextVar(name)
        self._default = default

    def get(self) -> T:
        """The value here."""
        return self._own.get(self._default)

    @contextmanager
    def put(self, value: T, everywhere: bool) -> Iterator[None]:
        """Have another value inside the block; `everywhere`: in threads that set none, too."""
        token, before = self._own.set(value), self._default
        if everywhere:
            self._default = value
        try:
            yield
        finally:
            self._own.reset(token)
            if everywhere:
                self._default = before


_current = Ambient("sm100sim_options", RunOptions())


def current_options() -> RunOptions:
    """The options that the next launch uses when it is given none."""
    return _current.get()


@contextmanager
def run_options(*, everywhere: bool = False, **changes: Any) -> Iterator[RunOptions]:
    """Use other options for the launches inside the block, e.g. `run_options(mode="late")`.

    The block applies to the launches of its own thread; a thread started in it has the defaults.

    Args:
        everywhere: also apply to all threads that have no options of their own; for one block of
            the process at a time.
        changes: fields of `RunOptions`.

    Raises:
        TypeError: an option does not exist, or its value is of another kind.
        ValueError: its value is out of range, or a name is unknown.
    """
    known = [f.name for f in fields(RunOptions)]
    for name in changes:
        if name not in known:
            raise TypeError(f"{name}: no such option; {_nearest(name, known)}")
    options = replace(_current.get(), **changes)
    with _current.put(options, everywhere):
        yield options

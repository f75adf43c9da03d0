"""When CTAs of a launch begin and end, and where: by the clock of their SM, and by nanoseconds;
and which places of an SM their warps have.

Clocks of SMs differ by numbers that stay. `ticks` says when each SM saw the timer of all of them
step, before and after a launch: so these numbers are known, twice, and CTAs of all SMs compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.timing.questions import SMS
from testing.hardware.case import Case
from testing.hardware.micro.shared import SMEM

WORDS: Final = 8
"""Of 32 bits: SM, 0, begin and end (64 bits each), nanoseconds of the begin (64 bits)."""
SHARED: Final = 227 * 1024
"""Shared memory of an SM, less what each CTA has besides."""
LASTS: Final = 6000
"""Cycles that a CTA lasts."""
PERCENT: Final = (0, 5, 50, 95, 100)
Words = npt.NDArray[np.uint32]
_STAMP: Final = "mov.u64 %rd10, %clock64; mov.u64 %rd12, %globaltimer; "
_FIRST: Final = "mov.u32 %r0, %tid.x; mov.u32 %r62, %ctaid.x; mov.u32 %r53, %smid; "
_WRITE: Final = (
    "setp.ne.u32 %q1, %r0, 0; @%q1 bra DONE; mul.wide.u32 %rd1, %r62, 32; add.s64 %rd1, %rd1, %p0;"
    "mov.u32 %r54, 0; st.global.v2.b32 [%rd1], {%r53, %r54}; st.global.b64 [%rd1+8], %rd10;"
    "st.global.b64 [%rd1+16], %rd11; st.global.b64 [%rd1+24], %rd12; DONE: "
)


@dataclass(frozen=True)
class Starts:
    """CTAs that only read the clock for a while.

    Attributes:
        grid: CTAs. resident: of an SM. cluster: CTAs of a cluster. threads: of a CTA.
        lasts: cycles. spread: the bits of a number that some last longer by.
    """

    grid: int
    resident: int = 1
    cluster: int = 1
    threads: int = 384
    lasts: int = LASTS
    spread: int = 0

    @property
    def name(self) -> str:
        """Unique."""
        more = f", up to {self.spread} cycles longer" if self.spread else ""
        return (
            f"{self.grid} CTAs of {self.threads} threads, {self.resident} an SM, "
            f"clusters of {self.cluster}{more}"
        )

    def case(self) -> Case:
        """The micro-kernel; its output is `WORDS` by CTA."""
        body = _FIRST + _STAMP + (
            "mul.lo.u32 %r2, %r62, 1103515245; shr.u32 %r2, %r2, 8; and.b32 %r2, %r2, %n1;"
            "add.u32 %r2, %r2, %n0; cvt.u64.u32 %rd2, %r2; SPIN: mov.u64 %rd11, %clock64;"
            "sub.s64 %rd3, %rd11, %rd10; setp.lt.u64 %q0, %rd3, %rd2; @%q0 bra SPIN;"
            # The end is read after the other stores, as near to the CTA's own as can be.
            "setp.ne.u32 %q1, %r0, 0; @%q1 bra DONE; mul.wide.u32 %rd1, %r62, 32;"
            "add.s64 %rd1, %rd1, %p0; mov.u32 %r54, 0; st.global.v2.b32 [%rd1], {%r53, %r54};"
            "st.global.b64 [%rd1+8], %rd10; st.global.b64 [%rd1+24], %rd12;"
            "mov.u64 %rd11, %clock64; st.global.b64 [%rd1+16], %rd11; DONE: "
        )  # fmt: skip
        size = SHARED // self.resident // 1024 * 1024 - 1024
        return Case(
            name=self.name, family="timing", body=body,
            outputs=(np.zeros(self.grid * WORDS, np.uint32),), numbers=(self.lasts, self.spread),
            grid=self.grid, cluster=self.cluster, block=self.threads, smem=size, shared=SMEM,
            directives=f".maxntid {self.threads}",
        )  # fmt: skip


def ticks(sms: int = SMS) -> Case:
    """One CTA an SM waits until the timer steps: its clock then, and the timer."""
    body = _FIRST + _STAMP + (
        "mov.u64 %rd13, %rd12; TICK: mov.u64 %rd12, %globaltimer; mov.u64 %rd10, %clock64;"
        "setp.eq.u64 %q0, %rd12, %rd13; @%q0 bra TICK; mov.u64 %rd11, %rd10; " + _WRITE
    )  # fmt: skip
    return Case(
        name="ticks", family="timing", body=body, outputs=(np.zeros(sms * WORDS, np.uint32),),
        grid=sms, block=32, smem=SHARED - 1024, shared=SMEM,
    )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """CTAs: their SM, clocks at begin and end, nanoseconds at begin; arrays of equal length."""

    sm: npt.NDArray[np.int64]
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    nanoseconds: npt.NDArray[np.int64]

    @classmethod
    def of(cls, words: Words) -> Seen:
        """Of an output of `Starts` or `ticks`."""
        rows = words.reshape(-1, WORDS)
        wide = np.ascontiguousarray(rows[:, 2:]).view(np.int64)
        return cls(rows[:, 0].astype(np.int64), wide[:, 0], wide[:, 1], wide[:, 2])


def rate(first: Seen, last: Seen) -> float:
    """Cycles of a nanosecond, from the ticks before and after."""
    both = {sm: k for k, sm in enumerate(last.sm.tolist())}
    pairs = [(k, both[sm]) for k, sm in enumerate(first.sm.tolist()) if sm in both]
    passed = [
        (last.begin[b] - first.begin[a]) / (last.nanoseconds[b] - first.nanoseconds[a])
        for a, b in pairs
    ]
    return float(np.median(passed))


def offsets(seen: Seen, cycles: float) -> dict[int, float]:
    """How far the clock of each SM is before that of the first, at `cycles` a nanosecond."""
    since = (seen.nanoseconds - seen.nanoseconds[0]).astype(float) * cycles
    own = (seen.begin - seen.begin[0]).astype(float) - since
    return dict(zip(seen.sm.tolist(), own.tolist(), strict=True))


def aligned(ahead: Mapping[int, float], cta: Seen) -> npt.NDArray[np.float64]:
    """Begins of CTAs in cycles since the first one, by one clock.

    Raises:
        ValueError: an SM of a CTA saw no tick.
    """
    missing = sorted(set(cta.sm.tolist()) - ahead.keys())
    if missing:
        raise ValueError(f"ticks: SMs {missing} saw none")
    begins = cta.begin - cta.begin[0]
    at = np.array([clock - ahead[int(sm)] for sm, clock in zip(cta.sm, begins, strict=True)])
    return np.asarray(at - at.min())


def gaps(cta: Seen, resident: int) -> npt.NDArray[np.int64]:
    """Cycles from the kth end on an SM to the begin that it made room for, of all SMs."""
    found = []
    for sm in np.unique(cta.sm):
        mine = cta.sm == sm
        begins, ends = np.sort(cta.begin[mine]), np.sort(cta.end[mine])
        found.append(begins[resident:] - ends[: len(begins) - resident])
    return np.concatenate(found)


def answer(asked: Starts, first: Words, last: Words, found: Words) -> dict[str, Any]:
    """What is kept of a launch: SM and begin of each CTA, how sure that is, gaps."""
    cta, before, after = Seen.of(found), Seen.of(first), Seen.of(last)
    cycles = rate(before, after)
    ahead, later = offsets(before, cycles), offsets(after, cycles)
    moved = np.array([later[sm] - ahead[sm] for sm in ahead.keys() & later.keys()])
    begins, between = aligned(ahead, cta), gaps(cta, asked.resident)
    of_first = begins[: min(asked.grid, SMS * asked.resident)]
    return {
        "name": asked.name,
        "sms": cta.sm.tolist(),
        "offsets moved": np.percentile(moved - np.median(moved), PERCENT).round().tolist(),
        "begins": begins.round().astype(int).tolist(),
        "first of a place": np.percentile(of_first, PERCENT).round().tolist(),
        "gap": np.percentile(between, PERCENT).round().tolist() if len(between) else [],
    }


def questions() -> tuple[Starts, ...]:
    """All that is asked."""
    grids = (132, 264, 528, 1056)
    return (
        *(Starts(grid, resident, cluster)
          for resident, cluster, grid in product((1, 2), (1, 2, 4), grids)),
        *(Starts(grid, resident, spread=2047) for resident in (1, 2) for grid in grids),
        *(Starts(1056, 1, threads=threads) for threads in (128, 256, 512)),
    )  # fmt: skip


@dataclass(frozen=True)
class Places:
    """CTAs of so many warps, some an SM, that last until all have begun; each says where it is."""

    warps: int
    ctas: int

    @property
    def name(self) -> str:
        """Unique."""
        return f"{self.ctas} CTAs of {self.warps} warps an SM"

    def case(self) -> Case:
        """The micro-kernel: SM and place by warp."""
        total = self.ctas * SMS * self.warps
        body = (
            "mov.u32 %r0, %tid.x; mov.u32 %r2, %ctaid.x; and.b32 %r3, %r0, 31;"
            "setp.ne.u32 %q1, %r3, 0; shr.u32 %r4, %r0, 5; mov.u32 %r6, %smid;"
            "mov.u32 %r7, %warpid;"
            f"mad.lo.u32 %r5, %r2, {self.warps}, %r4; mul.wide.u32 %rd1, %r5, 8;"
            "add.s64 %rd1, %rd1, %p0; mov.u32 %r8, %clock; L: mov.u32 %r10, %clock;"
            f"sub.u32 %r11, %r10, %r8; setp.lt.u32 %q2, %r11, {10 * LASTS}; @%q2 bra L;"
            "@!%q1 st.global.v2.b32 [%rd1], {%r6, %r7};"
        )
        return Case(
            name=self.name, family="timing", body=body, outputs=(np.zeros(2 * total, np.uint32),),
            grid=self.ctas * SMS, block=32 * self.warps, smem=SHARED // self.ctas - 2048,
            shared=SMEM,
        )  # fmt: skip

    def answer(self, found: Words) -> dict[str, Any]:
        """How many SMs have which places, CTA after CTA; and how many balance sub-partitions.

        Those whose sub-partitions have as many warps as one another, or one more.
        """
        by: dict[int, list[list[int]]] = {}
        for cta in found.reshape(-1, self.warps, 2):
            by.setdefault(int(cta[0, 0]), []).append(cta[:, 1].tolist())
        places = Counter(tuple(sorted(map(tuple, ctas))) for ctas in by.values())
        loads = [np.bincount(np.concatenate(ctas) % 4, minlength=4) for ctas in by.values()]
        return {
            "name": self.name, "SMs": len(by),
            "balanced": sum(int(load.max() - load.min() <= 1) for load in loads),
            "most often": places.most_common(1)[0],
        }  # fmt: skip


PLACES: Final = tuple(
    Places(warps, ctas) for warps in (1, 2, 3, 5, 6, 7, 8, 13) for ctas in (2, 4)
)

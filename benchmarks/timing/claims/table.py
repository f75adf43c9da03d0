"""Published ratios: two calls, what their times were to one another, and who says it.

A claim compares two calls of today's release of FlashAttention-4, and where PyPI has what was
timed, the same two of that. Values are published ones, and nothing is fitted to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.machine_state import CHIP
from benchmarks.timing.claims.builds import (
    APRIL,
    APRIL_12,
    JULY,
    JULY_12,
    JUNE,
    MAY,
    TODAY,
    TODAY_13,
    Build,
)
from benchmarks.timing.claims.builds import TIRX as BY_TIRX
from benchmarks.timing.side_by_side.callers import CUDA12, CUDA13, Column
from benchmarks.timing.side_by_side.callers import TIRX as TIRX_COLUMN
from benchmarks.timing.side_by_side.problems import Family
from benchmarks.timing.side_by_side.variants import Changes

FULL, CAUSAL = Family((128, 128), False), Family((128, 128), True)
FULL_64, FULL_256 = Family((64, 64), False), Family((256, 256), False)
CAUSAL_64 = Family((64, 64), True)
FP8, FP8_CAUSAL = Family((128, 128), False, "fp8"), Family((128, 128), True, "fp8")
TIRX_TIMES: Final = {
    "all": {1024: 20.19, 2048: 60.09, 4096: 220.10, 8192: 800.1},
    "causal": {1024: 20.35, 4096: 120.11, 8192: 437.0},
}  # fmt: skip
"""Microseconds of FlashAttention-4 with 32 heads; at 1K those of 16 heads of keys."""
CELL: Final = 33.09, 21.51
"""The same at 1K with 32 heads of keys: all keys, and causal."""
BESIDE: Final = {
    "all": ((20.17, 20.68), (59.39, 59.83), (215.55, 217.45), (776.50, 784.83)),
    "causal": ((21.23, 21.52), (39.90, 40.12), (121.73, 121.72), (434.38, 433.81)),
}  # fmt: skip
"""Microseconds of TIRx's attention and of FlashAttention-4 at 1K, 2K, 4K, 8K with 32 heads."""
LEVELS: Final = "4", "5"
"""Register usage levels that its causal kernels had then, at 1K and beyond."""
OLD_DSL: Final = {"all": (1196, 1266, 1309, 1357, 1401), "causal": (704, 944, 1114)}
"""TFLOPS of 32K tokens with 16 heads at 1K, 2K and so on, on a B200 with DSL 4.4.2."""
FRONTEND: Final = "cudnn-frontend, GB200, files of May 2026, b2, 64/8 heads"
GB200: Final = {4096: (1538, 1330), 8192: (1686, 1518), 16384: (1663, 1636), 32768: (1470, 1529)}
"""TFLOPS of FlashAttention-4 by length: all keys, and causal."""
BUMP: Final = "flash-attention pull request 2605, B200"
TUNED: Final = "flash-attention pull request 2741"
TIRX: Final = "TIRx-kernels, baseline at 92240d6"
TIRX_AUGUST: Final = "TIRx-kernels, baseline of 7 August 2026 at f495258"
TWILL: Final = "facebookexperimental/triton, report of July 2026, b4 h32"


def fa4(changes: Changes = (), *, one: bool = False, ptxas: str = CUDA13) -> Column:
    """A variant of FlashAttention-4; `one`: without pairs of CTAs."""
    return Column("FA4", "FA4", ptxas, one_cta=one, changes=changes)


ONE, PAIR = fa4(one=True), fa4()
SPILLED = fa4((("registers", ((184, 80, 64), (176, 88, 72))),))


@dataclass(frozen=True)
class Call:
    """A kernel and a problem: batch x heads sequences of a length.

    `own`: the build, whichever that of the other call is.
    """

    column: Column
    family: Family
    length: int
    heads: int
    own: Build | None = None

    def by(self, build: Build) -> tuple[Build, Call]:
        """The build and the same call with its assembler; or its own and the call as it is."""
        if self.own is not None:
            return self.own, self
        return build, replace(self, column=replace(self.column, assembler=build.assembler))

    def name(self, chip: str) -> str:
        """What tells it from others in the records of a build."""
        one = " one CTA" if self.column.one_cta else ""
        changes = "".join(f" {knob} {value}" for knob, value in self.column.changes)
        options = "".join(f" {name} {value}" for name, value in self.column.options)
        where = f"{self.heads} x {self.length} {self.family.name}{one}{changes}{options}"
        return f"{chip}: {where}, ptxas {self.column.assembler}"


Compared = tuple[tuple[Build, Call], tuple[Build, Call]]
"""Builds and calls, above and below."""


@dataclass(frozen=True)
class Claim:
    """A ratio that was published.

    Attributes:
        group: the table it stands in. name: what it is.
        above, below: the calls whose times are divided.
        published: the ratio; of TFLOPS as that of times for equal work.
        work: work of `above` over that of `below`; the ratio of times is divided by it.
        source: where it stands.
        chip: on which both were timed.
        timed: the build that was timed, where it is known and PyPI has it.
        then: the calls of that build, where they are not the same.
        or_else: another build that may have been timed.
    """

    group: str
    name: str
    above: Call
    below: Call
    published: float
    source: str
    work: float = 1.0
    chip: str = CHIP
    timed: Build | None = None
    then: tuple[Call, Call] | None = None
    or_else: Build | None = None

    def compared(self) -> Iterator[Compared]:
        """What is predicted; what was timed comes first."""
        above, below = self.then or (self.above, self.below)
        todays = tuple((call.own or TODAY, call) for call in (self.above, self.below))
        if build := self.timed:
            yield above.by(build), below.by(build)
        else:
            yield todays[0], todays[1]
        if other := self.or_else:
            yield above.by(other), below.by(other)
        if self.timed:
            yield todays[0], todays[1]


def knobs() -> Iterator[Claim]:
    """Knobs of FlashAttention-4, one changed at a time, 16K keys unless it says otherwise."""

    def knob(name: str, changes: Changes, rate: float, length: int = 16384) -> Claim:
        base = {8192: 1246, 16384: 1275}[length]
        above = Call(fa4(changes, one=True), FULL, length, 128)
        return Claim("knobs", name, above, Call(ONE, FULL, length, 128), base / rate, TWILL,
                     timed=JULY, or_else=JULY_12)  # fmt: skip

    yield knob("K and V in 2 stages instead of 3", (("kv_stage", 2),), 1229)
    for columns, rate in ((64, 1247), (32, 1221), (0, 1191)):
        name = f"P handed over after {columns} of 128 columns instead of 96"
        yield knob(name, (("split_P_arrive", columns),), rate)
    registers = (("registers", ((192, 80, 48), (200, 88, 24))),)
    for length, rate in ((8192, 1259), (16384, 1280)):
        yield knob(f"registers 200/88/24, {length // 1024}K", registers, rate, length)


def builds() -> Iterator[Claim]:
    """Pairs of CTAs, spills and compilers."""
    for length, one, two in ((2048, 1123, 962), (4096, 1223, 988), (8192, 1246, 1025),
                             (16384, 1275, 1047)):  # fmt: skip
        yield Claim(
            "builds", f"pair of CTAs that spills over one CTA, {length // 1024}K",
            Call(SPILLED, FULL, length, 128), Call(ONE, FULL, length, 128), one / two, TWILL,
            timed=JULY, then=(Call(PAIR, FULL, length, 128), Call(ONE, FULL, length, 128)),
            or_else=JULY_12,
        )  # fmt: skip
    yield Claim(
        "builds", "pair of CTAs that spills over one CTA, 8K, 72 shapes",
        Call(SPILLED, FULL, 8192, 128), Call(ONE, FULL, 8192, 128), 1.205, TUNED,
        timed=JULY, then=(Call(PAIR, FULL, 8192, 128), Call(ONE, FULL, 8192, 128)),
    )  # fmt: skip
    for length, times in ((2048, 1.027 / 0.813), (4096, 4.344 / 3.433)):
        yield Claim(
            "builds", f"spilling over spill-free registers, pair of CTAs, {length // 1024}K",
            Call(SPILLED, FULL, length, 512), Call(PAIR, FULL, length, 512), times,
            "flash-attention pull request 2869", timed=TODAY_13,
        )  # fmt: skip
    twelve = tuple(Call(fa4(one=one, ptxas=CUDA12), FULL, 16384, 32) for one in (False, True))
    yield Claim(
        "builds", "pair of CTAs over one CTA, CUDA 12, 16K", twelve[0], twelve[1], 1542 / 1280,
        "flash-attention pull request 2461", timed=APRIL_12,
    )  # fmt: skip
    direct = fa4((("use_tma_O", False),))
    for family, mask, ratio, shapes in ((FULL_64, "", 1.204, 60),
                                        (CAUSAL_64, " causal", 0.993, 12)):  # fmt: skip
        for length in (1024, 8192):
            yield Claim(
                "builds", f"O by bulk copy over O from registers, d64{mask}, {length // 1024}K",
                Call(PAIR, family, length, 32 * 32768 // length),
                Call(direct, family, length, 32 * 32768 // length), ratio,
                TUNED + f", {shapes} shapes", timed=JULY,
            )  # fmt: skip
    told = replace(PAIR, options=(("return_lse", True),))
    yield Claim(
        "builds", "O alone over O and LSE, d64, 16K", Call(PAIR, FULL_64, 16384, 32),
        Call(told, FULL_64, 16384, 32), 3.0018 / 2.5281, "flash-attention issue 2729", timed=JULY,
    )  # fmt: skip
    for length, times in ((2048, 0.0613 / 0.0492), (8192, 0.7624 / 0.6420),
                          (16384, 3.0153 / 2.6366)):  # fmt: skip
        yield Claim(
            "builds", f"O alone over O and LSE, d64, {length // 1024}K, main of August",
            Call(PAIR, FULL_64, length, 32), Call(told, FULL_64, length, 32), times,
            "flash-attention pull request 2809", timed=JULY,
        )  # fmt: skip


def exponentials() -> Iterator[Claim]:
    """How many exponentials are polynomials, and of which degree."""
    none = fa4((("ex2_emu_freq", 0),))
    for length, gain in ((4096, -0.2), (16384, 0.7), (32768, 2.3), (131072, 7.4)):
        yield Claim(
            "exponentials", f"no polynomials over 1 of 14, d256, {length // 1024}K",
            Call(none, FULL_256, length, 64), Call(PAIR, FULL_256, length, 64), 1 + gain / 100,
            "flash-attention pull request 2488", timed=APRIL,
        )  # fmt: skip
    for length, gain in ((4096, 3.4), (16384, 5.5)):
        yield Claim(
            "exponentials", f"1 of 16 over 1 of 8, fp8, causal, {length // 1024}K",
            Call(fa4((("ex2_emu_freq", 16),)), FP8_CAUSAL, length, 128),
            Call(PAIR, FP8_CAUSAL, length, 128), 1 + gain / 100,
            "the package's table; flash-attention pull request 2642", timed=JUNE,
        )  # fmt: skip
    yield Claim(
        "exponentials", "1 of 8 over 1 of 10, fp8, 16K",
        Call(fa4((("ex2_emu_freq", 8),)), FP8, 16384, 32), Call(PAIR, FP8, 16384, 32), 1 / 0.94,
        "flash-attention pull request 2642", timed=JUNE,
    )  # fmt: skip
    cheaper = (("ex2_emu_freq", 10), ("ex2_emu_start_frg", 0), ("poly_degree", 2))
    yield Claim(
        "exponentials", "1 of 10, degree 2, from the start, over 1 of 16, degree 3, causal, 16K",
        Call(fa4(cheaper), CAUSAL, 16384, 32), Call(PAIR, CAUSAL, 16384, 32), 1 / 1.03,
        "flash-attention pull request 2316", timed=APRIL,
    )  # fmt: skip


def masks() -> Iterator[Claim]:
    """Causal beside full attention: times."""

    def mask(
        where: str, length: int, heads: int, times: float, source: str, chip: str = CHIP,
        timed: Build | None = None, below: Column = PAIR, or_else: Build | None = None,
    ) -> Claim:  # fmt: skip
        calls = (Call(PAIR, CAUSAL, length, heads), Call(below, FULL, length, heads))
        name = f"causal over all keys, {where}"
        return Claim("masks", name, *calls, times, source, chip=chip, timed=timed, or_else=or_else)

    yield mask("b4 h16 8K, one CTA", 8192, 64, 0.775 / 1.433, "flash-attention pull request 2280",
               timed=APRIL, below=ONE)  # fmt: skip
    for power, (causal, full) in enumerate(zip(OLD_DSL["causal"], OLD_DSL["all"], strict=False)):
        length = 1024 << power
        where, times = f"{length // 1024}K", full / causal / 2
        yield mask(where, length, 2**19 // length, times, BUMP, timed=MAY)
    for length, (full, causal) in GB200.items():
        where, times = f"{length // 1024}K, GB200", full / causal / 2
        yield mask(where, length, 128, times, FRONTEND, "gb200", MAY)
    yield mask("1K, b1 h32", 1024, 32, CELL[1] / CELL[0], TIRX, or_else=MAY)
    for length, one in TIRX_TIMES["causal"].items():
        heads = "h32/16" if length == 1024 else "h32"
        times = one / TIRX_TIMES["all"][length]
        yield mask(f"{length // 1024}K, b1 {heads}", length, 32, times, TIRX, or_else=MAY)


def lengths() -> Iterator[Claim]:
    """The shape of curves over the length: time per work, over that of the longest."""
    rates = OLD_DSL["all"]
    last = Call(PAIR, FULL, 16384, 32)
    for length, rate in zip((1024, 2048, 4096, 8192), rates, strict=False):
        yield Claim(
            "lengths", f"{length // 1024}K over 16K, 32K tokens",
            Call(PAIR, FULL, length, 16 * 32768 // length), last, rates[-1] / rate, BUMP,
            length / 16384, timed=MAY,
        )  # fmt: skip
    for family, cell in ((FULL, CELL[0]), (CAUSAL, CELL[1])):
        mask = family.name.split()[-1]
        times = {"1K over 8K, b1 h32": (1024, cell)}
        for length, time in TIRX_TIMES[mask].items():
            heads = "h32/16" if length == 1024 else "h32"
            times[f"{length // 1024}K over 8K, b1 {heads}"] = length, time
        for name, (length, time) in list(times.items())[:-1]:
            work = (length / 8192) ** 2
            yield Claim(
                "lengths", f"{name}, {mask}", Call(PAIR, family, length, 32),
                Call(PAIR, family, 8192, 32), time / TIRX_TIMES[mask][8192] / work, TIRX, work,
                or_else=MAY,
            )  # fmt: skip
    for which, family in enumerate((FULL, CAUSAL)):
        for length in (length for length in GB200 if length != 8192):
            yield Claim(
                "lengths", f"{length // 1024}K over 8K, GB200, {family.name.split()[-1]}",
                Call(PAIR, family, length, 128), Call(PAIR, family, 8192, 128),
                GB200[8192][which] / GB200[length][which], FRONTEND, (length / 8192) ** 2, "gb200",
                timed=MAY,
            )  # fmt: skip


def libraries() -> Iterator[Claim]:
    """TIRx's attention beside FlashAttention-4; neither build that was timed is on PyPI."""
    for family in (FULL, CAUSAL):
        mask = family.name.split()[-1]
        for power, (one, other) in enumerate(BESIDE[mask]):
            length = 1024 << power
            levels = (("level", LEVELS[length > 1024]),) if family.causal else ()
            column = replace(TIRX_COLUMN, options=levels)
            yield Claim(
                "libraries", f"TIRx over FlashAttention-4, {length // 1024}K, {mask}",
                Call(column, family, length, 32, BY_TIRX), Call(PAIR, family, length, 32),
                one / other, TIRX_AUGUST, or_else=MAY,
            )  # fmt: skip


CLAIMS: Final = (
    *knobs(), *builds(), *exponentials(), *masks(), *lengths(), *libraries()
)  # fmt: skip

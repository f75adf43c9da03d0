"""What others timed on a B200, as ratios of times on one machine, beside predictions.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.claims [--only REGEX] [--missing]

writes claims.json, which `benchmarks.timing.blackwell` puts into its page. A claim compares two
calls; both are predicted with the same draws. Values are published ones, and nothing is fitted to
them. No GPU is needed.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine_state import CHIP, model
from benchmarks.timing.gemm import PAIRS_AT_LEAST, tau
from benchmarks.timing.side_by_side.callers import CUDA12, CUDA13, Column
from benchmarks.timing.side_by_side.records import load, write
from benchmarks.timing.side_by_side.rows import Family, Maker
from benchmarks.timing.side_by_side.variants import Changes
from sm100sim.timing.predict import Band

RECORDS: Final = Path(__file__).with_suffix(".json")
FULL, CAUSAL = Family((128, 128), False), Family((128, 128), True)
FULL_64, FULL_256 = Family((64, 64), False), Family((256, 256), False)
FP8, FP8_CAUSAL = Family((128, 128), False, "fp8"), Family((128, 128), True, "fp8")
FRONTEND: Final = "cudnn-frontend, GB200, files of May 2026, b2, 64/8 heads"
GB200: Final = {4096: (1538, 1330), 8192: (1686, 1518), 16384: (1663, 1636), 32768: (1470, 1529)}
"""TFLOPS of FlashAttention-4 by length: all keys, and causal."""
TIRX: Final = "TIRx-kernels, baseline at 92240d6"
TWILL: Final = "facebookexperimental/triton, report of July 2026, b4 h32"


def fa4(changes: Changes = (), *, one: bool = False, ptxas: str = CUDA13) -> Column:
    """A variant of FlashAttention-4; `one`: without pairs of CTAs."""
    return Column("FA4", "FA4", ptxas, one_cta=one, changes=changes)


ONE, PAIR = fa4(one=True), fa4()
SPILLED = fa4((("registers", ((184, 80, 64), (176, 88, 72))),))


@dataclass(frozen=True)
class Call:
    """A kernel and a problem: batch x heads sequences of a length."""

    column: Column
    family: Family
    length: int
    heads: int


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
    """

    group: str
    name: str
    above: Call
    below: Call
    published: float
    source: str
    work: float = 1.0
    chip: str = CHIP


def knobs() -> Iterator[Claim]:
    """Knobs of FlashAttention-4, one changed at a time, 16K keys unless it says otherwise."""

    def knob(name: str, changes: Changes, rate: float, length: int = 16384) -> Claim:
        base = {8192: 1246, 16384: 1275}[length]
        above = Call(fa4(changes, one=True), FULL, length, 128)
        return Claim("knobs", name, above, Call(ONE, FULL, length, 128), base / rate, TWILL)

    yield knob("K and V in 2 stages instead of 3", (("kv_stage", 2),), 1229)
    for columns, rate in ((64, 1247), (32, 1221), (0, 1191)):
        name = f"P handed over after {columns} of 128 columns instead of 96"
        yield knob(name, (("split_P_arrive", columns),), rate)
    registers = (("registers", ((192, 80, 48), (200, 88, 24))),)
    for length, rate in ((8192, 1259), (16384, 1280)):
        yield knob(f"registers 200/88/24, {length // 1024}K", registers, rate, length)


def builds() -> Iterator[Claim]:
    """Pairs of CTAs, spills and assemblers."""
    for length, one, two in ((2048, 1123, 962), (4096, 1223, 988), (8192, 1246, 1025),
                             (16384, 1275, 1047)):  # fmt: skip
        yield Claim(
            "builds", f"pair of CTAs that spills over one CTA, {length // 1024}K",
            Call(SPILLED, FULL, length, 128), Call(ONE, FULL, length, 128), one / two, TWILL,
        )  # fmt: skip
    yield Claim(
        "builds", "spilling over spill-free registers, pair of CTAs, 16K",
        Call(SPILLED, FULL, 16384, 32), Call(PAIR, FULL, 16384, 32), 1.265,
        "flash-attention pull request 2869",
    )  # fmt: skip
    yield Claim(
        "builds", "ptxas 12.9 over 13, pair of CTAs, 16K",
        Call(fa4(ptxas=CUDA12), FULL, 16384, 32), Call(PAIR, FULL, 16384, 32), 1542 / 1280,
        "flash-attention commit 83b8b8f0",
    )  # fmt: skip
    direct = fa4((("use_tma_O", False),))
    for length in (1024, 8192):
        yield Claim(
            "builds", f"O by bulk copy over O from registers, d64, {length // 1024}K",
            Call(PAIR, FULL_64, length, 32 * 32768 // length),
            Call(direct, FULL_64, length, 32 * 32768 // length), 1.204,
            "flash-attention pull request 2741, 60 shapes",
        )  # fmt: skip


def exponentials() -> Iterator[Claim]:
    """How many exponentials are polynomials, and of which degree."""
    none = fa4((("ex2_emu_freq", 0),))
    for length, gain in ((4096, -0.2), (16384, 0.7), (32768, 2.3), (131072, 7.4)):
        yield Claim(
            "exponentials", f"no polynomials over 1 of 14, d256, {length // 1024}K",
            Call(none, FULL_256, length, 64), Call(PAIR, FULL_256, length, 64), 1 + gain / 100,
            "flash-attention pull request 2488",
        )  # fmt: skip
    for length, gain in ((4096, 3.4), (16384, 5.5)):
        yield Claim(
            "exponentials", f"1 of 16 over 1 of 8, fp8, causal, {length // 1024}K",
            Call(fa4((("ex2_emu_freq", 16),)), FP8_CAUSAL, length, 128),
            Call(PAIR, FP8_CAUSAL, length, 128), 1 + gain / 100,
            "the package's table; flash-attention pull request 2642",
        )  # fmt: skip
    yield Claim(
        "exponentials", "1 of 8 over 1 of 10, fp8, 16K",
        Call(fa4((("ex2_emu_freq", 8),)), FP8, 16384, 32), Call(PAIR, FP8, 16384, 32), 1 / 0.94,
        "the package's table",
    )  # fmt: skip
    yield Claim(
        "exponentials", "degree 2 over degree 3, 16K",
        Call(fa4((("poly_degree", 2),)), FULL, 16384, 32), Call(PAIR, FULL, 16384, 32), 1 / 1.03,
        "flash-attention pull request 2316",
    )  # fmt: skip


def masks() -> Iterator[Claim]:
    """Causal beside full attention: times."""

    def mask(where: str, length: int, heads: int, times: float, source: str, chip: str) -> Claim:
        above, below = (Call(PAIR, family, length, heads) for family in (CAUSAL, FULL))
        name = f"causal over all keys, {where}"
        return Claim("masks", name, above, below, times, source, chip=chip)

    yield mask("b4 h16 8K", 8192, 64, 0.775 / 1.433, "flash-attention pull request 2280", CHIP)
    boxes = {"first": ((829, 1540), (1172, 1706), (1431, 1796)),
             "second": ((704, 1196), (944, 1266), (1114, 1309))}  # fmt: skip
    for box, rates in boxes.items():
        for length, (causal, full) in zip((1024, 2048, 4096), rates, strict=True):
            where, times = f"{length // 1024}K, {box} machine", full / causal / 2
            yield mask(where, length, 2**19 // length, times, "flash-attention issue 2605", CHIP)
    for length, (full, causal) in GB200.items():
        where, times = f"{length // 1024}K, GB200", full / causal / 2
        yield mask(where, length, 128, times, FRONTEND, "gb200")
    for length, one, other in ((1024, 21.51, 33.09), (4096, 120.11, 220.10), (8192, 437, 800.1)):
        yield mask(f"{length // 1024}K, b1 h32", length, 32, one / other, TIRX, CHIP)


def lengths() -> Iterator[Claim]:
    """The shape of curves over the length: time per work, over that of the longest."""
    boxes = {"first": (1540, 1706, 1796, 1837, 1882), "second": (1196, 1266, 1309, 1357, 1401)}
    last = Call(PAIR, FULL, 16384, 32)
    for box, rates in boxes.items():
        for length, rate in zip((1024, 2048, 4096, 8192), rates, strict=False):
            yield Claim(
                "lengths", f"{length // 1024}K over 16K, 32K tokens, {box} machine",
                Call(PAIR, FULL, length, 16 * 32768 // length), last, rates[-1] / rate,
                "flash-attention issue 2605", length / 16384,
            )  # fmt: skip
    for family, times in ((FULL, {1024: 33.09, 2048: 60.09, 4096: 220.10, 8192: 800.1}),
                          (CAUSAL, {1024: 21.51, 4096: 120.11, 8192: 437.0})):  # fmt: skip
        for length, time in list(times.items())[:-1]:
            work = (length / 8192) ** 2
            yield Claim(
                "lengths", f"{length // 1024}K over 8K, b1 h32, {family.name.split()[-1]}",
                Call(PAIR, family, length, 32), Call(PAIR, family, 8192, 32),
                time / times[8192] / work, TIRX, work,
            )  # fmt: skip
    for which, family in enumerate((FULL, CAUSAL)):
        for length in (length for length in GB200 if length != 8192):
            yield Claim(
                "lengths", f"{length // 1024}K over 8K, GB200, {family.name.split()[-1]}",
                Call(PAIR, family, length, 128), Call(PAIR, family, 8192, 128),
                GB200[8192][which] / GB200[length][which], FRONTEND, (length / 8192) ** 2, "gb200",
            )  # fmt: skip


CLAIMS: Final = (*knobs(), *builds(), *exponentials(), *masks(), *lengths())
Row = Mapping[str, Any]


def save(rows: Sequence[Row], path: Path = RECORDS) -> None:
    """Write them, one a line, in the order of the claims."""
    order = {claim.name: place for place, claim in enumerate(CLAIMS)}
    kept = sorted((row for row in rows if row["name"] in order), key=lambda r: order[r["name"]])
    write(kept, path)


def predicted(maker: Maker, claim: Claim) -> dict[str, Any]:
    """The row of a claim: the ratio with the chip's own values, and those of the draws."""
    above, below = (
        maker.whole(call.column, call.family, call.length, call.heads)
        for call in (claim.above, claim.below)
    )
    found = [a / b / claim.work for a, b in zip(above.cycles, below.cycles, strict=True)]
    return {"name": claim.name, "ratios": [round(r, 4) for r in found], "model": model()}


GROUPS: Final = {
    "knobs": "Knobs of FlashAttention-4, one CTA, head dim 128, all keys: time over the unchanged "
    "kernel's",
    "builds": "Builds of the same kernel: time over time",
    "exponentials": "Exponentials as polynomials: time over time",
    "masks": "A mask: time over time",
    "lengths": "Lengths, the shape of the curve: time per work over that of the longest",
}
TARGET: Final = 0.03
"""How far a ratio may be off."""


def section(rows: Sequence[Row]) -> list[str]:
    """The tables of the page: every claim, hit or missed."""
    found = {row["name"]: row["ratios"] for row in rows}
    hits = [claim for claim in CLAIMS if claim.name in found and off(claim, found) <= TARGET]
    inside = [claim for claim in CLAIMS if claim.name in found and _inside(claim, found)]
    lines = [
        f"{len(found)} ratios: {len(hits)} within {TARGET:.0%} of what was published, "
        f"{len(inside)} with the published value in the band of the draws. Mean size of the error "
        f"{sum(off(c, found) for c in CLAIMS if c.name in found) / max(len(found), 1):.1%}.",
        *_orders(found),
    ]
    for group, title in GROUPS.items():
        lines += ["", f"{title}:", "", "| what | published | predicted | band | error | source |",
                  "|---|---|---|---|---|---|"]  # fmt: skip
        for claim in CLAIMS:
            if claim.group != group:
                continue
            if claim.name not in found:
                told = f"| {claim.name} | {claim.published:.3f} | not run | | |"
                lines.append(f"{told} {claim.source} |")
                continue
            ratios = found[claim.name]
            band = Band.of(ratios[1:])
            lines.append(
                f"| {claim.name} | {claim.published:.3f} | "
                f"{ratios[0]:.3f} | "
                f"{band.low:.3f}–{band.high:.3f} | {ratios[0] / claim.published - 1:+.1%} | "
                f"{claim.source} |"
            )
    return lines


def _orders(found: Mapping[str, Sequence[float]]) -> list[str]:
    """Rank correlation of predicted and published ratios within each group."""
    told = []
    for group in GROUPS:
        pairs = [(found[c.name][0], c.published) for c in CLAIMS
                 if c.group == group and c.name in found]  # fmt: skip
        if len(pairs) > PAIRS_AT_LEAST:
            told.append(f"{group} {tau(pairs):.2f} ({len(pairs)})")
    text = f"Order within a group, Kendall's tau: {', '.join(told)}; target 0.9."
    return ["", text] if told else []


def off(claim: Claim, found: Mapping[str, Sequence[float]]) -> float:
    """Size of the error of a claim's ratio."""
    return abs(found[claim.name][0] / claim.published - 1)


def _inside(claim: Claim, found: Mapping[str, Sequence[float]]) -> bool:
    band = Band.of(found[claim.name][1:])
    return band.low <= claim.published <= band.high


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict claims and keep them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over names")
    parser.add_argument("--missing", action="store_true", help="only those that are not there")
    given = parser.parse_args(arguments)
    import sm100sim

    warnings.simplefilter("ignore")
    sm100sim.activate(sm_count=148)  # before the DSL is imported
    makers: dict[str, Maker] = {}
    failed = 0
    for claim in CLAIMS:
        rows = {row["name"]: row for row in load(RECORDS)}
        if (given.missing and claim.name in rows) or not re.search(given.only, claim.name):
            continue
        try:
            if claim.chip not in makers:
                makers[claim.chip] = Maker(claim.chip, *makers.values())
            rows[claim.name] = predicted(makers[claim.chip], claim)
        except Exception as error:  # the others go on
            print(f"{claim.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            failed += 1
            continue
        print(claim.name, claim.published, rows[claim.name]["ratios"][0], flush=True)
        save(list(rows.values()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the judged predictions say of bands: coverage, the model's own error, ratios of two kernels.

`benchmarks.timing.judges.page` puts it into its page, and into `held.toml` of the profiler, which
shows it beside every band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby
from math import ceil
from statistics import mean
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from benchmarks.timing.claims.found import every
from benchmarks.timing.claims.page import firsts
from benchmarks.timing.gemms import nine_of_ten
from sm100sim.timing.predict import Band
from sm100sim.timing.profile.held import FILE, OF_BAND, Held, HeldRatios

if TYPE_CHECKING:
    from benchmarks.timing.judges.page import Judged

FEWEST: Final = 2
"""Families below which none can be left out."""
DIGITS: Final = 4
Pair = tuple[float, float]
"""A ratio as it was predicted, and as a chip had it."""
HEAD: Final = """# What came of holding predictions to chips: `held.py` says what the words mean.
# Written by `python -m benchmarks.timing.judges.page docs/timing_cycles.md`.
"""
EDGES: Final = """
**Outside its own band.** The prediction itself lies outside its band in {outside} of these cases,
below it in {below}: the best known value may stand near an edge of what it may be, and then
nearly all draws are on one side of it. In GEMMs it is `l2_shared_bytes`, what an SM gets of rows
that SMs share: 74 bytes a cycle, 36 to 75 seen. Triton's 64 × 128 by boxes has 384,044 beside
401,304 to 699,597; with this value alone kept at 74 in the same draws the band is 375,078 to
388,279. At 36 it takes 90 % longer, at 75 1.1 % less; no end of another range moves it by 3 %. In
attention it is that one, `icache_next` (10 of 8 to 34), `l2_write_bytes` (2,327 of 1,449 to
3,112) and `hbm_gbytes`: this package's d256 of 512 keys with a mask has 147,939 beside 149,031 to
172,558, from 144,100 on with 74 kept, and their far ends are worth +12, +14, +7 and -4 %. On a
B200 it is `icache_next` first: d64, 512 keys, one cluster 11,526 beside 12,183 to 16,372, and
11,877 to 13,040 with 10 kept; 34 is worth +42 %, 8 -4 %. `icache_jump` (40 of 20 to 120) and
`store_latency` (130 of 130 to 600) come next, +10 and +4 %. So a point below its band is no error
of either: the band says that the chip may well be slower than the best known values are."""


def in_band(case: Judged) -> bool:
    """Whether a chip's cycles lie in the band of draws."""
    return case.band[0] <= (case.measured or 0) <= case.band[1]


def _without(cases: Sequence[Judged], family: str) -> float:
    """The error of nine of ten kernels that are of no such family."""
    return nine_of_ten(abs(case.error) for case in cases if case.runner != family)


def _in_both(cases: Sequence[Judged], family: str) -> int:
    """Cases of a family in the band of draws widened by the error of all others."""
    error, found = _without(cases, family), 0
    for case in cases:
        if case.runner == family:
            of = Held("", 0, 0, 0, error, 0, 0)
            low, high = of.widened(case.predicted, Band(case.band[0], 0, case.band[1]))
            found += low <= (case.measured or 0) <= high
    return found


def families(cases: Sequence[Judged]) -> list[str]:
    """The families, in the order of the cases."""
    return list(dict.fromkeys(case.runner for case in cases))


def kernels(cases: Sequence[Judged], on: str) -> Held:
    """What came of all measured cases."""
    errors, names = [abs(case.error) for case in cases], families(cases)
    return Held(
        on, len(cases), len(names), round(mean(errors), DIGITS), round(nine_of_ten(errors), DIGITS),
        sum(map(in_band, cases)), sum(_in_both(cases, name) for name in names),
    )  # fmt: skip


def pairs(cases: Sequence[Judged]) -> Iterator[Pair]:
    """Every two kernels of one problem: variants of one, or of two packages."""
    ordered = sorted(cases, key=lambda case: case.ladder)
    for _, group in groupby(ordered, key=lambda case: case.ladder):
        for a, b in combinations(group, 2):
            yield a.predicted / b.predicted, (a.measured or 0) / (b.measured or 1)


def published() -> list[Pair]:
    """Ratios of one Blackwell machine that others published: one prediction of each."""
    return [(found.ratios[0], found.claim.published) for found in firsts(every())]


def lead(pair: Pair) -> float:
    """How far a predicted ratio is from 1, of the longer time over the shorter one."""
    return max(pair[0], 1 / pair[0]) - 1


def ratios(found: Sequence[Pair], of: str) -> HeldRatios:
    """What came of predicted ratios."""
    errors = [abs(told / seen - 1) for told, seen in found]
    wrong = [lead(pair) for pair in found if (pair[0] - 1) * (pair[1] - 1) <= 0]
    order = ceil(100 * max(wrong, default=0)) / 100
    return HeldRatios(
        of, len(found), round(mean(errors), DIGITS), round(nine_of_ten(errors), DIGITS), order,
        sum(lead(pair) >= order for pair in found),
    )  # fmt: skip


def document(cases: Sequence[Judged], lanes: Sequence[Judged], on: str = "an H200") -> str:
    """The file of the profiler; ``lanes``: cases without MMAs, whether judged apart or not."""
    tables = {
        "kernels": kernels(cases, on),
        "lanes": kernels(lanes, on),
        "ratios.hopper": ratios(list(pairs(cases)), f"of two kernels of a problem on {on}"),
        "ratios.blackwell": ratios(published(), "published of one Blackwell machine"),
    }
    lines = [HEAD.rstrip()]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        for key, value in vars(table).items():
            lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}")
    return "\n".join([*lines, ""])


def write(cases: Sequence[Judged], lanes: Sequence[Judged]) -> None:
    """Write the file of the profiler."""
    FILE.write_text(document(cases, lanes))


def section(cases: Sequence[Judged]) -> list[str]:
    """What bands are worth, by family."""
    names = families(cases)
    if len(names) < FEWEST:
        return []
    found = kernels(cases, "")
    of_two = ratios(list(pairs(cases)), "")
    expected = OF_BAND * found.kernels
    said = (
        f"**Bands.** A band is 5 to 95 % of draws of values that are not known, so {expected:.0f} "
        f"of {found.kernels} would lie in theirs were that all that is unknown. {found.in_band} "
        f"do, {found.in_band / found.kernels:.0%}: the rest is the model's own error, of which a "
        f"draw knows nothing. Nine of ten cases are within {found.nine:.1%}. A band that reaches "
        "as far around the prediction as well, by the error of nine of ten kernels of all "
        f"**other** families, holds {found.in_both}, {found.in_both / found.kernels:.0%}. That "
        "one is what a profile says beside the band of draws."
    )
    lines = [
        *wrap(said, 96, break_on_hyphens=False), "",
        "| kernels | cases | expected | in the band | error of nine of ten others | in both |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in names:
        mine = [case for case in cases if case.runner == name]
        lines.append(
            f"| {name} | {len(mine)} | {OF_BAND * len(mine):.1f} | {sum(map(in_band, mine))} | "
            f"{_without(cases, name):.1%} | {_in_both(cases, name)} |"
        )
    lines.append(
        f"| all | {found.kernels} | {expected:.1f} | {found.in_band} | | {found.in_both} |"
    )
    below = sum(case.predicted < case.band[0] for case in cases)
    outside = below + sum(case.predicted > case.band[1] for case in cases)
    edges = EDGES.format(outside=outside, below=below)
    two = (
        f"**Ratios** of two kernels of one problem, {of_two.pairs} pairs, which share kernels: "
        f"{of_two.mean:.1%} off, nine of ten within {of_two.nine:.1%}. Of the {of_two.ordered} "
        f"with a predicted lead of {of_two.order:.0%} or more none is the other way round."
    )
    return [*lines, "", *wrap(" ".join(edges.split()), 96, break_on_hyphens=False), "",
            *wrap(two, 96, break_on_hyphens=False), ""]  # fmt: skip

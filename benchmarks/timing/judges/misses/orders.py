"""Orders of variants of one problem: as predicted, as measured, and as predicted again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby
from statistics import mean
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.timing.gemms import PAIRS_AT_LEAST

if TYPE_CHECKING:
    from benchmarks.timing.judges.page import Judged

WANTED: Final = 0.9
WIDTH: Final = 96
ORDERS: Final = (
    "Order of variants of one problem, Kendall's tau; target 0.9. The chip's own is that of single",
    "runs beside the order of medians. Pairs apart are those whose runs do not overlap: of the",
    "others the chip itself gives now one order, now the other.",
)


class Order(NamedTuple):
    """A ladder: how many variants, tau, the chip's own, pairs apart, all pairs, tau of those."""

    many: int
    tau: float
    own: float
    apart: int
    pairs: int
    of_apart: float


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


def _alike(one: Judged, two: Judged) -> tuple[int, float]:
    """Whether a pair is predicted in the order in which it was measured, and measured so again.

    1, -1 or 0, and the mean of that over all pairs of one run of each.
    """
    order = _sign((one.measured or 0) - (two.measured or 0))
    runs = [_sign(a - b) * order for a in one.runs for b in two.runs]
    return _sign(one.predicted - two.predicted) * order, mean(runs or [1])


def orders(cases: Sequence[Judged]) -> dict[str, Order]:
    """The ladders of some cases by name."""
    found = {}
    ordered = sorted(cases, key=lambda case: case.ladder)
    for ladder, group in groupby(ordered, key=lambda case: case.ladder):
        known = [case for case in group if case.measured is not None]
        if len(known) > PAIRS_AT_LEAST:
            pairs = [_alike(a, b) for a, b in combinations(known, 2)]
            apart = [right for right, again in pairs if again == 1]
            found[ladder] = Order(
                len(known), mean(right for right, _ in pairs), mean(again for _, again in pairs),
                len(apart), len(pairs), mean(apart or [0]),
            )  # fmt: skip
    return found


def ladders(cases: Sequence[Judged]) -> list[str]:
    """A table of orders."""
    return [
        "| variants of | how many | tau | the chip's own | pairs apart | tau of these |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {one.many} | {one.tau:.2f} | {one.own:.2f} | "
            f"{one.apart} of {one.pairs} | {one.of_apart:.2f} |"
            for name, one in orders(cases).items()
        ),
    ]


def _moved(first: dict[str, Order], again: dict[str, Order]) -> Iterator[str]:
    """Which ladders came nearer to the chip's order, and which went further from it."""
    for word, side in (("Nearer", 1), ("Further off", -1)):
        names = [
            f"{name} ({one.tau:.2f}, now {again[name].tau:.2f})"
            for name, one in first.items()
            if name in again and _sign(round(again[name].tau - one.tau, 9)) == side
        ]
        yield f"{word}: {', '.join(names) or 'none'}."


def _kept(found: dict[str, Order]) -> str:
    good, apart = (
        sum(at >= WANTED for at in taus)
        for taus in (
            [one.tau for one in found.values()], [one.of_apart for one in found.values()],
        )
    )  # fmt: skip
    return f"{good} of {len(found)} have {WANTED} or more, {apart} of pairs apart"


def again_lines(
    rounds: Sequence[tuple[str, Sequence[Judged]]], again: Sequence[Judged]
) -> list[str]:
    """Orders by the rules of now beside those of before the measurement, for each round."""
    found, told, rows = orders(again), [], []
    first: dict[str, Order] = {}
    for name, cases in rounds:
        before = orders(cases)
        now = {ladder: one for ladder, one in found.items() if ladder in before}
        if not now:
            continue
        first |= before
        told.append(f"{name.capitalize()} round: {_kept(before)}; now {_kept(now)}.")
        rows += [
            f"| {name} | {ladder} | {one.many} | {before[ladder].tau:.2f} | {one.tau:.2f} | "
            f"{before[ladder].of_apart:.2f} | {one.of_apart:.2f} |"
            for ladder, one in now.items()
        ]
    if not rows:
        return []
    said = ["Order of variants, predicted again.", *told, *_moved(first, found)]
    return [
        *wrap(" ".join(said), WIDTH, break_on_hyphens=False), "",
        "| round | variants of | how many | tau before | now | of pairs apart before | now |",
        "|---|---|---|---|---|---|---|", *rows, "",
    ]  # fmt: skip

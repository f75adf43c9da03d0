"""Ratios of claims from the records of calls, and what values of the machine move them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from benchmarks.timing.claims.builds import TODAY
from benchmarks.timing.claims.table import CLAIMS, Claim
from benchmarks.timing.side_by_side.records import load
from sm100sim.timing.chips import load_chip
from sm100sim.timing.predict import Band

CALLS: Final = Path(__file__).with_name("calls.json")
RATIOS: Final = Path(__file__).with_name("ratios.json")
"""Of today's release, from before calls were kept."""
TARGET: Final = 0.03
"""How far a ratio may be off."""
MOVED: Final = 0.01
"""What an end of a range must move a ratio by to be named."""
NAMED: Final = 3
"""How many values are named."""
Row = Mapping[str, Any]


def key_of(row: Row) -> tuple[str, str]:
    """What a record is of: the build, and the call."""
    return row["build"], row["call"]


@dataclass(frozen=True)
class Found:
    """A predicted ratio.

    Attributes:
        claim: what was published. build: of which it is predicted, of `below` where two differ.
        ratios: by draw, the chip's own values first.
        ends: the ratio with one value at an end of its range, by "value end".
        local: instructions that spill or fill registers, of both kernels; none where not kept.
    """

    claim: Claim
    build: str
    ratios: Sequence[float]
    ends: Mapping[str, float]
    local: tuple[int, ...] = ()

    @property
    def error(self) -> float:
        """How far the ratio is from the published one."""
        return self.ratios[0] / self.claim.published - 1

    @property
    def hit(self) -> bool:
        """Whether it is within the target."""
        return abs(self.error) <= TARGET

    @property
    def inside(self) -> bool:
        """Whether the published ratio is in the band of the draws."""
        band = Band.of(self.ratios[1:])
        return band.low <= self.claim.published <= band.high

    def moved(self) -> list[tuple[str, float]]:
        """Ends that bring the ratio nearer to what was published, and by what factor: most first.

        Of a value only its better end.
        """
        own, sign = self.ratios[0], 1 if self.error < 0 else -1
        best: dict[str, tuple[str, float]] = {}
        for end, ratio in self.ends.items():
            name, by = end.split()[0], ratio / own
            if sign * (by - 1) >= MOVED and sign * by > sign * best.get(name, ("", 1.0))[1]:
                best[name] = end, by
        return sorted(best.values(), key=lambda one: -sign * one[1])

    def reach(self) -> float:
        """The error that stays if all of these were at those ends and their moves multiplied."""
        return self.ratios[0] * prod(by for _, by in self.moved()) / self.claim.published - 1


def every(calls: Sequence[Row] | None = None, ratios: Sequence[Row] | None = None) -> list[Found]:
    """What is predicted, in the order of the claims; what was timed stands first."""
    by_key = {key_of(row): row for row in (load(CALLS) if calls is None else calls)}
    kept = {row["name"]: row["ratios"] for row in (load(RATIOS) if ratios is None else ratios)}
    return [found for claim in CLAIMS for found in _of(claim, by_key, kept)]


def _of(claim: Claim, calls: Mapping[tuple[str, str], Row], kept: Mapping[str, Any]
) -> Iterator[Found]:  # fmt: skip
    for pair in claim.compared():
        name = pair[1][0].name
        rows = [calls.get((build.name, call.name(claim.chip))) for build, call in pair]
        above, below = rows
        if above is not None and below is not None:
            ratios = [a / b / claim.work for a, b in zip(above["cycles"], below["cycles"],
                                                         strict=True)]  # fmt: skip
            felt = {**above["ends"], **below["ends"]}
            ends = {end: _at(above, end) / _at(below, end) / claim.work for end in felt}
            yield Found(claim, name, ratios, ends, (above["local"], below["local"]))
        elif name == TODAY.name and claim.name in kept:
            yield Found(claim, name, kept[claim.name], {})


def _at(row: Row, end: str) -> float:
    return float(row["ends"].get(end, row["cycles"][0]))


def told(found: Found) -> str:
    """What of the machine decides a miss, in a sentence."""
    if not found.ends:
        return "what moves it is not kept"
    known = load_chip(found.claim.chip).parameters
    moves = found.moved()
    if not moves:
        return f"no value moves it by {MOVED:.0%} towards it"
    words = []
    for end, by in moves[:NAMED]:
        name, at = end.split()
        value = known[name]
        words.append(f"`{name}` {at} instead of {value.value:g} ({value.status}) {by - 1:+.1%}")
    rest = f" and {len(moves) - NAMED} more" if len(moves) > NAMED else ""
    first = moves[0][1] * found.ratios[0] / found.claim.published - 1
    closes = "; the first alone closes it" if abs(first) <= TARGET or first * found.error < 0 else (
        f"; all of them leave {found.reach():+.1%}"
        if found.reach() * found.error > 0 and abs(found.reach()) > TARGET
        else "; together they close it"
    )  # fmt: skip
    return "; ".join(words) + rest + closes

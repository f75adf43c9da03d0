"""The clock that published times say, were the predicted cycles right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.machine_state import CHIP
from benchmarks.timing.claims.builds import MAY
from benchmarks.timing.claims.found import Row, key_of
from benchmarks.timing.claims.table import (
    BUMP,
    CAUSAL,
    FRONTEND,
    FULL,
    GB200,
    OLD_DSL,
    PAIR,
    TIRX,
    TIRX_TIMES,
    Call,
)
from benchmarks.timing.side_by_side.problems import Family

MASKS: Final = {"all": FULL, "causal": CAUSAL}


@dataclass(frozen=True)
class Curve:
    """Times over the length.

    Attributes:
        source: where they stand. chip: on which they were taken. mask: "all" or "causal".
        times: heads of all sequences, and microseconds, by length.
    """

    source: str
    chip: str
    mask: str
    times: Mapping[int, tuple[int, float]]

    def clocks(self, calls: Mapping[tuple[str, str], Row]) -> Iterator[tuple[int, float]]:
        """Lengths, and the GHz at which the predicted cycles take that long."""
        for length, (heads, time) in self.times.items():
            _, call = Call(PAIR, MASKS[self.mask], length, heads).by(MAY)
            row = calls.get((MAY.name, call.name(self.chip)))
            if row is not None:
                yield length, row["cycles"][0] / time / 1000


def microseconds(family: Family, length: int, heads: int, tflops: float) -> float:
    """What a rate is as a time; a causal call has half the operations."""
    operations = 4 * length**2 * family.dims[0] * heads / (2 if family.causal else 1)
    return operations / tflops / 1e6


def curves() -> Iterator[Curve]:
    """The published ones of which more than a ratio is known."""
    for which, (mask, family) in enumerate(MASKS.items()):
        yield Curve(TIRX, CHIP, mask, {n: (32, time) for n, time in TIRX_TIMES[mask].items()})
        rates = OLD_DSL[mask]
        lengths = [(1024 << power, rate) for power, rate in enumerate(rates)]
        yield Curve(BUMP, CHIP, mask, {
            n: (2**19 // n, microseconds(family, n, 2**19 // n, rate)) for n, rate in lengths
        })  # fmt: skip
        yield Curve(FRONTEND, "gb200", mask, {
            n: (128, microseconds(family, n, 128, both[which])) for n, both in GB200.items()
        })  # fmt: skip


def section(rows: Sequence[Row]) -> list[str]:
    """The table: a row a curve, a column a length."""
    calls = {key_of(row): row for row in rows}
    made = sorted(curves(), key=lambda curve: curve.source)
    lengths = sorted({length for curve in made for length in curve.times})
    lines = [
        "Cycles that are predicted over the time that is published are a clock, in GHz, if the",
        f"prediction is right; of {MAY.name}, which does not spill:", "",
        f"| source | keys | {' | '.join(f'{n // 1024}K' for n in lengths)} |",
        "|---|---|" + "---|" * len(lengths),
    ]  # fmt: skip
    for curve in made:
        found = dict(curve.clocks(calls))
        cells = " | ".join(f"{found[n]:.2f}" if n in found else "" for n in lengths)
        lines.append(f"| {curve.source} | {curve.mask} | {cells} |")
    return lines

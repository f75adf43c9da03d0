"""How far predictions were off where chips were asked, and what that adds to a band of draws.

A band of draws says what is not known of a chip's values. That the machine lacks something is not
in it, so a chip's own time lies outside more often than a band of 5 to 95 % would. `held.toml` has
what came of holding predictions to chips; `python -m benchmarks.timing.judges.page` writes it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ...chips import load_chip
from ...predict import Band

FILE: Final = Path(__file__).with_name("held.toml")
OF_BAND: Final = 0.9
"""Cases that would lie in a band of 5 to 95 %, were the chip's values all that is unknown."""


@dataclass(frozen=True)
class Held:
    """Predicted launches beside measured ones, each as the only one that a chip has figures of.

    Attributes:
        on: the GPU, in words. kernels, families: how many were measured.
        mean: of the sizes of the relative errors. nine: what nine of ten do not exceed.
        in_band: kernels whose measured cycles lie in the band of draws.
        in_both: the same in that band with the error, `nine` being that of all other families.
    """

    on: str
    kernels: int
    families: int
    mean: float
    nine: float
    in_band: int
    in_both: int

    def widened(self, cycles: float, band: Band) -> tuple[float, float]:
        """Return the band of draws, and as far around the chip's own values as nine of ten were."""
        around = cycles / (1 + self.nine), cycles / (1 - self.nine)
        return min(band.low, around[0]), max(band.high, around[1])


@dataclass(frozen=True)
class HeldRatios:
    """Predicted ratios of two times beside measured or published ones of an architecture.

    Attributes:
        of: whose, in words. pairs: how many.
        mean: of the sizes of the relative errors. nine: what nine of ten do not exceed.
        order: the least lead, in whole percent, from which no pair was the other way round.
        ordered: pairs with at least that lead.
    """

    of: str
    pairs: int
    mean: float
    nine: float
    order: float
    ordered: int

    def doubted(self, ratio: float) -> bool:
        """Return whether a predicted ratio is so near to 1 that its error may be the lead."""
        return 1 - self.nine <= ratio <= 1 + self.nine


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text())


def held(*, multiplies: bool = True) -> Held:
    """Return what came of predictions of single launches.

    Args:
        multiplies: of a launch whose kernel has MMAs; what loads and adds by lanes is less certain.
    """
    return Held(**_document()["kernels" if multiplies else "lanes"])


def held_ratios(chip: str) -> HeldRatios:
    """Return what came of predicted ratios: of this chip's generation, Hopper or Blackwell."""
    known = _document()["ratios"]
    hopper = load_chip(chip).arch.startswith("sm_90")
    return HeldRatios(**known["hopper" if hopper else "blackwell"])


def with_error(cycles: float, band: Band, chip: str, *, multiplies: bool = True) -> tuple[str, str]:
    """Return what is to be said beside a band of draws, the model's own error included."""
    found = held(multiplies=multiplies)
    low, high = found.widened(cycles, band)
    hopper, kind = load_chip(chip).arch.startswith("sm_90"), "" if multiplies else " without MMAs"
    elsewhere = "" if hopper else f"; no kernel's cycles on a {chip.upper()} are known"
    return (
        f"with the model's own error {low:,.0f} to {high:,.0f}: nine of ten of {found.kernels} "
        f"launches{kind} on {found.on} were within {found.nine:.1%};",
        f"{found.in_band / found.kernels:.0%} of them lay in the band of draws, "
        f"{found.in_both / found.kernels:.0%} in such a one, {OF_BAND:.0%} should{elsewhere}",
    )


def ratio_with_error(ratio: float, chip: str) -> str:
    """Return what is to be said beside a ratio of two kernels' times."""
    found = held_ratios(chip)
    doubt = "less than that: doubt it" if found.doubted(ratio) else "more than that"
    return (
        f"of {found.pairs} ratios {found.of} nine of ten were predicted within {found.nine:.1%}; "
        f"this lead is {doubt}"
    )

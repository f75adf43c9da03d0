"""Predictions with their bands: a launch over many draws of what is not known of a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .chips import load_chip
from .gpu import LaunchTime, time_launch
from .records import LaunchTrace

DRAWS: Final = 24
BAND: Final = (5, 50, 95)


@dataclass(frozen=True)
class Band:
    """The 5 %, 50 % and 95 % quantiles of draws."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Band:
        """Return the band of some values."""
        return cls(*(float(q) for q in np.percentile(values, BAND)))


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a launch is predicted to take.

    Attributes:
        kernel, chip, compiler: of what, on what, and the version of ptxas that built it.
        cycles: of each draw, in the order of draws. typical: with the chip's values themselves.
        clock_mhz: at which `microseconds` counts.
    """

    kernel: str
    chip: str
    compiler: str
    cycles: tuple[float, ...]
    typical: LaunchTime
    clock_mhz: float

    @property
    def band(self) -> Band:
        """The band of the cycles."""
        return Band.of(self.cycles)

    @property
    def microseconds(self) -> float:
        """The median at `clock_mhz`."""
        return self.band.median / self.clock_mhz

    def ratio(self, other: Prediction) -> Band:
        """Return the band of this launch's cycles over another's, draw by draw.

        Raises:
            ValueError: the two are of different chips, or have different numbers of draws.
        """
        if (self.chip, len(self.cycles)) != (other.chip, len(other.cycles)):
            raise ValueError(
                f"other: {len(other.cycles)} draws of {other.chip}; a comparison needs the "
                f"{len(self.cycles)} of {self.chip}"
            )
        return Band.of([a / b for a, b in zip(self.cycles, other.cycles, strict=True)])


def predict_launch(
    launch: LaunchTrace, chip: str, *, draws: int = DRAWS, seed: int = 0, hbm_bytes: int = 0
) -> Prediction:
    """Predict what a launch takes.

    Args:
        launch: what its clusters executed.
        chip: "h100", "h200", "b200", "gb200" or "b300".
        draws: how often what is only known as a range is drawn.
        seed: of the draws; the same seed gives any kernel the same draws.
        hbm_bytes: bytes that have to come from, or go to, memory.

    Raises:
        ValueError: no such chip, no draws, or the code is of another architecture.
    """
    if draws < 1:
        raise ValueError(f"draws: {draws}; at least one is needed")
    described = load_chip(chip)
    kernel = launch.traces[0].kernel
    if kernel.arch.rstrip("af") != described.arch.rstrip("af"):
        raise ValueError(f"chip: {chip} is {described.arch}, and the code is of {kernel.arch}")
    typical = time_launch(launch, described.draw(), hbm_bytes=hbm_bytes)
    drawn = (described.draw(number, seed) for number in range(1, draws + 1))
    cycles = tuple(time_launch(launch, draw, hbm_bytes=hbm_bytes).cycles for draw in drawn)
    clock_mhz = described.parameters["clock_mhz"].value
    return Prediction(kernel.name, chip, kernel.compiler, cycles, typical, clock_mhz)

"""Predictions with their bands: a launch over many draws of what is not known of a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ...crew.recording import Recording
from ...options import whole_number
from ..chips import Chip, chip_names, load_chip
from ..chips.targets import refuse_other
from ..records import LaunchTrace
from ..sass.lines import compiled, of_cubin
from ..sass.trace import traced
from .gpu import LaunchTime, time_launch, time_marked
from .memory import NO_TRAFFIC
from .whole import asked_by, begins_cold, is_whole, marked

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
        longest: cycles of the longest cluster, of each draw.
        seed: of the draws. cold: whether nothing was in the L2 when it began.
    """

    kernel: str
    chip: str
    compiler: str
    cycles: tuple[float, ...]
    typical: LaunchTime
    clock_mhz: float
    longest: tuple[float, ...] = ()
    seed: int = 0
    cold: bool = False

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
            ValueError: the two are of different chips, numbers of draws or seeds.
        """
        same_draws(
            (self.chip, len(self.cycles), self.seed),
            "other",
            (other.chip, len(other.cycles), other.seed),
        )
        return Band.of([a / b for a, b in zip(self.cycles, other.cycles, strict=True)])


def same_draws(first: tuple[str, int, int], name: str, second: tuple[str, int, int]) -> None:
    """Refuse to compare what is of other draws: the chip, how many, and their seed.

    `name`: of the argument that has the second.

    Raises:
        ValueError: they differ; names both.
    """
    if first != second:
        one, other = (
            f"{count} draws of {chip} with seed {seed}" for chip, count, seed in (first, second)
        )
        raise ValueError(f"{name}: {other}; a comparison needs the {one}")


def chip_for(launch: LaunchTrace, chip: str, draws: int) -> Chip:
    """Return the chip that a launch is to be drawn on so many times.

    Raises:
        ValueError: no such chip, no draws, or the code is of another architecture.
        TypeError: draws are no whole number.
    """
    whole_number("draws", draws, f"; nearest supported choice: {DRAWS}")
    if draws < 1:
        raise ValueError(f"draws: {draws}; nearest supported choice: 1")
    described, arch = load_chip(chip), launch.traces[0].kernel.arch
    if arch.rstrip("af") != described.arch.rstrip("af"):
        same = [n for n in chip_names() if load_chip(n).arch.rstrip("af") == arch.rstrip("af")]
        raise ValueError(
            f"chip: {chip} is {described.arch}, and the code is of {arch}; nearest supported "
            f"choice: {' or '.join(same) or 'none'}"
        )
    return described


def predict_launch(
    launch: LaunchTrace,
    chip: str,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    hbm_bytes: int = 0,
    cold: bool | None = None,
) -> Prediction:
    """Predict what a launch takes.

    Args:
        launch: what its clusters executed.
        chip: "h100", "h200", "b200", "gb200" or "b300".
        draws: how often what is only known as a range is drawn.
        seed: of the draws; the same seed gives any kernel the same draws.
        hbm_bytes: bytes that have to come from memory besides.
        cold: nothing is in the L2 when the launch begins; else all that it reads is. When not
            given, it begins cold if it reads more than the L2 holds.

    Raises:
        ValueError: no such chip, no draws, or the code is of another architecture.
        TypeError: draws are no whole number.
    """
    described, kernel = chip_for(launch, chip, draws), launch.traces[0].kernel
    cold = begins_cold(launch, described) if cold is None else cold
    asked = asked_by(launch, described, cold=cold)
    if cold:  # what the L2 loses is another draw's matter
        timed = partial(time_launch, launch, hbm_bytes=hbm_bytes, cold=True)
    else:
        shared = marked(launch, described.draw(), cold=False)
        timed = partial(time_marked, shared, traffic=NO_TRAFFIC, hbm_bytes=hbm_bytes)
    typical = timed(described.draw().having(asked))
    times = [timed(described.draw(n, seed).having(asked)) for n in range(1, draws + 1)]
    clock_mhz = described.parameters["clock_mhz"].value
    return Prediction(
        kernel.name, chip, kernel.compiler, tuple(t.cycles for t in times), typical, clock_mhz,
        tuple(t.longest.cycles for t in times), seed, cold,
    )  # fmt: skip


def predict_recording(
    recorded: Recording,
    chip: str,
    *,
    cubin: bytes | None = None,
    ptxas: str | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    cold: bool | None = None,
) -> Prediction:
    """Predict what a recorded launch takes, all of whose clusters were recorded.

    Args:
        recorded: of `sm100sim.crew.recording.recording`.
        chip: as of `predict_launch`.
        cubin: what is launched on a chip; the assembler must make the same code of the PTX.
        ptxas: path of the assembler, the package's when not given.
        draws, seed, cold: as of `predict_launch`.

    Raises:
        FileNotFoundError: there is no ptxas or nvdisasm; names the package.
        ValueError: as `predict_launch`; ptxas makes other code; clusters are missing.
        Unmatched: no way through the machine code agrees with what a warp did.
    """
    request, arch = recorded.request, load_chip(chip).arch
    refuse_other(request.ptx, chip)
    if cubin is None:
        kernel = compiled(request.ptx, arch, request.kernel, ptxas=ptxas)
    else:
        kernel = of_cubin(cubin, request.ptx, arch, request.kernel, ptxas=ptxas)
    launch = traced(kernel, recorded)
    if not is_whole(launch):
        found = sum(len(trace.clusters) for trace in launch.traces)
        raise ValueError(
            f"recorded: {found} of {launch.begun} clusters; record all of them, and those that "
            "take over others abreast"
        )
    return predict_launch(launch, chip, draws=draws, seed=seed, cold=cold)

"""Predictions with their bands: a launch over many draws of what is not known of a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from ...crew.recording import Recording
from ..chips import Chip, Draw, load_chip
from ..records import LaunchTrace
from ..sass.lines import compiled, of_cubin
from ..sass.trace import traced
from .gpu import LaunchTime, asked_of_l2, places_of, time_launch
from .memory import of_launch

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
    """

    kernel: str
    chip: str
    compiler: str
    cycles: tuple[float, ...]
    typical: LaunchTime
    clock_mhz: float
    longest: tuple[float, ...] = ()

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


def chip_for(launch: LaunchTrace, chip: str, draws: int) -> Chip:
    """Return the chip that a launch is to be drawn on so many times.

    Raises:
        ValueError: no such chip, no draws, or the code is of another architecture.
    """
    if draws < 1:
        raise ValueError(f"draws: {draws}; at least one is needed")
    described, arch = load_chip(chip), launch.traces[0].kernel.arch
    if arch.rstrip("af") != described.arch.rstrip("af"):
        raise ValueError(f"chip: {chip} is {described.arch}, and the code is of {arch}")
    return described


def marked(launch: LaunchTrace, draw: Draw) -> LaunchTrace:
    """Return a launch, or a part of one, whose copies and loads say how many share them."""
    whole = _in_turn(launch)
    found, _ = of_launch(whole, draw, places_of(whole, draw), cold=False)
    pairs = zip(found.traces, launch.traces, strict=True)
    traces = tuple(replace(trace, clusters=own.clusters) for trace, own in pairs)
    return replace(launch, traces=traces)


def _in_turn(launch: LaunchTrace) -> LaunchTrace:
    """A launch that its traces stand for in turn, where not all of its clusters are there."""
    if sum(len(trace.clusters) for trace in launch.traces) == launch.begun:
        return launch
    count = len(launch.traces)
    traces = (
        replace(trace, clusters=tuple(range(k, launch.begun, count)))
        for k, trace in enumerate(launch.traces)
    )
    return replace(launch, traces=tuple(traces))


def asked_by(launch: LaunchTrace, chip: Chip, *, cold: bool = False) -> dict[str, float]:
    """Return what draws of a chip lack: how much a launch asks of the L2 and of memory.

    Of a part of a launch the other clusters are taken to be like those that are there.
    """
    draw = asked_of_l2(_in_turn(launch), chip.draw(), cold=cold)
    return {name: value for name, value in draw.values.items() if name not in chip.parameters}


def predict_launch(
    launch: LaunchTrace,
    chip: str,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    hbm_bytes: int = 0,
    cold: bool = False,
) -> Prediction:
    """Predict what a launch takes.

    Args:
        launch: what its clusters executed.
        chip: "h100", "h200", "b200", "gb200" or "b300".
        draws: how often what is only known as a range is drawn.
        seed: of the draws; the same seed gives any kernel the same draws.
        hbm_bytes: bytes that have to come from memory besides.
        cold: nothing is in the L2 when the launch begins.

    Raises:
        ValueError: no such chip, no draws, or the code is of another architecture.
    """
    described, kernel = chip_for(launch, chip, draws), launch.traces[0].kernel
    timed = partial(time_launch, launch, hbm_bytes=hbm_bytes, cold=cold)
    asked = asked_by(launch, described, cold=cold)
    typical = timed(described.draw().having(asked))
    times = [timed(described.draw(n, seed).having(asked)) for n in range(1, draws + 1)]
    clock_mhz = described.parameters["clock_mhz"].value
    return Prediction(
        kernel.name, chip, kernel.compiler, tuple(t.cycles for t in times), typical, clock_mhz,
        tuple(t.longest.cycles for t in times),
    )  # fmt: skip


def predict_recording(
    recorded: Recording,
    chip: str,
    *,
    cubin: bytes | None = None,
    ptxas: str | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Prediction:
    """Predict what a recorded launch takes, all of whose clusters were recorded.

    Args:
        recorded: of `sm100sim.crew.recording.recording`.
        chip: as of `predict_launch`.
        cubin: what is launched on a chip; the assembler must make the same code of the PTX.
        ptxas: path of the assembler, the package's when not given.
        draws, seed: as of `predict_launch`.

    Raises:
        FileNotFoundError: there is no ptxas or nvdisasm; names the package.
        ValueError: as `predict_launch`; ptxas makes other code; clusters are missing.
        Unmatched: no way through the machine code agrees with what a warp did.
    """
    request, arch = recorded.request, load_chip(chip).arch
    if cubin is None:
        kernel = compiled(request.ptx, arch, request.kernel, ptxas=ptxas)
    else:
        kernel = of_cubin(cubin, request.ptx, arch, request.kernel, ptxas=ptxas)
    launch = traced(kernel, recorded)
    found = sum(len(trace.clusters) for trace in launch.traces)
    if found != launch.begun:
        raise ValueError(
            f"recorded: {found} of {launch.begun} clusters; record all of them, and those that "
            "take over others abreast"
        )
    return predict_launch(launch, chip, draws=draws, seed=seed)

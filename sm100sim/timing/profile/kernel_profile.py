"""Where the time of a kernel goes on a chip: everything that the profiler says of one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Final

from ..chips import Draw
from ..model import Residents, run_cluster
from ..predict import Band, Prediction, predict_launch
from ..predict.gpu import resident_ctas
from ..predict.launches import asked_by, chip_for, marked
from ..records import LaunchTrace
from .detail import Detail, detailed
from .handovers import Handover, Step, handovers, steps_of
from .occupancy import Occupancy, occupancy
from .path import Piece, critical_path
from .roles import Role, Warps, roles_of
from .spots import Spot, by_instruction, by_ptx_line, by_source_line, on_path, operations
from .uses import Use, limit_of, tensor_arithmetic, uses_of

DRAWS: Final = 8
"""Draws of a profile's band; a prediction of `sm100sim.timing.predict` takes more."""
MOST: Final = 10
"""Hot spots of each kind."""


@dataclass(frozen=True, eq=False)
class KernelProfile:
    """What a launch's longest traced cluster does on a chip. Times are predictions, in cycles.

    Attributes:
        kernel, chip, compiler: of what, on what, and the version of ptxas that built it.
        grid, block, cluster: of the launch. launches: how many were like it.
        clock_mhz: the chip's clock.
        cycles: of the cluster with the chip's values themselves.
        draws: of the cluster in each draw.
        copies: clusters that share the SMs. waves: how often the chip is filled.
        taken: clusters that never begin, for those that run take them over.
        occupancy: how full an SM is.
        uses: achieved over peak of each resource, the fullest first.
        arithmetic: that of the tensor cores' multiplications.
        roles: warps by what they run, and what they wait for.
        path: pieces of the critical path; they add up to `cycles`.
        steps: the path by who and what. handovers: who waited for whom on it. path_spots: its
            lines of PTX.
        sass, ptx, source: hot spots. operations: executed warp instructions by opcode.
        detail: the run itself.
        launch: what the whole launch takes, where all of its clusters were looked at.
        doubts: sentences about what may be wrong with the ways of warps (`sass.trace.Matcher`,
            `doubts`); none where all is known.
    """

    kernel: str
    chip: str
    compiler: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    clock_mhz: float
    cycles: float
    draws: tuple[float, ...]
    copies: int
    waves: int
    taken: int
    occupancy: Occupancy
    uses: tuple[Use, ...]
    arithmetic: float
    roles: tuple[Role, ...]
    path: tuple[Piece, ...]
    steps: tuple[Step, ...]
    handovers: tuple[Handover, ...]
    path_spots: tuple[Spot, ...]
    sass: tuple[Spot, ...]
    ptx: tuple[Spot, ...]
    source: tuple[Spot, ...]
    operations: Mapping[str, int]
    detail: Detail
    launches: int = 1
    doubts: tuple[str, ...] = ()
    launch: Prediction | None = None

    @property
    def band(self) -> Band:
        """The band of the cycles."""
        return Band.of(self.draws)

    @property
    def limit(self) -> str:
        """The resource that limits the kernel, "latency" where none is near its peak."""
        return limit_of(self.uses)

    @property
    def multiplies(self) -> bool:
        """Whether its kernel has MMAs."""
        return any(use.name == "tensor" for use in self.uses)

    def use(self, name: str) -> float:
        """Return the share of the fullest instance of a resource, 0 where it did nothing."""
        return next((use.fullest for use in self.uses if use.name == name), 0.0)

    def repeated(self, launches: int) -> KernelProfile:
        """Return the profile of so many launches that are alike."""
        return replace(self, launches=launches)


def profile_launch(
    launch: LaunchTrace,
    chip: str,
    *,
    ptx: str = "",
    roles: Warps | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    most: int = MOST,
) -> KernelProfile:
    """Profile the longest cluster of a launch.

    Args:
        launch: what its clusters executed.
        chip: "h100", "h200", "b200", "gb200" or "b300".
        ptx: the module that the code was made of, for the lines of hot spots.
        roles: name -> warps of a CTA; the others are grouped by the code that they run.
        draws: how often what is only known as a range is drawn. seed: of the draws.
        most: hot spots of each kind.

    Raises:
        ValueError: no such chip, no draws, code of another architecture, or a warp of a role that
            is not there.
        StuckError, NotImplementedError: as `model.run_cluster`.
    """
    described, kernel = chip_for(launch, chip, draws), launch.traces[0].kernel
    typical = described.draw()
    copies, waves = _places(launch, typical)
    whole = sum(len(trace.clusters) for trace in launch.traces) == launch.begun
    predicted = predict_launch(launch, chip, draws=draws, seed=seed) if whole else None
    asked, launch = asked_by(launch, described), marked(launch, typical)
    typical = typical.having(asked)
    detail = max(
        (detailed(trace, typical, copies=copies, ptx=ptx) for trace in launch.traces),
        key=lambda found: found.cycles,
    )
    if predicted and len(launch.traces) == 1:
        drawn = predicted.longest
    else:
        numbers = (described.draw(number, seed) for number in range(1, draws + 1))
        drawn = tuple(
            run_cluster(detail.trace, draw.having(asked), Residents(copies)).cycles
            for draw in numbers
        )
    found_roles = roles_of(detail, roles)
    path = critical_path(detail)
    uses = uses_of(detail)
    return KernelProfile(
        kernel.name, chip, kernel.compiler, launch.grid, launch.block, launch.cluster,
        clock_mhz=typical["clock_mhz"],
        cycles=detail.cycles,
        draws=drawn, copies=copies, waves=waves, taken=launch.taken, launch=predicted,
        occupancy=occupancy(launch, typical),
        uses=uses, arithmetic=tensor_arithmetic(detail),
        roles=found_roles,
        path=tuple(path), steps=steps_of(path, found_roles),
        handovers=handovers(detail, path, found_roles),
        path_spots=on_path(detail, path, most),
        sass=by_instruction(detail, most),
        ptx=by_ptx_line(detail, most),
        source=by_source_line(detail, most),
        operations=operations(detail),
        detail=detail,
    )  # fmt: skip


def _places(launch: LaunchTrace, draw: Draw) -> tuple[int, int]:
    """Clusters that share their SMs, and how often the launch fills the chip."""
    groups = int(draw["sms"]) // prod(launch.cluster)
    copies = min(resident_ctas(launch, draw), ceil(launch.begun / groups))
    return copies, ceil(launch.begun / (groups * copies))


def by_size(profiles: Sequence[KernelProfile]) -> list[KernelProfile]:
    """Return profiles, those of the most time first."""
    return sorted(profiles, key=lambda p: -p.cycles * p.waves * p.launches)

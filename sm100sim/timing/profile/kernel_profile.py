"""Where the time of a kernel goes on a chip: everything that the profiler says of one launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import ceil, prod
from typing import ClassVar, Unpack

from ..chips import Draw
from ..model import Residents, run_cluster
from ..predict import Band, Prediction, predict_launch
from ..predict.gpu import resident_ctas
from ..predict.launches import chip_for
from ..predict.whole import asked_by, begins_cold, is_whole, marked
from ..records import LaunchTrace
from .detail import Detail, detailed
from .handovers import Handover, Step, handovers, steps_of
from .occupancy import Occupancy, occupancy
from .options import Options, Settings
from .path import Piece, critical_path
from .roles import Role, roles_of
from .spots import Spot, by_instruction, by_ptx_line, by_source_line, on_path, operations
from .uses import RESOURCES, Use, limit_of, tensor_arithmetic, uses_of


@dataclass(frozen=True, eq=False)
class KernelProfile:
    """What a launch's longest traced cluster does on a chip. Times are predictions, in cycles.

    Attributes:
        kernel, chip, compiler: of what, on what, and the version of ptxas that built it.
        grid, block, cluster: of the launch. launches: how many were like it.
        clock_mhz: the chip's clock.
        cycles: of the cluster with the chip's values themselves.
        draws: of the cluster in each draw. seed: of the draws.
        cold: whether nothing was in the L2 when the launch began; else all that it reads.
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
    seed: int
    cold: bool
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
    as_text: ClassVar[Callable[[KernelProfile], str]]
    """How it is printed; `text`, which imports this module, puts it here."""

    def __str__(self) -> str:
        """Return what the command prints of it."""
        return self.as_text()

    def __repr__(self) -> str:
        """Return a line, not the run."""
        return f"KernelProfile({self.kernel!r}, {self.chip!r}, cycles={self.cycles:.0f})"

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
        """Return the share of the fullest instance of a resource, 0 where it did nothing.

        Raises:
            ValueError: there is no such resource; names the nearest.
        """
        if name not in RESOURCES:
            near = get_close_matches(name.lower(), [known.lower() for known in RESOURCES], n=1)
            hint = [known for known in RESOURCES if known.lower() in near] or RESOURCES
            raise ValueError(f"name: {name!r}; nearest supported choice: {', '.join(hint)}")
        return next((use.fullest for use in self.uses if use.name == name), 0.0)

    def repeated(self, launches: int) -> KernelProfile:
        """Return the profile of so many launches that are alike."""
        return replace(self, launches=launches)


def profile_launch(
    launch: LaunchTrace, chip: str, *, ptx: str = "", **options: Unpack[Options]
) -> KernelProfile:
    """Profile the longest cluster of a launch.

    Args:
        launch: what its clusters executed.
        chip: "h100", "h200", "b200", "gb200" or "b300".
        ptx: the module that the code was made of, for the lines of hot spots.
        options: see `profile.options.Options`.

    Raises:
        ValueError: no such chip, no draws, code of another architecture, or a warp of a role that
            is not there.
        TypeError: an option is of another kind.
        StuckError, NotImplementedError: as `model.run_cluster`.
    """
    chosen = Settings(**options)
    draws, seed, most = chosen.draws, chosen.seed, chosen.most
    described, kernel = chip_for(launch, chip, draws), launch.traces[0].kernel
    cold = begins_cold(launch, described) if chosen.cold is None else chosen.cold
    predicted = None
    if is_whole(launch):
        predicted = predict_launch(launch, chip, draws=draws, seed=seed, cold=cold)
    copies, waves = _places(launch, described.draw())
    asked = asked_by(launch, described, cold=cold)
    launch, typical = marked(launch, described.draw(), cold=cold), described.draw().having(asked)
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
    found_roles = roles_of(detail, chosen.roles)
    path = critical_path(detail)
    uses = uses_of(detail)
    return KernelProfile(
        kernel.name, chip, kernel.compiler, launch.grid, launch.block, launch.cluster,
        clock_mhz=typical["clock_mhz"],
        cycles=detail.cycles,
        draws=drawn, seed=seed, cold=cold, copies=copies, waves=waves, taken=launch.taken,
        launch=predicted,
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

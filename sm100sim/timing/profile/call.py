"""Profiles of what a call launches: record it, find its way through machine code, replay that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

from ...crew.recording import Recording, recording
from ..chips import chip_names, load_chip
from ..records import SassKernel
from ..sass.lines import compiled
from ..sass.tools import assemblers
from ..sass.trace import Matcher
from .doubts import too_often, too_seldom
from .kernel_profile import DRAWS, MOST, KernelProfile, profile_launch
from .roles import Warps

CHIPS: Final = {"90": "h100", "100": "b200", "103": "b300"}
"""Architecture that PTX is for -> the chip of a profile that names none."""
OTHERWISE: Final = "b200"
NEWER: Final = "Unsupported .version"
"""What ptxas says of PTX that is newer than itself."""
_TARGET: Final = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.M)


def profile(
    call: Callable[[], object],
    chip: str = "",
    *,
    clusters: Sequence[int] | None = (0,),
    roles: Warps | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    most: int = MOST,
    ptxas: str | None = None,
) -> list[KernelProfile]:
    """Run a call on the virtual SM100 and say where the time of its kernels goes on a chip.

    Profiling does not change what the kernels compute. Launches that are alike, of the same kernel
    and grid, share one profile. The call runs as usual, except that its launches use one thread.

    Args:
        call: launches kernels, by any front end.
        chip: "h100", "h200", "b200", "gb200" or "b300"; if not given, it follows from the target of
            the PTX.
        clusters: which clusters of a launch are examined, the slowest in detail; None means all.
        roles: name -> warps of a CTA; other warps are grouped by the code that they run.
        draws: number of times that parameters known only as a range are drawn, for the band.
        seed: seed of the draws.
        most: number of hot spots of each kind.
        ptxas: path of the assembler; if not given, the package's, or Triton's for PTX that is newer
            than that.

    Returns:
        A profile for each kind of launch, in the order of the first ones.

    Raises:
        FileNotFoundError: ptxas or nvdisasm is not installed; names the package.
        Unmatched: no way through the machine code agrees with what a warp did.
        ValueError, NotImplementedError: as `profile_launch`; also if a launch has none of
            `clusters`, if its PTX is for another chip, or ptxas refuses it.
    """
    with recording(clusters, abreast=True) as launches:
        call()
    return [
        profile_recording(
            alike[0], chip, roles=roles, draws=draws, seed=seed, most=most, ptxas=ptxas
        ).repeated(len(alike))
        for alike in kinds(launches)
    ]


def profile_recording(
    recorded: Recording, chip: str = "", *, ptxas: str | None = None, **options: Any
) -> KernelProfile:
    """Profile one recorded launch; arguments and errors as of `profile` and `profile_launch`."""
    request = recorded.request
    ptx = request.ptx
    chip = chip or chip_of(ptx)
    _refuse_other(ptx, chip)
    if not len(recorded.steps):
        last = prod(request.grid) // prod(request.cluster) - 1
        raise ValueError(f"clusters: the launch has none of those; it has 0 to {last}")
    kernel = _code(ptx, load_chip(chip).arch, request.kernel, ptxas)
    matcher = Matcher(kernel, recorded)
    launch = matcher.launch()
    found = profile_launch(launch, chip, ptx=ptx, **options)
    doubts = (*_doubts(matcher), *too_seldom(recorded, launch), *too_often(recorded, launch))
    return replace(found, doubts=doubts)


def _refuse_other(ptx: str, chip: str) -> None:
    """Refuse a chip that does not run the PTX: PTX runs on later chips, "sm_100a" on its own."""
    target, arch = _TARGET.search(ptx), load_chip(chip).arch
    if target is None:
        return
    number, chips = int(arch.strip("sm_af")), chip_names()
    if int(target[1]) > number or (target[2] == "a" and int(target[1]) != number):
        runs = [name for name in chips if load_chip(name).arch.rstrip("a") == f"sm_{target[1]}"]
        raise ValueError(
            f"chip: {chip} is {arch}, and the PTX is for sm_{target[1]}{target[2]}; nearest "
            f"supported choice: {' or '.join(runs) or 'PTX for a chip among ' + ', '.join(chips)}"
        )


def _code(ptx: str, arch: str, kernel: str, ptxas: str | None) -> SassKernel:
    """Machine code by the given assembler, or the first that can read the PTX's version."""
    *others, last = [ptxas] if ptxas else assemblers()
    for path in others:
        try:
            return compiled(ptx, arch, kernel, ptxas=path)
        except ValueError as error:
            if NEWER not in str(error):
                raise
    return compiled(ptx, arch, kernel, ptxas=last)


def _doubts(matcher: Matcher) -> list[str]:
    """What the way through machine code did not settle."""
    lost = sum(matcher.lost.values())
    found = []
    if matcher.guesses:
        found.append(f"{matcher.guesses:,} decisions about the ways of warps were guessed")
    if lost:
        found.append(f"{lost:,} accesses of memory have no instruction")
    return found


def chip_of(ptx: str) -> str:
    """Return the chip that PTX is for."""
    target = _TARGET.search(ptx)
    return CHIPS.get(target[1], OTHERWISE) if target else OTHERWISE


def kinds(launches: Iterable[Recording]) -> list[list[Recording]]:
    """Return launches by kernel and shape, in the order of the first ones."""
    found: dict[tuple[object, ...], list[Recording]] = {}
    for launch in launches:
        request = launch.request
        key = (request.kernel, request.ptx, request.grid, request.block, request.cluster,
               request.smem_bytes)  # fmt: skip
        found.setdefault(key, []).append(launch)
    return list(found.values())

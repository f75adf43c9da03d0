"""Profiles of what a call launches: record it, find its way through machine code, replay that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Final, Unpack

import numpy as np

from ...crew.recording import Recording, recording
from ...engine.binding import opcode_numbers
from ..chips import load_chip
from ..chips.targets import chip_of, refuse_other
from ..records import SassKernel
from ..sass.lines import compiled
from ..sass.tools import assemblers
from ..sass.trace import Matcher
from .doubts import too_often, too_seldom
from .kernel_profile import KernelProfile, profile_launch
from .options import Options, Settings

WORK: Final = (
    "MMA", "WGMMA", "MMA_SYNC", "TMA_LOAD", "TMA_STORE", "BULK_COPY", "BULK_STORE", "CP_ASYNC",
    "LD", "ST",
)  # fmt: skip
"""Operations that say how much a launch has to do; which way a branch goes may depend on data."""
NEWER: Final = "Unsupported .version"
"""What ptxas says of PTX that is newer than itself."""


def profile(
    call: Callable[[], object],
    chip: str = "",
    *,
    clusters: Sequence[int] | None = (0,),
    ptxas: str | None = None,
    **options: Unpack[Options],
) -> list[KernelProfile]:
    """Run a call on the virtual SM100 and say where the time of its kernels goes on a chip.

    Profiling does not change what the kernels compute. Launches that are alike, of the same kernel
    and grid with as much to do, share one profile. The call runs as usual, except that its launches
    use one thread.

    Args:
        call: launches kernels, by any front end.
        chip: "h100", "h200", "b200", "gb200" or "b300"; if not given, it follows from the target of
            the PTX.
        clusters: which clusters of a launch are examined, the slowest in detail; None means all.
        ptxas: path of the assembler; if not given, that of nvidia-cuda-nvcc, else the one on the
            path, else Triton's, which is also taken for PTX that is newer.
        options: `roles`, `draws`, `seed`, `most` and `cold`, see `profile.options.Options`.

    Returns:
        A profile for each kind of launch, in the order of the first ones.

    Raises:
        FileNotFoundError: ptxas or nvdisasm is not installed; names the package.
        Unmatched: no way through the machine code agrees with what a warp did.
        ValueError, NotImplementedError: as `profile_launch`; also if a launch has none of
            `clusters`, if its PTX is for another chip, or ptxas refuses it.
        TypeError: an option is of another kind.
    """
    Settings(**options)  # refuses before the call runs
    with recording(clusters, abreast=True) as launches:
        call()
    return [
        profile_recording(alike[0], chip, ptxas=ptxas, **options).repeated(len(alike))
        for alike in kinds(launches)
    ]


def profile_recording(
    recorded: Recording,
    chip: str = "",
    *,
    ptxas: str | None = None,
    **options: Unpack[Options],
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
    """Refuse code of another architecture, and say who can make the right one."""
    try:
        refuse_other(ptx, chip)
    except ValueError as error:
        arch = load_chip(chip).arch
        hint = f"a profile on {chip} needs a front end that is asked for {arch} code"
        raise ValueError(f"{error}; {hint}") from error


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


def kinds(launches: Iterable[Recording]) -> list[list[Recording]]:
    """Return launches by kernel, shape and work, in the order of the first ones.

    A kernel with the same grid may have more to do: as much is what multiplies and moves as often.
    """
    found: dict[tuple[object, ...], list[Recording]] = {}
    for launch in launches:
        request = launch.request
        key = (request.kernel, request.ptx, request.grid, request.block, request.cluster,
               request.smem_bytes, _work(launch))  # fmt: skip
        found.setdefault(key, []).append(launch)
    return list(found.values())


def _work(launch: Recording) -> tuple[int, ...]:
    """How often the warps of the recorded clusters executed each operation of `WORK`."""
    numbers = opcode_numbers()
    executed = launch.assembled.code["op"][launch.steps["instruction"]]
    counts = np.bincount(executed, minlength=max(numbers.values()) + 1)
    return tuple(int(counts[numbers[name]]) for name in WORK)

"""`sm100sim profile`: where the time of a program's kernels goes on a chip."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from copy import copy
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

from ..crew.recording import Recording, recording
from ..formats.document import Results
from ..report import Report
from ..timing.chips import chip_names
from ..timing.profile import KernelProfile, compare, profile_text
from ..timing.profile.call import kinds, profile_recording
from ..timing.profile.document import comparison_document, profile_document
from ..timing.profile.kernel_profile import by_size
from ..timing.profile.options import DRAWS
from ..timing.profile.text import PREDICTED, comparison_text
from ..timing.profile.views import SUFFIXES, write_timeline
from . import target
from .options import USAGE, Selection, hearing, natural, run_settings
from .shown import CLEAN, UNPROVEN, VERDICTS, refuses_format, verdict, write_own

_ROLE = re.compile(r"([^=]+)=(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")
OPTIONS = frozenset(
    f"--{name}"
    for name in ("chip", "clusters", "compare", "draws", "l2", "output", "ptxas", "role",
                 "timeline", "top")
)  # fmt: skip
"""What a program is seldom given; `profile` knows more options."""
L2 = {"warm": False, "cold": True}
"""What the L2 has of what a launch reads -> whether the launch begins cold."""
REFUSALS = (ValueError, RuntimeError, FileNotFoundError, NotImplementedError)
"""What says why a kernel has no profile; `Unmatched` and `StuckError` are among them."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    target.add(parser, profile, "memcheck", _add_own)


def _add_own(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(chip_names())
    parser.add_argument("--top", type=natural, default=10, metavar="N", help="lines of a kind (10)")
    parser.add_argument(
        "--chip", choices=chip_names(), default="", metavar="NAME",
        help=f"{known}; by default the one that the PTX is for",
    )  # fmt: skip
    parser.add_argument(
        "--draws", type=_positive, default=DRAWS, metavar="N",
        help=f"of values that are only known as ranges, for the band ({DRAWS})",
    )  # fmt: skip
    parser.add_argument(
        "--clusters", type=_clusters, default=(0,), metavar="N,N",
        help="clusters of a launch to look at, or all; the slowest is shown (0)",
    )  # fmt: skip
    parser.add_argument(
        "--l2", choices=L2, default=None, metavar="|".join(L2),
        help="what it holds of what launches read when they begin: all (warm) or nothing (cold); "
        "by default all where it has room for it",
    )  # fmt: skip
    parser.add_argument(
        "--role", type=_role, action="append", default=[], metavar="NAME=WARPS",
        help="name of some warps of a CTA, e.g. producer=0,4-7; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--timeline", type=_timeline, action="append", default=[], metavar="FILE",
        help=f"timeline of the kernel with the most time ({', '.join(SUFFIXES)})",
    )  # fmt: skip
    parser.add_argument(
        "--ptxas", type=_file, metavar="PATH",
        help="the assembler; by default that of nvidia-cuda-nvcc, else the one on the path, else "
        "Triton's, which is also taken where PTX is newer",
    )  # fmt: skip
    parser.add_argument(
        "--compare", metavar="FIRST",
        help="another program, or a pattern of a whole kernel's name, e.g. '*combine*': its time "
        "over that of PROGRAM",
    )  # fmt: skip


def _positive(text: str) -> int:
    number = natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


def _clusters(text: str) -> tuple[int, ...] | None:
    return None if text == "all" else tuple(natural(part) for part in text.split(","))


def _role(text: str) -> tuple[str, tuple[int, ...]]:
    """A name and its warps."""
    found = _ROLE.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not like producer=0,4-7")
    warps: list[int] = []
    for part in found[2].split(","):
        first, _, last = part.partition("-")
        if last and int(last) < int(first):
            raise argparse.ArgumentTypeError(f"{part} of {text!r} has no warps; {last}-{first}?")
        warps += range(int(first), int(last or first) + 1)
    return found[1], tuple(warps)


def _file(path: str) -> str:
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{path} is no file")
    return path


def _timeline(path: str) -> Path:
    if Path(path).suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{path}: its suffix is none of {', '.join(SUFFIXES)}")
    return Path(path)


def profile(given: argparse.Namespace) -> int:
    """Run the program and say where its time goes; returns the exit code."""
    _say_what_is_behind(given)
    if refuses_format(given):
        return USAGE
    code, found = _profiled(given)
    first: list[KernelProfile] = []
    if given.compare is not None:
        program = target.exists(given.compare)
        if program:
            code_first, first = _profiled(_other(given))
            code = code or code_first
        else:
            first = [one for one in found if fnmatchcase(one.kernel, given.compare)]
            found = [one for one in found if one not in first]
        if not first or not found:
            names = ", ".join(one.kernel for one in (*first, *found)) or "none"
            what = (
                "no kernel to compare; it is no file, and as a pattern of whole names, like "
                f"'*part*', it has to leave one: kernels with a profile are: {names}"
            )
            if program:
                what = "both programs need a kernel that has a profile"
            print(f"sm100sim: --compare {given.compare}: {what}", file=sys.stderr)
            return code or UNPROVEN
    return _shown(given, found, first) or code


def _say_what_is_behind(given: argparse.Namespace) -> None:
    """Say that options behind a program are the program's: it may not have been meant so."""
    behind = [word for word in given.args if word.partition("=")[0] in OPTIONS]
    if behind:
        print(
            f"sm100sim: {', '.join(behind)} behind {given.target} goes to it as its argument; "
            "options of profile stand before the program",
            file=sys.stderr,
        )


def _say_what_is_beyond(given: argparse.Namespace, launch: Recording) -> None:
    """Say which clusters a launch does not have, where it has others that were asked for."""
    count = prod(launch.request.grid) // prod(launch.request.cluster)
    beyond = [str(index) for index in given.clusters or () if index >= count]
    if beyond and len(beyond) < len(given.clusters):
        said = f"--clusters {','.join(beyond)}: {launch.request.kernel} has 0 to {count - 1}"
        print(f"sm100sim: {said}", file=sys.stderr)


def _other(given: argparse.Namespace) -> argparse.Namespace:
    """The same command line for the program that is compared."""
    other = copy(given)
    other.target = given.compare
    return other


def _profiled(given: argparse.Namespace) -> tuple[int, list[KernelProfile]]:
    """Run the program; its exit code, and profiles of its kernels."""
    chosen = Selection.of(given)
    with (
        recording(given.clusters, everywhere=True, abreast=True) as launches,
        hearing(chosen, **run_settings(given)) as reports,
    ):
        ended = target.ran(given)
    kept = tuple(report for report in reports if chosen.checked(report))
    for report in kept:
        if report.verdict != "clean":
            print(report.summary(), file=sys.stderr)
    code = VERDICTS[verdict(Results(kept))] or ended
    selected = [one for one in launches if any(one.request is r for r in chosen.taken)]
    if not selected:
        names = ", ".join(dict.fromkeys(one.request.kernel for one in launches)) or "none"
        how = f", which ended with exit code {ended}" if ended != CLEAN else ""
        said = f"nothing to profile in {given.target}{how}; kernels that it launched: {names}"
        print(f"sm100sim: {said}", file=sys.stderr)
    elif ended != CLEAN:
        count = len(selected)
        launches_of = "its launch" if count == 1 else f"its {count} launches"
        said = f"ended with exit code {ended}; what follows is of {launches_of} before that"
        print(f"sm100sim: {given.target} {said}", file=sys.stderr)
    found, all_well = _profiles(selected, kept, given)
    return code or (CLEAN if all_well else UNPROVEN), found


def _profiles(
    launches: Iterable[Recording], reports: Iterable[Report], given: argparse.Namespace
) -> tuple[list[KernelProfile], bool]:
    """Profiles of launches that ran to their end, and whether each of these has one."""
    stopped = {report.kernel for report in reports if not report.complete}
    found, all_well = [], True
    for alike in kinds(launches):
        kernel = alike[0].request.kernel
        if kernel in stopped:
            continue
        _say_what_is_beyond(given, alike[0])
        try:
            one = profile_recording(
                alike[0], given.chip, ptxas=given.ptxas, roles=dict(given.role),
                draws=given.draws, most=given.top, cold=L2[given.l2] if given.l2 else None,
            )  # fmt: skip
            found.append(one.repeated(len(alike)))
        except REFUSALS as error:
            print(f"sm100sim: no profile of {kernel}: {error}", file=sys.stderr)
            all_well = False
    return found, all_well


def _shown(
    given: argparse.Namespace, found: list[KernelProfile], first: list[KernelProfile]
) -> int:
    """Write what was found; returns the exit code of that."""
    text = "".join(f"{profile_text(one, given.top)}\n" for one in (*first, *found))
    document: dict[str, object] = {
        "cycles": PREDICTED,
        "kernels": [profile_document(one) for one in (*first, *found)],
    }
    if first:
        try:
            compared = compare(by_size(first)[0], by_size(found)[0])
        except ValueError as error:
            print(f"sm100sim: {error}", file=sys.stderr)
            return USAGE
        text += f"{comparison_text(compared, given.top)}\n"
        document["comparison"] = comparison_document(compared)
    well = write_own(text, document, given)
    for path in given.timeline if found else ():
        try:
            write_timeline(by_size(found)[0], path)
        except (OSError, ModuleNotFoundError) as error:
            print(f"sm100sim: --timeline {path}: {error}", file=sys.stderr)
            well = False
    return CLEAN if well else USAGE

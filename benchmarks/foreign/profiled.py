"""Profile what foreign kernels launch: which launches the clocked machine follows, and its doubts.

    python -m benchmarks.foreign.profiled [--only REGEX]
    CUTE_DSL_ARCH=sm_90a python -m benchmarks.foreign.profiled

The cases are those of `benchmarks.foreign.run_all`, but for the two longest. The first cluster of
each kind of launch is profiled. The exit status is 1 where a launch is not followed.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import sm100sim
from benchmarks.foreign.cases import Case
from benchmarks.foreign.run_all import SM_COUNT, TOO_LONG, cases
from sm100sim.crew.recording import recording
from sm100sim.options import Check, run_options
from sm100sim.timing.profile.call import kinds, profile_recording

DRAWS = 2
"""The band is not asked for."""


@dataclass(frozen=True)
class Followed:
    """What became of one kind of launch.

    Attributes:
        kernel: its name; empty where the program ended before it launched anything.
        cycles: of a cluster, on the chip that its PTX is for; None where it is not followed.
        said: doubts about the way through machine code, or why there is none.
    """

    case: str
    kernel: str
    cycles: float | None
    said: str

    def __str__(self) -> str:
        """One line."""
        cycles = "refused" if self.cycles is None else f"{self.cycles:,.0f}"
        return f"{cycles:>10}  {self.case}  {self.kernel[:60]}  {self.said[:300]}".rstrip()


def followed(case: Case) -> Iterator[Followed]:
    """Run one case and profile its launches, those too that came before a fault of the program."""
    with run_options(mode="fast", checks=Check.NONE), recording((0,)) as launches:
        try:
            case.run()
        except (Exception, SystemExit) as error:
            yield Followed(case.name, "", None, f"the program: {type(error).__name__}: {error}")
    for first, *_ in kinds(launches):
        name = first.request.kernel
        try:
            found = profile_recording(first, draws=DRAWS)
        except (Exception, SystemExit) as error:
            yield Followed(case.name, name, None, f"{type(error).__name__}: {error}")
        else:
            yield Followed(case.name, name, found.cycles, "; ".join(found.doubts))


def main() -> int:
    """Command line: a line for each kind of launch that is refused or doubted, and how many."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over case names")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("QUACK_CACHE_ENABLED", "0")  # its cached objects come without PTX
    sm100sim.activate(sm_count=SM_COUNT)
    found: list[Followed] = []
    for case in cases(arguments.only):
        if not TOO_LONG.match(case.name):
            for kind in followed(case):
                found.append(kind)
                if kind.said:
                    print(kind, flush=True)
    launched = [kind for kind in found if kind.kernel]
    refused = sum(kind.cycles is None for kind in launched)
    doubted = sum(kind.cycles is not None and bool(kind.said) for kind in launched)
    print(f"{len(launched)} kinds of launches, {refused} refused, {doubted} with doubts")
    return int(refused > 0)


if __name__ == "__main__":
    raise SystemExit(main())

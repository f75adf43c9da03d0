"""Predicts the calls that published ratios compare.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.claims [--only REGEX] [--missing]

keeps in calls.json what this process' release of FlashAttention-4 (`builds` says how to have an
older one) takes for each call; `benchmarks.timing.blackwell` puts the ratios into its page. No GPU
is needed.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from dataclasses import replace
from typing import Any

from benchmarks.machine_state import DRAWS, model
from benchmarks.timing.claims.builds import ready
from benchmarks.timing.claims.found import CALLS, key_of
from benchmarks.timing.claims.table import CLAIMS, Call
from benchmarks.timing.side_by_side.callers import settled
from benchmarks.timing.side_by_side.records import load, write
from benchmarks.timing.side_by_side.rows import Maker
from sm100sim.timing.chips import load_chip

FELT = 0.001
"""What an end of a range must move a call's cycles by to be kept."""


def predicted(maker: Maker, call: Call) -> dict[str, Any]:
    """Cycles of a call: the chip's own values, the draws, and each end of a range that is felt."""
    whole = maker.whole(call.column, call.family, call.length, call.heads)
    own, ends = whole.cycles[0], zip(ends_of(maker), whole.cycles[DRAWS + 1 :], strict=True)
    problem = call.family.problem(call.length, 1)
    _, _, kernel = maker.costs(settled(call.column, problem), call.family)
    local = sum(i.opcode in ("LDL", "STL") for i in kernel.instructions)
    return {
        "cycles": [round(c) for c in whole.cycles[: DRAWS + 1]],
        "ends": {name: round(c) for name, c in ends if abs(c / own - 1) >= FELT},
        "local": local, "compiler": kernel.compiler, "model": model(),
    }  # fmt: skip


def ends_of(maker: Maker) -> list[str]:
    """What the draws after the usual ones are, e.g. "greedy 0"."""
    (own, *_), known = maker.draws, load_chip(maker.draws[0].chip).parameters
    told = []
    for draw in maker.draws[DRAWS + 1 :]:
        (name,) = (name for name in known if draw[name] != own[name])
        told.append(f"{name} {draw[name]:g}")
    return told


def with_ends(maker: Maker) -> Maker:
    """The maker with a draw for each end of each range; all else has its own value there."""
    own = maker.draws[0]
    for name, known in load_chip(own.chip).parameters.items():
        for end in sorted({known.low, known.high} - {known.value}):
            changed = {**own.values, name: float(end)}
            maker.draws.append(replace(own, values=changed))
    return maker


def main(arguments: list[str] | None = None) -> int:
    """Predict calls and keep them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over names of claims")
    parser.add_argument("--missing", action="store_true", help="only those that are not there")
    given = parser.parse_args(arguments)
    import sm100sim

    warnings.simplefilter("ignore")
    sm100sim.activate(sm_count=148)  # before the DSL is imported
    ready()
    makers: dict[str, Maker] = {}
    failed, done = 0, set[tuple[str, str]]()
    for claim in (claim for claim in CLAIMS if re.search(given.only, claim.name)):
        for build, call in (one for pair in claim.compared() for one in pair):
            rows = {key_of(row): row for row in load(CALLS)}
            key = build.name, call.name(claim.chip)
            if not build.here or key in done or (given.missing and key in rows):
                continue
            done.add(key)
            try:
                if claim.chip not in makers:
                    makers[claim.chip] = with_ends(Maker(claim.chip, *makers.values()))
                rows[key] = {"build": key[0], "call": key[1],
                             **predicted(makers[claim.chip], call)}  # fmt: skip
            except Exception as error:  # the others go on
                print(f"{key}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                failed += 1
                continue
            print(*key, rows[key]["cycles"][0], flush=True)
            write(sorted(rows.values(), key=key_of), CALLS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

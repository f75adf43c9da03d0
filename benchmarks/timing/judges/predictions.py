"""Predictions for everything that `benchmarks.timing.cycles` measures, kept before it does.

    CUTE_DSL_ARCH=sm_90a SM100SIM_CUTLASS=CHECKOUT python -m benchmarks.timing.judges.predictions \\
        [OUT.json] [--only REGEX] [--draws N] [--traces FOLDER] [--warm]

Without OUT.json `predicted.json` of this folder is written; names that it has and that are not
asked for stay. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.hopper.times.problems import TABLE, Problem
from benchmarks.timing.gemms import LADDER, Gemm
from benchmarks.timing.gemms import trace_of as gemm_trace
from benchmarks.timing.judges.cases import QUACK, Case
from benchmarks.timing.judges.launches import ARCH, CUBINS, begin, trace_of
from benchmarks.timing.judges.our_variants import SMS
from benchmarks.timing.judges.second_round import EVERY, SEQUENCES
from benchmarks.timing.judges.warm_round import WARM
from sm100sim.timing.predict import Prediction, predict_launch
from sm100sim.timing.records import LaunchTrace

PREDICTED: Final = Path(__file__).with_name("predicted.json")
CHIP: Final = "h200"
DRAWS: Final = 8
LONGEST, LONGEST_CAUSAL, LONGEST_PERSISTENT = 4096, 2048, 1024
"""Longer sequences take long to execute: with a mask all tiles of a head are, and a persistent CTA
takes many tiles."""
ATTENTION = ("fa4_cute", "FA4")
Trace = Callable[[], LaunchTrace]


def followed(runner: str, problem: Problem) -> bool:
    """Whether a problem of the table takes little enough time to execute."""
    persistent = problem.head_dim == 64 and runner == "fa4_cute"
    longest = LONGEST_PERSISTENT if persistent else LONGEST
    longest = min(longest, LONGEST_CAUSAL) if problem.causal else longest
    chosen = problem.name in SEQUENCES and not persistent
    return chosen or (problem.group == "full" and problem.seqlen_k <= longest)


def everything() -> Iterator[tuple[str, str, str, Trace]]:
    """Runner, name, ladder and trace of all that is measured; traces are made when called."""
    from benchmarks.timing.attention_traces import Tracer

    yield from _of_cases(EVERY)
    for gemm in LADDER:
        yield QUACK, gemm.name, _ladder(gemm), partial(gemm_trace, gemm, CUBINS)
    tracer = Tracer(ARCH, SMS)
    for problem in TABLE:
        for runner in ATTENTION:
            if followed(runner, problem):
                yield runner, problem.name, problem.name, partial(tracer.of, runner, problem)


def warm() -> Iterator[tuple[str, str, str, Trace]]:
    """The same of what begins with its tensors in the L2."""
    return _of_cases(WARM)


def _of_cases(cases: Sequence[Case]) -> Iterator[tuple[str, str, str, Trace]]:
    for case in cases:
        yield case.family, case.name, case.ladder, partial(trace_of, case)


def _ladder(gemm: Gemm) -> str:
    return f"{QUACK} {gemm.m}x{gemm.n}x{gemm.k}"


def kept(folder: Path | None, name: str, trace: Trace) -> LaunchTrace:
    """A trace, from a folder where it is there, and put there where it is not."""
    if folder is None:
        return trace()
    file = folder / (re.sub(r"\W+", "_", name) + ".pkl")
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(trace()))
    found: LaunchTrace = pickle.loads(file.read_bytes())
    return found


def said(prediction: Prediction) -> dict[str, Any]:
    """What is kept of a prediction."""
    typical, band = prediction.typical, prediction.band
    asked, answered = (
        sum(getattr(part, name) for part in typical.parts) for name in ("l1_asked", "l1_answered")
    )
    return {
        "cycles": round(typical.cycles), "band": [round(band.low), round(band.high)],
        "bound_by": typical.bound_by, "tensor": round(typical.longest.use("tensor"), 3),
        "resident": typical.resident, "ptxas": prediction.compiler,
        **({"l1": round(answered / asked, 3)} if asked else {}),
    }  # fmt: skip


def main() -> None:
    """Predict and keep, case by case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", default=PREDICTED)
    parser.add_argument("--only", default="", help="regular expression over runner and name")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--warm", action="store_true", help="cases whose tensors the L2 has")
    parser.add_argument("--traces", type=Path, help="keeps traces; one's own files only")
    asked = parser.parse_args()
    begin()
    offered = warm() if asked.warm else everything()
    found = json.loads(asked.out.read_text()) if asked.out.is_file() else {}
    for runner, name, ladder, trace in offered:
        key = f"{runner}: {name}"
        if not re.search(asked.only, key):
            continue
        entry: dict[str, Any] = {"runner": runner, "name": name, "ladder": ladder}
        try:
            launch = kept(asked.traces, key, trace)
            entry |= said(predict_launch(launch, CHIP, draws=asked.draws, cold=not asked.warm))
        except Exception as error:  # a page shows what fails, and the others go on
            entry["failed"] = f"{type(error).__name__}: {' '.join(str(error).split())[-200:]}"
        found[key] = entry
        print(key, entry.get("cycles", entry.get("failed")), flush=True)
        asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

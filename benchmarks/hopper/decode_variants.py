"""Times of a decoding step with other tiles and other numbers of splits than the rules choose.

    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.decode_variants compile   where the DSL is
    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.decode_variants run       on the GPU

The problems are those of ``times.problems`` that memory bounds, and so are the clock and the check
of results; the figures are GB/s.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

import torch

from benchmarks.hopper.sm90_variants import Trial
from benchmarks.hopper.times import runners, tensors
from benchmarks.hopper.times.problems import TABLE, Problem
from benchmarks.hopper.times.timing import Flush, copy_rate, measured
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose.specify import combine_spec
from fa4_cute.host.choose.support import Choice
from fa4_cute.host.compile import cache
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.combine_spec import CombineSpec

ROUNDS: Final = 15
ALLOWED: Final = 1e-2
TRIALS: Final = {
    "as chosen": Trial(),
    **{f"{n} splits": Trial({"num_splits": n}) for n in (1, 2, 4, 8, 16, 24, 33, 66)},
    "wide tile": Trial({"num_qo": 2}),
    "wide tile, 1 split": Trial({"num_qo": 2, "num_splits": 1}),
    "wide tile, 16 splits": Trial({"num_qo": 2, "num_splits": 16}),
    "half the keys": Trial({}, {"keys": 32}),
    "96 keys": Trial({}, {"keys": 96}),
}
"""What is tried, by name."""
PROBLEMS: Final = tuple(problem for problem in TABLE if problem.by_bandwidth)


def calls_of(problem: Problem, given: dict[str, Any]) -> Iterator[tuple[str, Trial, Any]]:
    """Yield each variant's name, itself, and the call of it with its options."""
    for name, trial in TRIALS.items():
        ours: Any = runners.ours(problem, given)
        yield name, trial, partial(ours.func, *ours.args, **ours.keywords, **trial.options)


def chosen(problem: Problem) -> Iterator[tuple[str, Choice, CombineSpec]]:
    """Yield each variant's name, its kernel, and what combines its splits, if there are any."""
    given = {
        name: torch.empty(shape, dtype=tensors.dtype_of(problem, name), device="meta")
        for name, shape in tensors.shapes(problem).items()
    }
    for name, trial, call in calls_of(problem, given):
        asked = request(call.args, *options_and_batch({**call.keywords, "arch": SM90A}))
        yield name, trial.chosen(asked.problem), combine_spec(asked.problem)


def compile_all(calls: Iterable[tuple[str, Choice, CombineSpec]]) -> int:
    """Compile the kernels of ``calls``, as ``chosen`` yields them; return how many there are."""
    found: set[AttentionSpec | CombineSpec] = set()
    for _, choice, combine in calls:
        found |= {choice.spec, combine} if choice.spec.variant.is_combined else {choice.spec}
    return len({cache.compiled(spec).kernel_name for spec in found})


def figures(problem: Problem, flush: Flush) -> dict[str, str]:
    """Return GB/s of each variant, or what is wrong with it."""
    given = tensors.make(problem, "cuda")
    found: dict[str, str] = {}
    ready: dict[str, Callable[[], Any]] = {}
    for name, trial, call in calls_of(problem, given):
        given["out"].fill_(float("nan"))
        try:
            with trial.in_force():
                call()
                distance = tensors.error(problem, given)
        except Exception as error:  # a table shows what fails and goes on
            found[name] = f"{type(error).__name__}: {error}"[:60]
            continue
        if distance > ALLOWED:
            found[name] = f"wrong by {distance:.2g}"
            continue
        ready[name] = partial(_within, trial, call)
    times, notes = measured(ready, ROUNDS, flush)
    for name, time in times.items():
        rate = f"{problem.bytes() / time.median / 1e6:.0f}"
        found[name] = f"{rate} ({notes[name]})" if name in notes else rate
    return found


def _within(trial: Trial, call: Callable[[], Any]) -> Any:
    with trial.in_force():
        return call()


def main(command: str) -> None:
    """Compile, or run and print a line per problem and variant."""
    if command == "compile":
        count = compile_all(chain.from_iterable(map(chosen, PROBLEMS)))
        print(f"{count} kernels are in {cache.cache_info().directory}")
        return
    flush = Flush(cold=True)
    print(torch.cuda.get_device_name(), f"a copy moves {copy_rate(flush, ROUNDS):.0f} GB/s")
    for problem in PROBLEMS:
        for name, text in figures(problem, flush).items():
            print(problem.name, name, text, sep=" | ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

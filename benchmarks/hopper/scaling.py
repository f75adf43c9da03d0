"""Times of attention on several Hopper GPUs, ``fa4_cute.distributed`` over NCCL.

    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.scaling --compile    where CuTe DSL is
    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.scaling [--ranks 1 2 4] [--out STEM]
        [--only REGEX] [--rounds N] [--seconds N] [--priority high|normal]

Every problem is timed on so many of the GPUs, and the O of rank 0 compared with that of one GPU.
Then a profile says what ran at the same time. What was measured is written after each problem, as
JSON and as a page; none is begun after the given seconds.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import torch.distributed as dist

import fa4_cute
from benchmarks.hopper.attention_times import versions
from benchmarks.hopper.times.clocks import ClockLog, card
from benchmarks.hopper.times.overlap import Timeline, kernels_of
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.scaling_page import METHODS, render
from fa4_cute import distributed
from fa4_cute.host.compile import cache
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.ranks.band import CAUSAL, FULL
from fa4_cute.plan.ranks.shards import Layout, Shards
from fa4_cute.plan.ranks.steps import Call, ContextPlan
from fa4_cute.plan.spec.combine_spec import CombineSpec

TOKENS: Final = (32768, 65536, 131072, 262144)
HEADS, HEADS_KV, HEAD_DIM = 32, 8, 128
RANKS: Final = (1, 2, 4)
WARMUP: Final = 2
ROUNDS: Final = 6
PROFILED: Final = 3
SECONDS: Final = 300
TOLERANCE: Final = 2.0**-7
"""Largest difference from one GPU's O that is accepted: the parts of a ring are rounded."""
WAIT: Final = timedelta(seconds=120)
"""How long a rank waits for another."""


def problem_of(tokens: int, causal: bool) -> Problem:
    """Return one sequence of ``tokens``."""
    return Problem("ranks", 1, tokens, tokens, HEADS, HEADS_KV, HEAD_DIM, HEAD_DIM, causal=causal)


TABLE: Final = tuple(problem_of(*sizes) for sizes in product(TOKENS, (True, False)))


@dataclass(frozen=True)
class Asked:
    """The command line.

    Attributes:
        ranks: numbers of GPUs.
        out: files: this with .json and .md.
        only: regular expression over names of problems.
        rounds: calls that are timed.
        seconds: no problem is begun after them.
        priority: of NCCL's streams, "high" or "normal".
    """

    ranks: tuple[int, ...] = RANKS
    out: Path = Path("out/scaling")
    only: str = ""
    rounds: int = ROUNDS
    seconds: float = SECONDS
    priority: str = "high"

    def problems(self) -> list[Problem]:
        """Return the problems that were asked for."""
        return [problem for problem in TABLE if re.search(self.only, problem.name)]


class Gpu:
    """The device of this rank, and its clock."""

    def __init__(self, rank: int) -> None:
        """Take the GPU with the rank's number."""
        torch.cuda.set_device(rank)
        self.name = f"cuda:{rank}"

    def mark(self) -> Any:
        """Return an event that the GPU passes after all work so far."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, marks: list[Any]) -> list[float]:
        """Return milliseconds from each mark to the next one; waits for the last."""
        torch.cuda.synchronize()
        return [one.elapsed_time(other) for one, other in pairwise(marks)]

    def profile(self, call: Callable[[], Any], calls: int) -> list[Any]:
        """Return the events of ``calls`` calls; one before them takes the profiler's start."""
        from torch.profiler import ProfilerActivity, profile, schedule

        turns = schedule(wait=0, warmup=1, active=1)
        with profile(activities=[ProfilerActivity.CUDA], schedule=turns, acc_events=True) as found:
            for count in (1, calls):
                for _ in range(count):
                    call()
                torch.cuda.synchronize()
                found.step()
        return list(found.events())


def timed(call: Callable[[], Any], rounds: int, gpu: Any) -> list[float]:
    """Return milliseconds of ``rounds`` calls in a row, after some that do not count."""
    for _ in range(WARMUP):
        call()
    marks = [gpu.mark()]
    for _ in range(rounds):
        call()
        marks.append(gpu.mark())
    return gpu.between(marks)  # type: ignore[no-any-return]  # torch is untyped


class Member:
    """One rank of the measurement.

    Args:
        rank: of this process among all.
        groups: process group by number of ranks; the first ranks are in it.
        asked: the command line.
        gpu: this rank's device, with the methods of :class:`Gpu`.
    """

    def __init__(self, rank: int, groups: dict[int, Any], asked: Asked, gpu: Any) -> None:
        """Measure nothing yet."""
        self.rank, self.groups, self.asked, self.gpu = rank, groups, asked, gpu
        self.whole: torch.Tensor | None = None

    def inputs(self, problem: Problem) -> list[torch.Tensor]:
        """Return q, k and v, the same on all ranks."""
        random = torch.Generator(self.gpu.name).manual_seed(problem.seqlen_q)
        tokens, depth = problem.seqlen_q, problem.head_dim
        shapes = [(1, tokens, heads, depth) for heads in (problem.heads, *[problem.heads_kv] * 2)]
        like = {"device": self.gpu.name, "dtype": torch.bfloat16, "generator": random}
        return [torch.randn(shape, **like) for shape in shapes]

    def call(self, problem: Problem, inputs: list[torch.Tensor], method: str, ranks: int) -> Any:
        """Return the call that this rank makes, as one of ``ranks``."""
        given: dict[str, Any] = {"causal": problem.causal, "unchecked": True}
        if ranks == 1:
            return lambda: fa4_cute.flash_attn(*inputs, **given)
        given |= {"group": self.groups[ranks], "method": method}
        mine = [distributed.shard(x, group=self.groups[ranks]) for x in inputs]
        return lambda: distributed.context_parallel_attn(*mine, **given)

    def gathered(self, value: Any) -> list[Any]:
        """Return the value of every rank; all of them wait here."""
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, value)
        return found

    def gap(self, out: torch.Tensor, ranks: int) -> float:
        """Return how far ``out`` is from one GPU's O; 0 where this rank has not seen that."""
        if ranks == 1:
            self.whole = out
        if self.whole is None or self.rank:
            return 0.0
        own = self.whole if ranks == 1 else distributed.shard(self.whole, group=self.groups[ranks])
        return float((out - own).abs().max())

    def row(
        self, problem: Problem, inputs: list[torch.Tensor], method: str, ranks: int
    ) -> dict[str, Any]:
        """Time one problem on ``ranks`` GPUs; all ranks call this, also those that only wait."""
        times, gap, log, start = [], 0.0, ClockLog(), time.monotonic()
        if self.rank < ranks:
            call = self.call(problem, inputs, method, ranks)
            gap = self.gap(call(), ranks)
            times = timed(call, self.asked.rounds, self.gpu)
        clocks = log.since(start)
        log.close()
        found = [each for each in self.gathered(times) if each]
        return {
            "tokens": problem.seqlen_q, "mask": "causal" if problem.causal else "all",
            "method": method, "ranks": ranks, "flops": problem.flops(), "gap": gap,
            "ms": max(median(each) for each in found), "runs": found, "clocks": clocks,
        }  # fmt: skip

    def profile(
        self, problem: Problem, inputs: list[torch.Tensor], method: str, ranks: int
    ) -> dict[str, Any]:
        """Profile one problem on ``ranks`` GPUs; all ranks call this."""
        timeline: Any = None
        if self.rank < ranks:
            call = self.call(problem, inputs, method, ranks)
            call()
            events = self.gpu.profile(call, PROFILED)
            timeline = asdict(Timeline.of(kernels_of(events), PROFILED))
        found = [each for each in self.gathered(timeline) if each]
        mask = "causal" if problem.causal else "all"
        return {
            "tokens": problem.seqlen_q, "mask": mask, "method": method, "ranks": ranks,
            "timelines": found,
        }  # fmt: skip

    def measure(self, problem: Problem) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield "rows" or "profiles" and what belongs there."""
        inputs = self.inputs(problem)
        alone = None
        for ranks, method in product(sorted(self.asked.ranks), METHODS):
            if ranks == 1 and alone is not None:
                yield "rows", {**alone, "method": method}
                continue
            row = self.row(problem, inputs, method, ranks)
            alone = row if ranks == 1 else alone
            yield "rows", row
        self.whole = None
        if (most := max(self.asked.ranks)) > 1:
            for method in METHODS:
                yield "profiles", self.profile(problem, inputs, method, most)


def measured(member: Member) -> dict[str, Any]:
    """Measure all problems; rank 0 writes the files after each of them."""
    start, asked = time.monotonic(), member.asked
    found: dict[str, Any] = {
        "card": card(), "versions": versions(), "rounds": asked.rounds, "profiled_calls": PROFILED,
        "shape": {"heads": HEADS, "heads_kv": HEADS_KV, "head_dim": HEAD_DIM},
        "day": datetime.now(UTC).date().isoformat(), "priority": asked.priority,
        "rows": [], "profiles": [],
    }  # fmt: skip
    for problem in asked.problems():
        if max(member.gathered(time.monotonic() - start)) > asked.seconds:
            break
        for kind, row in member.measure(problem):
            found[kind].append(row)
            if member.rank == 0 and kind == "rows":
                said = f"{row['ms']:.3f} ms, gap {row['gap']:.1e}"
                what = f"{problem.name} {row['method']} on {row['ranks']}"
                print(f"{time.monotonic() - start:5.0f} s {what}: {said}", flush=True)
        if member.rank == 0:
            asked.out.with_suffix(".json").write_text(json.dumps(found) + "\n")
            asked.out.with_suffix(".md").write_text(render(found))
    return found


def work(rank: int, folder: str, asked: Asked) -> None:
    """Be one rank on NCCL."""
    gpu, world = Gpu(rank), max(asked.ranks)
    store = dist.FileStore(f"{folder}/store", world)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=world, timeout=WAIT)
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=asked.priority == "high")
    groups = {n: dist.new_group(list(range(n)), pg_options=options) for n in asked.ranks}
    found = measured(Member(rank, groups, asked, gpu))
    dist.destroy_process_group()
    if any(row["gap"] > TOLERANCE for row in found["rows"]):
        raise SystemExit(1)


def calls_of(problem: Problem, ranks: int) -> set[Call]:
    """Return the plain calls that ``ranks`` make between them, by either method."""
    lengths = (problem.seqlen_q,)
    shards = Shards(lengths, ranks, Layout.ZIGZAG)
    plan = ContextPlan(shards, shards, CAUSAL if problem.causal else FULL)
    found = {call for rank in range(ranks) for call in plan.whole_calls(rank)}
    return found | {
        call for rank in range(ranks) for step in plan.ring(rank) for call in step.calls
    }


def compile_kernels(asked: Asked) -> list[str]:
    """Compile what the problems need, and return the kernels' names."""
    options = []
    for problem in asked.problems():
        options.append(problem.our_options())
        for ranks in asked.ranks:
            for call in calls_of(problem, ranks) if ranks > 1 else ():
                (start, stop), (first, last) = call.parts[0].rows, call.parts[0].keys
                sizes = {"seqlen_q": stop - start, "seqlen_k": last - first}
                causal = call.band == CAUSAL
                options.append({**options[0], **sizes, "causal": causal, "return_lse": True})
    joined = CombineSpec(DType.BF16, HEAD_DIM, True, SM90A, of_calls=True)
    return sorted({*fa4_cute.warmup(options), cache.compiled(joined).kernel_name})


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 when a result was wrong, 2 without enough GPUs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--compile", action="store_true", help="only compile the kernels")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="numbers of GPUs")
    parser.add_argument("--out", type=Path, default=Asked.out, help="files: with .json and .md")
    parser.add_argument("--only", default="", help="regular expression over problem names")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="begin nothing after them")
    parser.add_argument("--priority", choices=("high", "normal"), default="high",
                        help="of NCCL's streams")  # fmt: skip
    given = parser.parse_args(arguments)
    asked = Asked(
        tuple(given.ranks), given.out, given.only, given.rounds, given.seconds, given.priority
    )
    if given.compile:
        print("\n".join(compile_kernels(asked)))
        return 0
    most = max(asked.ranks)
    if not torch.cuda.is_available() or torch.cuda.device_count() < most:
        print(f"--ranks {most}: {torch.cuda.device_count()} GPUs are there")
        return 2
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(
            work, (folder, asked), nprocs=most, start_method="spawn"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

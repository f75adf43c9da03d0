"""Who computes a problem on the side-by-side page, and recordings of what they launch.

Needs the CuTe DSL with `CUTE_DSL_ARCH=sm_100a`; of the others what they are. No GPU.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest import mock

import torch

from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.record_fa4 import ask, overheard
from benchmarks.hopper.times.runners import ours
from benchmarks.hopper.times.tensors import make, of_cache
from benchmarks.timing.attention_traces import assemblers
from benchmarks.timing.side_by_side import others, tirx
from benchmarks.timing.side_by_side.steps.streamed import Line
from benchmarks.timing.side_by_side.variants import Changes, changed, rewritten
from fa4_cute.host.ask.described import described
from fa4_cute.host.ask.problem import Problem as Posed
from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.run import calls, compute
from fa4_cute.host.run.launch import pack_launch
from fa4_cute.host.run.operands import describe_call
from fa4_cute.plan.facts.hardware import SM100A
from fa4_cute.plan.launch.launch import plan_launch
from fa4_cute.plan.launch.sm100_splits import cycles_of_last
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import WORK_COUNTS, Scheduler
from sm100sim.crew.recording import Recording, recording
from sm100sim.host.activation import runtime
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.report import SimulationFault
from sm100sim.run import run
from sm100sim.timing.sass.tools import version as made_by

SMS: Final = 148
CUDA12, CUDA13 = "12.9", "13.4"
"""Assemblers of the CuTe DSL: that of its packages for CUDA 12, and for CUDA 13."""
Choice = Callable[[LaunchRequest], Sequence[int] | None]
"""Which clusters of a launch are executed; None stands for all."""


@dataclass(frozen=True)
class Column:
    """A kernel of the page.

    Attributes:
        name: as the page has it.
        runner: "fa4_cute", "FA4", "Modular", "CUTLASS", "Gluon" or "TIRx".
        assembler: version of the ptxas that makes its machine code.
        one_cta: whether FlashAttention-4 is kept from pairs of CTAs, as its switch
            `FA_DISABLE_2CTA`, or torch for CUDA 12, does.
        clc: whether its CTAs may take over others, as its switch `FA_CLC` asks.
        options: further ones of the call of this package, of FlashAttention-4 or of TIRx.
        changes: of FlashAttention-4, a variant (`variants`).
    """

    name: str
    runner: str
    assembler: str
    one_cta: bool = False
    clc: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    changes: Changes = ()


TIRX: Final = Column(f"TIRx {tirx.RELEASE}, CUDA 13", "TIRx", CUDA13)


class Declined(Exception):
    """The runner has no kernel for the problem; the message says why."""


def inputs(problem: Problem, lengths: Sequence[int] = ()) -> dict[str, torch.Tensor]:
    """Tensors of a problem; packed sequences may have lengths of their own, one behind another,
    and so may those of a cache."""
    if not lengths:
        return make(problem, "cpu")
    if problem.page:
        return of_cache(problem, lengths, "cpu")
    total = sum(lengths)
    found = make(replace(problem, batch=1, seqlen_q=total, seqlen_k=total), "cpu")
    found["starts"] = torch.tensor([0, *lengths]).cumsum(0).int()
    return found


def records(
    column: Column, problem: Problem, choice: Choice, lengths: Sequence[int] = ()
) -> list[Recording]:
    """What the chosen clusters of each launch of a call executed.

    Args:
        column: who computes it. problem: what; with `lengths`, its length is the longest.
        choice: which clusters are executed. lengths: of packed sequences, or of those of a cache,
            where they differ.

    Raises:
        Declined: the runner has no such kernel.
    """
    found: list[Recording] = []

    def hear(request: LaunchRequest) -> SimpleNamespace:
        """Run the chosen clusters at once, while what the call allocated is there."""
        changed_ = replace(request, ptx=rewritten(request.ptx, column.changes))
        with recording(choice(changed_), others=False) as launches:
            run(changed_, RunOptions(mode="fast"))
        found.extend(launches)
        return SimpleNamespace(instructions=0, findings=())

    call = {"fa4_cute": _of_ours, "FA4": _of_fa4}.get(column.runner, _of_others)
    try:
        call(column, problem, inputs(problem, lengths), hear)
    except (AssertionError, NotImplementedError, ValueError, TypeError) as error:
        if found or isinstance(error, SimulationFault):  # it is asked, and stops here
            raise
        said = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
        told = f"{type(error).__name__}: {said}".split("\n")[0]
        raise Declined(told[:160]) from error
    return found


def settled(column: Column, problem: Problem) -> Column:
    """Return a column of this package with what its call of a problem leaves to the kernel.

    So that smaller problems, of which clusters are executed, take the kernel of the whole one.
    """
    if column.runner != "fa4_cute":
        return column
    return _insisting(column, require(choose(_posed(problem))).spec)


def _posed(problem: Problem, lengths: Sequence[int] = ()) -> Posed:
    """Return a problem in this package's words; ``lengths`` are of packed sequences."""
    total = sum(lengths) if problem.packed else 0
    return described(**{**problem.our_options(), "arch": SM100A, "total_q": total})


def posed_with(column: Column, problem: Problem, lengths: Sequence[int] = ()) -> Posed:
    """Return the same with the scheduler and Q tiles that a column's options name."""
    posed, options = _posed(problem, lengths), dict(column.options)
    if "scheduler" in options:
        posed = posed.with_scheduler(Scheduler[options["scheduler"].upper()])
    return replace(posed, num_qo=options.get("num_qo"))


def _insisting(column: Column, spec: AttentionSpec) -> Column:
    """Return a column with scheduler and Q tiles of a kernel, where it does not name them."""
    found: dict[str, Any] = {"scheduler": spec.variant.scheduler.name.lower()}
    if isinstance(spec, KernelSpec):
        found["num_qo"] = spec.config.num_qo
    return replace(column, options=tuple({**found, **dict(column.options)}.items()))


def tiles_in_turns(column: Column, problem: Problem) -> int:
    """Query tiles, or those of pairs, that a column's CTAs take back and forth; 0: they do not.

    Only persistent ones of this package do, of sequences of one length whose keys lie in a row.
    """
    found = _in_turns(column, problem)
    return found[1]["num_work"] if found else 0


def heads_in_turns(column: Column, problem: Problem) -> int:
    """Heads of a section of which persistent CTAs take windows; 0: they do not."""
    found = _in_turns(column, problem)
    return found[1]["num_heads"] if found and found[0].in_sections else 0


def _in_turns(column: Column, problem: Problem) -> tuple[AttentionSpec, dict[str, int]] | None:
    """A kernel whose CTAs go back and forth, and the counts of its launch; None: they do not."""
    if column.runner != "fa4_cute" or problem.page or problem.packed or problem.group == "latent":
        return None
    posed = posed_with(column, problem)
    spec: AttentionSpec = require(choose(posed)).spec
    if not (spec.variant.is_persistent and spec.turns_back):
        return None
    scalars = plan_launch(spec, posed.sizes, posed.scale, num_sms=SMS).scalars
    return spec, {name: int(scalars[name]) for name in WORK_COUNTS}


def chosen(column: Column, problem: Problem, lengths: Sequence[int]) -> Column:
    """Return a column of this package with the scheduler that packed sequences get by default."""
    if column.runner != "fa4_cute":
        return column
    spec = packed_spec(column, problem, lengths)
    return _insisting(column, spec) if spec.variant.is_dynamic else column


def packed_spec(column: Column, problem: Problem, lengths: Sequence[int]) -> AttentionSpec:
    """Return this package's kernel for packed sequences, with what a column's options name."""
    spec: AttentionSpec = require(choose(posed_with(column, problem, lengths))).spec
    return spec


def line_of(column: Column, problem: Problem, lengths: Sequence[int] = ()) -> Line | None:
    """Return the line of this package's stream-K kernel for a step of decoding; None: another."""
    if column.runner != "fa4_cute" or not problem.page:
        return None
    posed = posed_with(column, problem)
    spec: AttentionSpec = require(choose(posed)).spec
    if not spec.variant.streams_keys:
        return None
    return Line.of(spec, posed.sizes, lengths or [problem.seqlen_k] * problem.batch, SMS)


def joined_after(column: Column, problem: Problem, lengths: Sequence[int] = ()) -> int:
    """Cycles in which the last CTA of this package's kernel joins splits once all keys are read.

    A launch that waits for memory takes them besides; the model has them beside the bytes.
    """
    if column.runner != "fa4_cute" or not problem.page or column.options:
        return 0
    posed = _posed(problem)
    choice = require(choose(posed))
    return cycles_of_last(choice.spec, posed.sizes, choice.num_splits, posed.sms, lengths)


Tensors = dict[str, torch.Tensor]
Hear = Callable[[LaunchRequest], Any]


def _of_ours(column: Column, problem: Problem, tensors: Tensors, hear: Hear) -> None:
    few = partial(pack_launch, num_sms=SMS)
    options = {**dict(column.options), "arch": "sm_100a"}
    call = cast("partial[Any]", ours(problem, tensors))
    lengths = tensors["lengths"].tolist() if problem.page else ()
    counted = partial(_with_others_counted, line_of(column, problem, lengths))
    with (
        mock.patch.object(compute, "pack_launch", few),
        mock.patch.object(calls, "kept", calls.Kept(0)),  # a call of before has its own counters
        mock.patch.object(compute, "describe_call", counted),
        others.heard_by(hear),
    ):
        call.func(*call.args, **call.keywords, **options)


def _with_others_counted(line: Line | None, *given: Any) -> Any:
    """Return a call whose executed CTAs each find themselves the last of their query tile.

    Few are executed, and a launch waits for those that are the last. With stream-K it is the
    busiest one, and the query tile that it ends with.
    """
    call = describe_call(*given)
    if call.counters is not None:
        counted = line.counted(line.busiest()) if line else [call.described.num_splits - 1]
        # As many for every query tile, of which each CTA of a pair has its own; else all are alike.
        each = call.counters.number // len(counted)
        call.counters.memory.copy_(torch.tensor(counted).repeat_interleave(each))
    return call


def _of_fa4(column: Column, problem: Problem, tensors: Tensors, hear: Hear) -> None:
    from flash_attn.cute import utils

    from benchmarks.foreign.torch_on_host import cuda_tensors_on_host

    with ExitStack() as stack:
        enter = stack.enter_context
        enter(mock.patch.object(utils, "_fa_disable_2cta_enabled", column.one_cta))
        enter(mock.patch.object(utils, "_fa_clc_enabled", column.clc))
        enter(cuda_tensors_on_host(SMS, claim_cuda=True))
        enter(changed(column.changes))
        enter(overheard())
        runtime().launcher = hear  # overheard() puts the old one back
        ask(problem, tensors, **dict(column.options))


def _of_others(column: Column, problem: Problem, tensors: Tensors, hear: Hear) -> None:
    of: dict[str, Callable[[Problem, Tensors, Hear], None]] = {
        "Modular": others.modular, "CUTLASS": others.cutlass,
        "Gluon": partial(others.gluon, sms=SMS),
        "TIRx": lambda problem, _, hear: tirx.attention(
            problem, hear, SMS, **dict(column.options)
        ),
    }  # fmt: skip
    of[column.runner](problem, tensors, hear)


@cache
def assembler(version: str) -> str:
    """The path of an assembler of a version.

    Raises:
        FileNotFoundError: there is none here.
    """
    known = {path: made_by(path) for path in assemblers()}
    for path, found in known.items():
        if found.startswith(version):
            return path
    raise FileNotFoundError(f"ptxas {version}: found {', '.join(known.values())}")


def assembler_for(column: Column, ptx: str) -> str:
    """The path of a column's assembler, at the register usage level that the PTX names.

    Raises:
        FileNotFoundError: as `assembler`.
    """
    return tirx.at_level(assembler(column.assembler), ptx)

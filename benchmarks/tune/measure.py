"""What a choice costs: its kernel compiled, one CTA executed at two lengths, launches predicted.

Cycles of a CTA grow linearly with its keys once it is under way, so those of any length follow from
two. CTAs of a launch take the places of 148 SMs in their order, as ``timing.predict`` has it.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import Any, Final
from unittest import mock

import fa4_cute
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.tensors import make
from benchmarks.tune.classes import TRACED, Cell, ProblemClass
from benchmarks.tune.records import Record
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose import support
from fa4_cute.host.compile import cache
from fa4_cute.host.run import calls, compute
from fa4_cute.host.run.launch import pack_launch
from fa4_cute.plan.config.tuning import Tuning
from fa4_cute.plan.launch.sm100_selection import BlackwellSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from sm100sim.crew.recording import recording
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import run_cluster
from sm100sim.timing.predict.gpu import finish
from sm100sim.timing.records import ClusterTrace, SassKernel
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.trace import traced
from testing.sass import disassemble, pair_loop, softmax_loops, spills

CHIP: Final = "b200"
SMS: Final = 148
DRAWS: Final = 12
ARCH: Final = "sm_100a"
DYNAMIC: Final = "dynamic"
"""The causal kernel that a record names beside those of its cells."""


def _whole(problem: Problem) -> dict[str, Any]:
    """Return the options of a call of a problem, whose keys are not split."""
    return {"causal": problem.causal, "arch": ARCH, "num_splits": 1}


def spec_of(
    problem: Problem, kernel: str, tuning: Tuning | None = None, **asked_for: Any
) -> BlackwellSpec:
    """Return the kernel of a problem with ``kernel`` as its kind and other free choices.

    Further options are those of the call. A step of decoding has copies of few rows, which calls
    get that leave Q tiles open.

    Raises:
        ValueError: naming the limit, when no such kernel exists.
    """
    tensors = make(problem, "cpu")
    options = _whole(problem)
    if kernel != "pair" and problem.seqlen_q > 1:
        options["num_qo"] = int(kernel[0])
    options |= asked_for
    asked = request(tuple(tensors[n] for n in "qkv"), *options_and_batch(options)).problem
    spec = support.require(support.choose(asked)).spec
    assert isinstance(spec, BlackwellSpec)
    if tuning is None:
        return spec
    if isinstance(spec, Depth512Spec):
        return replace(spec, tuning=tuning)
    return spec.with_config(replace(spec.config, tuning=tuning))


def ptx_hash(spec: BlackwellSpec) -> str:
    """Return the SHA-256 of the PTX of a kernel, without its name."""
    artifact = cache.compiled(spec)
    return hashlib.sha256(artifact.ptx.replace(artifact.kernel_name, "KERNEL").encode()).hexdigest()


def machine_code(spec: BlackwellSpec) -> SassKernel:
    """Return the machine code of a kernel."""
    artifact = cache.compiled(spec)
    return compiled(artifact.ptx, ARCH, artifact.kernel_name)


def drawn_chips() -> list[Draw]:
    """Return the chips of all draws, the same for every choice."""
    chip = load_chip(CHIP)
    return [chip.draw(number) for number in range(1, DRAWS + 1)]


def trace(problem: Problem, spec: BlackwellSpec, code: SassKernel) -> ClusterTrace:
    """Return what the first CTA executes: that with most keys."""
    tensors = make(problem, "cpu")

    def chosen(asked: Any) -> Any:
        return replace(support.require(support.choose(asked)), spec=spec)

    few = partial(pack_launch, num_sms=SMS)
    with (
        mock.patch.multiple(compute, pack_launch=few, choose=chosen),
        mock.patch.object(calls, "kept", calls.Kept(0)),
        recording([0], others=False) as launches,
        fa4_cute.simulator_options(mode="fast", checks="none"),
    ):
        operands = (tensors[name] for name in "qkv")
        fa4_cute.flash_attn(*operands, out=tensors["out"], **_whole(problem))
    (found,) = launches
    return traced(code, found).traces[0]


def static_facts(spec: BlackwellSpec) -> tuple[int, int, int]:
    """Return spills, T1 and the stalls of a turn of the softmax loop without masks."""
    code = disassemble(cache.compiled(spec).cubin)
    pair = isinstance(spec, Depth512Spec)
    loops = [pair_loop(code)] if pair else list(softmax_loops(code))
    best = min(loops, key=lambda loop: loop.three_quarters, default=None)
    return spills(code), best.three_quarters if best else 0, best.turn if best else 0


def dynamic_spec_of(of: ProblemClass, tuning: Tuning) -> BlackwellSpec:
    """Return the causal kernel of a choice whose CTAs take over others: all schedulers have the
    choice, and these have the fewest registers."""
    return spec_of(of.problem("causal", TRACED[0]), of.kernel, tuning, scheduler="dynamic")


def judged_specs(of: ProblemClass, tuning: Tuning) -> dict[str, BlackwellSpec]:
    """Return the kernels that judge a choice, by kind of cell; that of "dynamic" for its spills."""
    kinds = dict.fromkeys(cell.kind for cell in of.cells)
    specs = {kind: spec_of(of.problem(kind, TRACED[0]), of.kernel, tuning) for kind in kinds}
    if "causal" in specs and of.kernel == "2q":
        specs[DYNAMIC] = dynamic_spec_of(of, tuning)
    return specs


def ptx_hashes(of: ProblemClass, tuning: Tuning) -> dict[str, str]:
    """Return the hash of the PTX of each kernel that judges a choice: when one changes, so may what
    the choice costs."""
    return {name: ptx_hash(spec) for name, spec in judged_specs(of, tuning).items()}


def measured(of: ProblemClass, tuning: Tuning, hashes: dict[str, str]) -> Record:
    """Compile, execute and predict a choice; spills are those of its dynamic causal kernel, too.

    Args:
        of: the class. tuning: the choice. hashes: of its kernels' PTX, as ``ptx_hashes`` has them.
    """
    draws = drawn_chips()
    cycles: dict[str, tuple[int, ...]] = {}
    facts: list[tuple[int, int, int]] = []
    for kind, spec in judged_specs(of, tuning).items():
        facts.append(static_facts(spec))
        if kind == DYNAMIC:
            continue
        code = machine_code(spec)
        pair = [trace(of.problem(kind, keys), spec, code) for keys in TRACED]
        per_draw = [tuple(run_cluster(t, draw).cycles for t in pair) for draw in draws]
        for cell in of.cells:
            if cell.kind == kind:
                cycles[cell.name] = tuple(
                    round(launch_cycles(of, cell, spec, both, draw))
                    for both, draw in zip(per_draw, draws, strict=True)
                )
    return Record(
        of.name, tuning, hashes, spills=sum(f[0] for f in facts), t1=facts[0][1],
        turn=facts[0][2], cycles=cycles,
    )  # fmt: skip


def launch_cycles(
    of: ProblemClass, cell: Cell, spec: BlackwellSpec, cycles: tuple[float, ...], draw: Draw
) -> float:
    """Return what a cell takes with one draw, from the cycles of a CTA at two lengths."""
    problem = of.launch(cell)
    per_key = (cycles[1] - cycles[0]) / (TRACED[1] - TRACED[0])
    positions = spec.config.PairBM_eff()
    tiles = -(-problem.seqlen_q // positions)
    heads = problem.heads // (spec.config.group if spec.config.fuse_gqa else 1)
    last = problem.seqlen_k - problem.seqlen_q
    keys = [
        min(problem.seqlen_k, last + (tile + 1) * positions) if problem.causal
        else problem.seqlen_k
        for tile in reversed(range(tiles))
    ]  # fmt: skip
    longest_first = [cycles[0] + (n - TRACED[0]) * per_key for n in keys]
    places = int(draw["sms"]) // spec.config.cta_group()
    work = finish(longest_first * heads * problem.batch, places, draw["cta_cycles"])
    moved = problem.bytes() / (draw["hbm_gbytes"] * 1e3 / draw["clock_mhz"])
    return float(draw["launch_cycles"] + max(work, moved))

"""Times of the Hopper kernel's own choices, side by side on a GPU of compute capability 9.0.

    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.sm90_variants compile    where CuTe DSL is
    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.sm90_variants run        on the GPU

Each figure is the median of replays of a CUDA graph of one call; the variants of a problem take
turns. A call's result is compared with that of the kernel as it is chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Final
from unittest import mock

import torch

import fa4_cute
from benchmarks.hopper.times import timing
from benchmarks.hopper.times.problems import DIMS
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose import support
from fa4_cute.host.compile import cache
from fa4_cute.host.run import calls, compute
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.sm90_spec import sm90_schedule

TOKENS: Final = 16384
HIDDEN: Final = 2048
ROUNDS: Final = 15
ALLOWED: Final = {False: 2e-2, True: 1e-1}
"""Largest difference between two variants, fp8 or not: roundings of P at other maxima."""
LENGTHS: Final = (512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Shape:
    """Columns of a head, of Q and K and of V, and the operands' type."""

    depth: int
    ov_depth: int
    is_fp8: bool = False

    @property
    def name(self) -> str:
        """What a line of the table begins with."""
        dims = str(self.depth) if self.depth == self.ov_depth else f"{self.depth}/{self.ov_depth}"
        return f"fp8 {dims}" if self.is_fp8 else dims

    def tensors(self, seqlen: int, device: str) -> list[torch.Tensor]:
        """Return q, k and v, (batch, seqlen, heads, columns); tokens and width stay."""
        rows = (max(1, TOKENS // seqlen), seqlen, HIDDEN // self.depth)
        dtype = torch.float8_e4m3fn if self.is_fp8 else torch.bfloat16
        columns = (self.depth, self.depth, self.ov_depth)
        return [torch.randn((*rows, n), device=device).to(dtype) for n in columns]


D64, D96, D128, D192, D256 = (Shape(*dims) for dims in DIMS)
F64, F128 = Shape(64, 64, is_fp8=True), Shape(128, 128, is_fp8=True)
ALL: Final = (D64, D96, D128, D192, D256, F64, F128)


@dataclass(frozen=True)
class Trial:
    """A variant of the kernel.

    Attributes:
        options: further options of the call.
        changes: fields of the kernel's configuration, and their values.
        shapes: for which it is tried.
    """

    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    shapes: tuple[Shape, ...] = ALL

    def chosen(self, problem: Problem) -> support.Choice:
        """Return the kernel of ``problem`` with the changes."""
        choice: support.Choice = support.require(support.choose(problem))
        spec: Any = choice.spec
        config = replace(spec.config, **self.changes)
        changed = replace(spec, config=config, schedule=sm90_schedule(config, spec.variant))
        return replace(choice, spec=changed)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Have calls take this variant, and keep none of them."""
        with (
            mock.patch.object(compute, "choose", self.chosen),
            mock.patch.object(calls, "kept", calls.Kept(0)),
        ):
            yield

    def attention(self, *qkv: torch.Tensor, **options: Any) -> torch.Tensor:
        """Compute attention by this variant."""
        call: Callable[..., torch.Tensor] = fa4_cute.flash_attn
        with self.in_force():
            return call(*qkv, **options, **self.options)


TILE: Final = {"scheduler": "tile"}
PERSISTENT: Final = {"scheduler": "persistent"}
TWO_CONSUMERS: Final[dict[str, Any]] = {"long_keys": False}
"""Of head dim 128, also where all rows see many keys."""
TRIALS: Final = {
    "as chosen": Trial(),
    "one tile a CTA": Trial(TILE),
    "persistent": Trial(PERSISTENT),
    "in turn": Trial({}, {"in_turn": True}),
    "any time": Trial({}, {"in_turn": False}),
    "one consumer": Trial({"num_qo": 1}, {}, (D96, D128)),
    "two consumers": Trial(TILE, TWO_CONSUMERS, (D128,)),
    "three consumers": Trial(TILE, {"long_keys": True}, (D128,)),
    "96 keys persistent": Trial(PERSISTENT, {"keys": 96}, (D128,)),
    "two consumers 128 keys": Trial(PERSISTENT, {"most_consumers": 2, "keys": 128}, (F64,)),
}
"""What is tried, by name."""
PROBLEMS: Final = tuple(product(ALL, (False, True), LENGTHS))
"""Shape, causal, length."""


def trials_of(shape: Shape) -> dict[str, Trial]:
    """Return the variants to try for a shape."""
    return {name: trial for name, trial in TRIALS.items() if shape in trial.shapes}


def all_specs() -> Iterator[AttentionSpec]:
    """Yield the kernel of every problem and variant."""
    for shape, causal, seqlen in PROBLEMS:
        qkv = shape.tensors(seqlen, "meta")
        for name, trial in trials_of(shape).items():
            options = {"causal": causal, "arch": SM90A, **trial.options}
            asked = request(tuple(qkv), *options_and_batch(options))
            try:
                yield trial.chosen(asked.problem).spec
            except ValueError as error:
                print(shape.name, name, error)


def compile_all() -> int:
    """Compile the kernels of all variants; return how many there are."""
    specs = set(all_specs())
    for spec in specs:
        cache.compiled(spec)
    return len(specs)


def measured(shape: Shape, causal: bool, seqlen: int) -> dict[str, str]:
    """Return TFLOPS of each variant, or what is wrong with it."""
    q, k, v = shape.tensors(seqlen, "cuda")
    expected = fa4_cute.flash_attn(q, k, v, causal=causal)
    found: dict[str, str] = {}
    ready = {}
    for name, trial in trials_of(shape).items():
        out = torch.empty_like(expected)
        call = partial(trial.attention, q, k, v, causal=causal, out=out)
        try:
            call()
            gap = float((out.float() - expected.float()).abs().max())
        except Exception as error:  # a table shows what fails and goes on
            found[name] = f"{type(error).__name__}: {error}"[:60]
            continue
        ready[name] = call
        if gap > ALLOWED[shape.is_fp8]:
            found[name] = f"differs by {gap:.2g}"
    times, notes = timing.measured(ready, ROUNDS, timing.Flush(cold=True))
    pairs = q.shape[0] * seqlen * (seqlen + 1 if causal else 2 * seqlen) / 2
    operations = 2 * pairs * q.shape[2] * (shape.depth + shape.ov_depth)
    for name, runs in times.items():
        found.setdefault(name, notes.get(name, f"{operations / runs.median / 1e9:.0f}"))
    return found


def main(command: str) -> None:
    """Compile, or run and print a line per problem and variant."""
    if command == "compile":
        print(f"{compile_all()} kernels are in {cache.cache_info().directory}")
        return
    print(torch.cuda.get_device_name())
    for shape, causal, seqlen in PROBLEMS:
        kind = "causal" if causal else "all"
        for name, text in measured(shape, causal, seqlen).items():
            print(shape.name, kind, seqlen, name, text, sep=" | ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

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
from typing import Any, Final
from unittest import mock

import torch

import fa4_cute
from benchmarks.hopper.times import timing
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
MODEL_DIM: Final = 2048
ROUNDS: Final = 15
ALLOWED: Final = 2e-2
"""Largest difference between two variants: roundings of P to 16 bits at other maxima."""


@dataclass(frozen=True)
class Trial:
    """A variant of the kernel.

    Attributes:
        options: further options of the call.
        changes: fields of the kernel's configuration, and their values.
        depths: head dims for which it is tried.
    """

    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    depths: tuple[int, ...] = (64, 128, 256)

    def chosen(self, problem: Problem) -> support.Choice:
        """Return the kernel of ``problem`` with the changes."""
        choice: support.Choice = support.require(support.choose(problem))
        spec: Any = choice.spec
        config = replace(spec.config, **self.changes)
        changed = replace(spec, config=config, schedule=sm90_schedule(config))
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


PERSISTENT: Final = {"scheduler": "persistent"}
TWO_CONSUMERS: Final[dict[str, Any]] = {"long_keys": False}
"""Of head dim 128, also where all rows see many keys."""
TRIALS: Final = {
    "as chosen": Trial(),
    "one tile a CTA": Trial({"scheduler": "tile"}),
    "persistent": Trial(PERSISTENT),
    "any time": Trial({"scheduler": "tile"}, {"in_turn": False}),
    "persistent any time": Trial(PERSISTENT, {"in_turn": False}),
    "128 keys": Trial({"scheduler": "tile"}, TWO_CONSUMERS | {"keys": 128}, (128,)),
    "176 keys": Trial({"scheduler": "tile"}, TWO_CONSUMERS | {"keys": 176}, (128,)),
    "176 keys any time": Trial(
        {"scheduler": "tile"}, TWO_CONSUMERS | {"keys": 176, "in_turn": False}, (128,)
    ),
    "176 keys persistent": Trial(PERSISTENT, TWO_CONSUMERS | {"keys": 176}, (128,)),
    "two consumers": Trial({"scheduler": "tile"}, {"most_consumers": 2}, (64,)),
    "two consumers persistent": Trial(PERSISTENT, {"most_consumers": 2}, (64,)),
}
"""What is tried, by name."""
PROBLEMS: Final = tuple(
    (depth, causal, seqlen)
    for depth in (64, 128, 256)
    for causal in (False, True)
    for seqlen in (1024, 4096, 16384)
)
"""Head dim, causal, length; so many sequences and heads that tokens and width stay."""


def tensors(depth: int, seqlen: int, device: str) -> list[torch.Tensor]:
    """Return q, k and v, (batch, seqlen, heads, depth) in bf16."""
    shape = (TOKENS // seqlen, seqlen, MODEL_DIM // depth, depth)
    return [torch.randn(shape, device=device).bfloat16() for _ in "qkv"]


def trials_of(depth: int) -> dict[str, Trial]:
    """Return the variants to try for a head dim."""
    return {name: trial for name, trial in TRIALS.items() if depth in trial.depths}


def all_specs() -> Iterator[AttentionSpec]:
    """Yield the kernel of every problem and variant."""
    for depth, causal, seqlen in PROBLEMS:
        q, k, v = tensors(depth, seqlen, "meta")
        for trial in trials_of(depth).values():
            options = {"causal": causal, "arch": SM90A, **trial.options}
            asked = request((q, k, v), *options_and_batch(options))
            yield trial.chosen(asked.problem).spec


def compile_all() -> int:
    """Compile the kernels of all variants; return how many there are."""
    specs = set(all_specs())
    for spec in specs:
        cache.compiled(spec)
    return len(specs)


def measured(depth: int, causal: bool, seqlen: int) -> dict[str, str]:
    """Return TFLOPS of each variant, or what is wrong with it."""
    q, k, v = tensors(depth, seqlen, "cuda")
    expected = fa4_cute.flash_attn(q, k, v, causal=causal).float()
    found: dict[str, str] = {}
    ready = {}
    for name, trial in trials_of(depth).items():
        out = torch.empty_like(q)
        call = partial(trial.attention, q, k, v, causal=causal, out=out)
        try:
            call()
        except Exception as error:  # a table shows what fails and goes on
            found[name] = f"{type(error).__name__}: {error}"[:60]
            continue
        ready[name] = call
        gap = float((out.float() - expected).abs().max())
        if gap > ALLOWED:
            found[name] = f"differs by {gap:.2g}"
    times, notes = timing.measured(ready, ROUNDS, timing.Flush(cold=False))
    operations = 4 * TOKENS * seqlen * MODEL_DIM / (2 if causal else 1)
    for name, runs in times.items():
        found.setdefault(name, notes.get(name, f"{operations / runs.median / 1e9:.0f}"))
    return found


def main(command: str) -> None:
    """Compile, or run and print a line per problem and variant."""
    if command == "compile":
        print(f"{compile_all()} kernels are in {cache.cache_info().directory}")
        return
    print(torch.cuda.get_device_name())
    for problem in PROBLEMS:
        for name, text in measured(*problem).items():
            print(*problem, name, text, sep=" | ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

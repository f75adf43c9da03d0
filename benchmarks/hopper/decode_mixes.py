"""Times of decoding steps whose sequences differ in keys: stream-K beside numbers of splits.

    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.decode_mixes compile   where the DSL is
    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.decode_mixes run       on the GPU

Every call takes turns with the others of its problem, behind a flush of the L2; the figures are
microseconds, and the ratio is that of stream-K to what was chosen for all sequences alike.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import log2
from typing import Any, Final

import torch

import fa4_cute
from benchmarks.hopper.decode_variants import compile_all
from benchmarks.hopper.times.problems import BYTES
from benchmarks.hopper.times.problems import Problem as Timed
from benchmarks.hopper.times.tensors import of_cache
from benchmarks.hopper.times.timing import Flush, measured
from fa4_cute.host.ask.described import described
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.specify import combine_spec
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.host.compile import cache
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.combine_spec import CombineSpec

ROUNDS: Final = 25
CHOSEN: Final = "chosen for all"
SPLITS: Final = (1, 2, 4, 8)
ALLOWED: Final = 2**-5
"""Largest difference of two elements of O: a few roundings of bfloat16."""


@dataclass(frozen=True)
class Mix:
    """A decoding step: one query a sequence over a paged cache.

    Attributes:
        name: as the page calls it. keys: of each sequence.
        heads, heads_kv, head_dim, page, dtype: as of ``times.problems.Problem``.
    """

    name: str
    keys: tuple[int, ...]
    heads: int = 32
    heads_kv: int = 8
    head_dim: int = 128
    page: int = 64
    dtype: str = "bf16"

    @property
    def room(self) -> int:
        """Keys that the page table has room for, of each sequence."""
        return -(-max(self.keys) // self.page) * self.page

    @property
    def bytes(self) -> int:
        """Of all keys and values."""
        return 2 * sum(self.keys) * self.heads_kv * self.head_dim * BYTES[self.timed.dtype]

    @property
    def timed(self) -> Timed:
        """The problem as tensors are made for it: of the longest sequence."""
        return Timed(
            "mix", len(self.keys), 1, self.room, self.heads, self.heads_kv, self.head_dim,
            self.head_dim, causal=True, dtype=self.dtype.partition("_")[0], page=self.page,
        )  # fmt: skip

    def problem(self, **options: Any) -> Problem:
        """Return the problem as the host sees it, with ``options`` of the call."""
        return described(
            dtype=self.dtype, batch=len(self.keys), seqlen_k=self.room, heads_q=self.heads,
            heads_k=self.heads_kv, head_dim=self.head_dim, causal=True, arch=SM90A, used_k=True,
            page_size=self.page, **options,
        )  # fmt: skip


def lognormal(count: int, seed: int) -> tuple[int, ...]:
    """Return lengths of median 4,000, of which one in six is more than 2.5 times that."""
    numbers = random.Random(seed)
    drawn = (int(4000 * 2 ** numbers.gauss(0, 1.3)) for _ in range(count))
    return tuple(min(65536, max(64, length)) for length in drawn)


def log_uniform(count: int, seed: int, low: int = 512, high: int = 32768) -> tuple[int, ...]:
    """Return lengths from ``low`` to ``high`` whose logarithms are uniform."""
    numbers = random.Random(seed)
    return tuple(int(2 ** numbers.uniform(log2(low), log2(high))) for _ in range(count))


MIXES: Final = (
    *(Mix(f"{n} lognormal", lognormal(n, seed)) for seed, n in enumerate((8, 16, 32, 64, 128), 1)),
    *(Mix(f"one of 32,768 and {n} of 1,024", (1024,) * n + (32768,)) for n in (7, 31, 127)),
    *(Mix(f"{n} log-uniform", log_uniform(n, n)) for n in (32, 64, 128)),
    Mix("32 lognormal, fp8", lognormal(32, 3), dtype="fp8_e4m3"),
    Mix("64 lognormal, fp8", lognormal(64, 4), dtype="fp8_e4m3"),
    Mix("32 lognormal, 64 columns", lognormal(32, 3), head_dim=64),
    Mix("32 lognormal, 256 columns, 16/4 heads", lognormal(32, 3), 16, 4, 256),
    Mix("32 lognormal, 16/2 heads", lognormal(32, 3), 16, 2),
    Mix("32 lognormal, 32/32 heads", lognormal(32, 3), 32, 32),
    Mix("32 log-uniform from 128 to 2,048", log_uniform(32, 12, 128, 2048)),
    Mix("64 lognormal, 80 columns, 32/32 heads", lognormal(64, 4), 32, 32, 80),
    Mix("64 lognormal, 96 columns", lognormal(64, 4), head_dim=96),
    Mix("64 lognormal, fp8, 64 columns, 64/8 heads", lognormal(64, 4), 64, 8, 64,
        dtype="fp8_e4m3"),
    *(Mix(f"{n} of {keys:,}, alike", (keys,) * n)
      for n, keys in ((64, 4096), (16, 16384), (4, 65536), (8, 2048), (256, 1024))),
    Mix("16 of 16,384, alike, pages of 16", (16384,) * 16, page=16),
    Mix("64 of 4,096, alike, fp8", (4096,) * 64, dtype="fp8_e4m3"),
)  # fmt: skip
TRIALS: Final[dict[str, dict[str, Any]]] = {
    CHOSEN: {"scheduler": "tile"},
    "stream-K": {"scheduler": "stream_k"},
    **{f"{n} splits": {"num_splits": n} for n in SPLITS},
}
"""Options of the calls, by name."""


def chosen(mix: Mix) -> Iterator[tuple[str, Choice, CombineSpec]]:
    """Yield each call's name, its kernel, and what combines its splits, if there are any."""
    for name, options in TRIALS.items():
        problem = mix.problem(**options)
        yield name, require(choose(problem)), combine_spec(problem)


def calls_of(mix: Mix) -> dict[str, Callable[[], torch.Tensor]]:
    """Return the calls on tensors of the mix, whose pages lie in random order."""
    given = of_cache(mix.timed, mix.keys, "cuda")
    step = partial(
        fa4_cute.flash_attn, given["q"], given["k"], given["v"], causal=True, unchecked=True,
        page_table=given["table"], seqused_k=given["lengths"],
    )  # fmt: skip
    return {name: partial(step, **options) for name, options in TRIALS.items()}


def line(mix: Mix, flush: Flush) -> str:
    """Return microseconds of each call, the ratio, and GB/s of stream-K; or what is wrong."""
    calls = calls_of(mix)
    results = {name: call().float() for name, call in calls.items()}
    distance = max(float((x - results[CHOSEN]).abs().max()) for x in results.values())
    if not distance <= ALLOWED:
        return f"{mix.name} | results differ by {distance:.3g}"
    times, _ = measured(calls, ROUNDS, flush)
    found = {name: of.median * 1e3 for name, of in times.items()}
    rate = mix.bytes / found["stream-K"] / 1e3
    told = " | ".join(f"{time:.1f}" for time in found.values())
    return f"{mix.name} | {told} | {found['stream-K'] / found[CHOSEN]:.3f} | {rate:.0f}"


def main(command: str) -> None:
    """Compile, or run and print a line per mix."""
    if command == "compile":
        count = compile_all(chain.from_iterable(map(chosen, MIXES)))
        print(f"{count} kernels are in {cache.cache_info().directory}")
        return
    flush = Flush(cold=True)
    print(torch.cuda.get_device_name(), *TRIALS, "ratio", "GB/s", sep=" | ")
    for mix in MIXES:
        print(line(mix, flush), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

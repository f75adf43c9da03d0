"""Calls of the Hopper kernel that a GPU of compute capability 9.0 answers, against float64.

    python -m testing.hardware.sm90_sweep compile    on a machine with CuTe DSL: fills the cache
    python -m testing.hardware.sm90_sweep run        on the GPU, which needs no DSL

Both use the directory of ``FA4_CUTE_CACHE_DIR``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Final

import torch

import fa4_cute
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.request import Request, request
from fa4_cute.host.choose.specify import combine_spec
from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.compile import cache
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.combine_spec import CombineSpec
from fa4_cute.plan.spec.variant import Partition
from fa4_cute.score_mods import ScoreModifier
from testing.arguments import Arguments, arguments
from testing.cases import CUT, FP8, FP16, Case, dense
from testing.reference.attention import Comparison, compare
from testing.reference.fp8 import HOPPER_SUM_BITS, compare_fp8


def hopper(*sizes: int, **more: Any) -> Case:
    """Return a dense case of the Hopper kernel; arguments as of ``testing.cases.dense``."""
    return dense(*sizes, **{"num_qo": None, **more})


def featured(features: str, head_dim: int, **more: Any) -> Case:
    """Return a case with ``features``, separated by spaces."""
    made = Case(frozenset(features.split()), head_dim, lengths=((300, 700),) * 2)
    return replace(made, **more)


SEQUENCES: Final = ((300, 700), (3, 133), (0, 20), (500, 17), (1000, 2000))
"""More than one CTA, fewer keys than queries, and no query at all."""
STEPS: Final = ((1, 20000), (1, 9001), (3, 133), (0, 20), (9, 4000))
"""Steps of decoding, whose keys are split where the call leaves it open."""
LONG: Final = ((1, 9000), (1, 70), (1, 2100), (1, 5))
MANY: Final = tuple((1, 1 + 37 * n % 900) for n in range(1100))
CASES: Final = (
    *(hopper(300, 700, d, 2, 1, causal=bool(d % 16)) for d in range(8, 257, 24)),
    *(hopper(513, 1000, d, 3, 3, batch=2) for d in (64, 96, 128, 192, 256)),
    *(hopper(700, 900, d, 8, 2, batch=2, causal=True, dtype=FP16) for d in (64, 128, 192, 256)),
    *(hopper(513, 1000, d, 4, 2, batch=2, causal=True, head_dim_v=v)
      for d, v in ((192, 128), (128, 64), (256, 128), (72, 40))),
    hopper(1, 1000, 128, 16, 2, batch=3, causal=True),
    hopper(1000, 1, 128, causal=True),
    hopper(500, 77, 128, causal=True),
    hopper(100, 600, 128, softmax_scale=-0.3),
    hopper(100, 600, 64, softmax_scale=0.0, causal=True),
    hopper(200, 900, 128, growth=0.01, causal=True),
    hopper(2048, 4096, 128, 4, 4, causal=True),
    *(
        featured(features, d)
        for features in ("window", "window sink", "chunked", "union", "bias causal", "softcap",
                         "padding causal", "sink softcap causal")
        for d in (64, 128, 256)
    ),
    *(
        featured(features, d, lengths=STEPS, heads=8)
        for features in ("page16 causal sink", "page64 ragged", "ragged cache window sink",
                         "cache bias", "split page128 causal", "persistent page32 causal")
        for d in (64, 128, 192, 256)
    ),
    *(hopper(1, 65536, d, 8, 2, num_splits=None) for d in (64, 128, 256)),
    hopper(1, 4096, 128, 28, 4, batch=4, num_splits=None),
    hopper(200, 20000, 128, 8, 2, causal=True, num_splits=None),
    hopper(700, 3000, 96, 2, 2, num_qo=1, causal=True),
    *(
        featured(features, d, lengths=SEQUENCES)
        for features in ("ragged causal sink", "ragged cache", "page16 ragged causal",
                         "page64 window", "page256 ragged split", "split causal sink",
                         "persistent causal", "persistent ragged page32 causal",
                         "persistent split bias")
        for d in (64, 128, 192, 256)
    ),
    *(
        featured(features, 192, head_dim_v=128, lengths=SEQUENCES)
        for features in ("ragged causal sink", "page64 window", "persistent split bias")
    ),
    *(featured(f"persistent {features}", 96, lengths=((700, 900),) * 2, heads=6)
      for features in ("", "causal", "window sink")),
    *(hopper(400, 400, d, 6, 2, batch=2, causal=True) for d in (64, 96)),
    # Persistent CTAs that take several query tiles, in sections of heads.
    featured("persistent causal", 64, lengths=((300, 500),) * 2, heads=80),
    hopper(600, 2100, 128, 66, 66, causal=True),
    hopper(300, 2100, 128, 67, 67),
    *(hopper(513, 1000, d, 4, 2, batch=2, causal=True, dtype=FP8) for d in (16, 64, 80, 128)),
    hopper(300, 9000, 128, dtype=FP8),
    hopper(513, 1000, 192, 4, 2, causal=True, dtype=FP8, head_dim_v=128),
    *(
        featured(f"fp8 {features}", d, lengths=SEQUENCES, dtype=FP8)
        for features in ("ragged causal sink", "ragged cache window", "page64 union softcap",
                         "persistent page16 split")
        for d in (64, 128)
    ),
    *(hopper(513, 1000, d, 4, 2, batch=2, causal=True, dtype=FP8) for d in (144, 192, 208, 256)),
    *(hopper(257, 1100, 256, 4, 2, causal=True, dtype=FP8, head_dim_v=v) for v in (144, 192, 240)),
    hopper(300, 9000, 256, dtype=FP8),
    hopper(300, 2000, 256, 2, 2, causal=True, dtype=FP8, growth=0.01),
    *(
        featured(features, d, lengths=SEQUENCES, dtype=FP8)
        for features in ("fp8 ragged causal sink", "fp8 page64 union softcap", "fp8 bias causal",
                         "fp8 persistent page16 split", "tokens ragged cache window",
                         "tokens persistent split softcap", "tokens union bias function")
        for d in (192, 256)
    ),
    *(
        featured(features, d, lengths=STEPS, heads=8, dtype=FP8)
        for features in ("fp8 page16 causal sink", "tokens ragged cache window")
        for d in (192, 256)
    ),
    # fp8 tiles of many keys, where S follows P V: maxima that grow, packed heads, split keys.
    *(hopper(513, 2300, d, 4, 2, batch=2, causal=True, dtype=FP8, head_dim_v=v)
      for d, v in ((64, 0), (80, 0), (128, 0), (192, 128))),
    *(hopper(400, 2101, d, 2, 2, dtype=FP8, head_dim_v=v, growth=0.005)
      for d, v in ((64, 0), (96, 0), (128, 0), (192, 128))),
    *(featured(f"fp8 {features}", d, lengths=((1000, 2500), (3, 133), (300, 2100)), dtype=FP8)
      for features in ("ragged causal sink", "split sink") for d in (64, 96, 128)),
    hopper(1500, 1500, 128, 40, 8, causal=True, dtype=FP8),
    hopper(2500, 2500, 128, 40, 8, causal=True, dtype=FP8),
    *(hopper(600, 600, 64, 67, 67, causal=causal, dtype=FP8) for causal in (False, True)),
    # The last block of 208 columns has fewer; few rows beside 192; what spilled once.
    featured("tokens union", 208, lengths=SEQUENCES, dtype=FP8),
    featured("fp8 ragged union", 192, lengths=STEPS, heads=8, dtype=FP8),
    featured("fp8 page16 union function", 256, lengths=STEPS, heads=8, dtype=FP8),
    *(featured(f"tokens persistent split {features} function", d, lengths=SEQUENCES, dtype=FP8)
      for features, d in (("union", 192), ("union", 256), ("bias causal", 256))),
    *(
        featured(f"tokens {features}", d, lengths=SEQUENCES, dtype=FP8)
        for features in ("ragged causal", "page64 window", "persistent split softcap")
        for d in (64, 128)
    ),
    # What spilled, or waited for every product, before tiles had as few keys or columns.
    featured("persistent page16 ragged split union sink", 192, lengths=SEQUENCES),
    featured("tokens split bias causal", 128, lengths=((300, 9000),) * 2, dtype=FP8),
    *(
        featured(features, d, head_dim_v=v, lengths=SEQUENCES, dtype=FP8)
        for features, depths in (
            ("fp8 persistent page16 ragged split union sink", ((128, 0), (192, 128))),
            ("tokens persistent page256 ragged union function sink", ((128, 0), (192, 128))),
            ("tokens split union bias", ((192, 128),)),
            ("tokens persistent split union bias", ((128, 0), (192, 128), (192, 0))),
            ("tokens persistent split union function", ((128, 0), (192, 128))),
            ("tokens persistent split bias causal", ((128, 0),)),
            ("fp8 persistent split union bias function", ((192, 0), (256, 0))),
            ("tokens split bias causal function sink", ((256, 0),)),
        )
        for d, v in depths
    ),
    # Stream-K: query tiles that several CTAs have parts of; more sequences than lanes look at.
    *(
        featured(f"stream_k {features}", d, lengths=CUT, heads=8)
        for features in ("page64 ragged causal sink", "union page16 ragged", "window ragged")
        for d in (64, 128, 256)
    ),
    *(
        featured(f"stream_k {features}", d, lengths=LONG, heads=8)
        for features in ("cache causal", "padding cache sink", "bias cache causal")
        for d in (64, 128, 256)
    ),
    *(
        featured(f"stream_k {features}", d, lengths=CUT, heads=8, dtype=FP8)
        for features in ("fp8 page64 ragged causal", "tokens page16 ragged window",
                         "tokens union ragged cache")
        for d in (64, 128, 256)
    ),
    featured("stream_k page64 ragged causal", 192, lengths=CUT, heads=8, head_dim_v=128),
    featured("stream_k page64 causal", 128, lengths=MANY, heads=8),
    *(
        featured(f"{features} function sink split", d, lengths=STEPS, heads=8, dtype=FP8)
        for features in ("fp8 bias causal", "tokens bias causal")
        for d in (192, 256)
    ),
)  # fmt: skip
"""Every feature of the kernel, and shapes with ragged ends; what a call names depends on these."""


AGAIN: Final = hopper(700, 900, 128, 8, 2, batch=2, causal=True)
"""A call whose bits have to be the same every time."""


def asked_for(case: Case) -> Request:
    """Return what the sweep asks for: O and LSE of ``case`` on Hopper."""
    given = arguments(case, arch=SM90A)
    return request(given.inputs, *options_and_batch({**given.options, "return_lse": True}))


def kernel_of(asked: Request) -> AttentionSpec:
    """Return the attention kernel that is chosen."""
    spec: AttentionSpec = require(choose(asked.problem)).spec
    return spec


def compile_all() -> int:
    """Compile the kernels of all cases, and plain causal ones; return how many cases there are."""
    found: set[AttentionSpec | CombineSpec] = set()
    for case in (*CASES, AGAIN):
        asked = asked_for(case)
        spec = kernel_of(asked)
        found.add(spec)
        if spec.variant.partition is Partition.WORKSPACE:
            found.add(combine_spec(asked.problem))
    fa4_cute.warmup([{"head_dim": d, "causal": True, "arch": SM90A} for d in (64, 128, 256)])
    return len({cache.compiled(spec).kernel_name for spec in found})


def on_gpu(value: Any) -> Any:
    """Return an argument on the GPU, tensors inside of masks and modifiers included."""
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, ScoreModifier):
        moved = (replace(s, tensors=tuple(x.cuda() for x in s.tensors)) for s in value.steps)
        return replace(value, steps=tuple(moved))
    if isinstance(value, fa4_cute.masks.AttentionMask):
        lengths, biases = (tuple(x.cuda() for x in of) for of in (value.lengths, value.biases))
        return replace(value, lengths=lengths, biases=biases)
    return value


def called(given: Arguments, **more: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and LSE of a call where its tensors are; ``more`` are options of the call."""
    ragged = "cu_seqlens_q" in given.options
    call = fa4_cute.flash_attn_varlen if ragged else fa4_cute.flash_attn
    out, lse = call(*given.inputs, **{**given.options, "return_lse": True, **more})
    return out, lse


def computed(given: Arguments) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and LSE of a call on the GPU, on the cpu."""
    options = {name: on_gpu(value) for name, value in given.options.items()}
    q, k, v = (x.cuda() for x in given.inputs)
    out, lse = called(Arguments(q, k, v, options))
    return out.cpu(), lse.cpu()


def judged(case: Case) -> Comparison:
    """Run a case on the GPU; return how far it is from float64."""
    given = arguments(case)
    if case.is_fp8:
        found = computed(given)
        return compare_fp8(*found, given.inputs, sum_bits=HOPPER_SUM_BITS, **given.options)
    return compare(*computed(given), given.inputs, **given.options)


def main(command: str) -> int:
    """Compile, or run all cases and print them; the exit status is 1 when one is wrong."""
    if command == "compile":
        print(f"{compile_all()} kernels are in {cache.cache_info().directory}")
        return 0
    wrong = 0
    for case in CASES:
        found = judged(case)
        wrong += not found.ok
        print("ok   " if found.ok else "WRONG", case.name, found, flush=True)
    print(f"{len(CASES) - wrong} of {len(CASES)} right on {torch.cuda.get_device_name()}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

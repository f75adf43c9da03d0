"""Stream-K: parts of query tiles, wherever stretches begin and end, add up to the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.variant import Scheduler
from testing.arguments import arguments
from testing.cases import BF16, FP8, Case, Lengths
from testing.runner import call, check, checked, run, spec_of
from testing.watchers import ONE_RANDOM, check_schedules
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

MIXED: Lengths = ((3, 2300), (1, 130), (0, 20), (4, 1000), (2, 0), (3, 3), (1, 513))
"""Cut once or twice, whole, without a query, without a key."""
LONG: Lengths = ((1, 5000), (1, 70), (1, 200))
"""One query tile has several stretches for itself."""
MANY: Lengths = tuple((1, 40 + 9 * (n % 30)) for n in range(70))
"""More sequences than a warp has lanes: a lane adds up three."""
HOPPER: dict[str, Any] = {"arch": SM90A}


def streamed(features: str, head_dim: int = 128, lengths: Lengths = MIXED, **more: Any) -> Case:
    given: dict[str, Any] = {"heads": 8, "kv_heads": 2, "dtype": BF16, **more}
    return Case(frozenset({"stream_k", *features.split()}), head_dim, lengths=lengths, **given)


CASES = (
    streamed("page64 causal ragged sink"),
    streamed("cache causal", lengths=((1, 2300), (1, 130), (1, 0), (1, 1000))),
    streamed("page16 ragged causal", lengths=MANY, kv_heads=4, heads=4),
    streamed("fp8 page64 ragged causal", lengths=LONG, head_dim=64),
    streamed("page64 ragged causal", **HOPPER),
    streamed("cache causal sink", 64, lengths=LONG, **HOPPER),
)
MORE = (
    streamed("ragged causal"),
    streamed("page256 ragged window", 96),
    streamed("union page16 ragged sink", 64),
    streamed("bias cache causal", lengths=LONG),
    streamed("function page64 ragged", 192),
    streamed("padding cache", lengths=LONG, heads=3, kv_heads=3),
    streamed("tokens page16 ragged causal", dtype=FP8),
    streamed("page64 ragged causal", 192, head_dim_v=128),
    streamed("fp8 cache causal", 192, lengths=LONG, head_dim_v=128, rope=BF16, dtype=FP8),
    streamed("causal page64 ragged", heads=6, kv_heads=2),
    streamed("page16 ragged causal", lengths=MANY, **HOPPER),
    streamed("page64 ragged window sink", 256, **HOPPER),
    streamed("fp8 page64 ragged causal", lengths=LONG, **HOPPER),
    streamed("tokens page16 ragged union", 64, dtype=FP8, **HOPPER),
    streamed("ragged causal", 192, head_dim_v=128, heads=4, kv_heads=4, **HOPPER),
)


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_output_and_lse(case: Case) -> None:
    assert spec_of(case).variant.scheduler is Scheduler.STREAM_K
    check(case)


@pytest.mark.parametrize(
    "case", [streamed("page64 ragged causal"), *also(*CASES[1:], MORE[6])], ids=str
)
def test_clean_and_the_same_in_every_schedule(case: Case) -> None:
    """Who is last of a query tile changes no bit."""
    check_schedules(arguments(case), schedules=({"mode": "late"}, ONE_RANDOM))


def test_two_heads_end_at_once() -> None:
    """CTAs have the end of one query tile and the begin of the next, each with its own memory."""
    case = streamed("cache causal", 64, lengths=((1, 2300), (1, 2200)), heads=4, kv_heads=4)
    schedules = tuple({"mode": "random", "seed": seed} for seed in range(4))
    check_schedules(arguments(case), schedules=({"mode": "late"}, *schedules), num_sms=7)


@pytest.mark.parametrize("case", [CASES[0], *also(*CASES[3:])], ids=str)
def test_a_cta_alone_computes_the_bits_of_whole_keys(case: Case) -> None:
    whole = replace(case, features=case.features - {"stream_k"}, num_splits=1, num_qo=1)
    alone = checked(call(arguments(case), num_sms=1))
    if case.arch is None:
        assert all(map(torch.equal, alone.results, run(whole).results))


@pytest.mark.parametrize("num_sms", [2, *also(1, 5, 40)])
def test_any_number_of_sms(num_sms: int) -> None:
    checked(call(arguments(streamed("cache causal sink", 64, lengths=LONG)), num_sms=num_sms))


@pytest.mark.parametrize("count", [32, 33, *also(31, 64, 1024, 1025, 1100)])
def test_any_number_of_sequences(count: int) -> None:
    """Up to 32 take one look, up to 1,024 two, and more a walk through those of a lane."""
    lengths = torch.tensor([1 + 37 * n % 200 for n in range(count)], dtype=torch.int32)
    keys, values = (torch.randn(200, 1, 64, dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn(count, 1, 1, 64, dtype=torch.bfloat16)
    k, v = (x.expand(count, -1, -1, -1).contiguous() for x in (keys, values))
    found = fa4_cute.flash_attn(q, k, v, seqused_k=lengths, scheduler="stream_k")
    other = fa4_cute.flash_attn(q, k, v, seqused_k=lengths, scheduler="tile", num_splits=1)
    assert (found.float() - other.float()).abs().max() < 2**-7


def test_calls_of_other_lengths_take_the_same_kernel() -> None:
    """A repeated call, and one of a longer cache: workspaces and counters are those of each."""
    generator = torch.Generator().manual_seed(3)
    for room, lengths in ((2100, [2100, 5]), (2100, [7, 2000]), (2600, [2600, 300])):
        q, k, v = (
            torch.randn(2, n, 2, 64, generator=generator).bfloat16() for n in (1, room, room)
        )
        used = torch.tensor(lengths, dtype=torch.int32)
        out = fa4_cute.flash_attn(q, k, v, seqused_k=used)
        other = fa4_cute.flash_attn(q, k, v, seqused_k=used, num_splits=1)
        assert (out.float() - other.float()).abs().max() < 2**-7

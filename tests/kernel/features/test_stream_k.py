"""Stream-K: parts of query tiles, wherever stretches begin and end, add up to the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

import fa4_cute
from fa4_cute.host.run import operands
from fa4_cute.host.run.counters import Counters
from fa4_cute.plan.facts.hardware import SM90A, are_whole_cache_lines
from fa4_cute.plan.launch.launch import row_bytes
from fa4_cute.plan.launch.stream_k import (
    TileInLine,
    num_lines_of,
    num_parts_of,
    tiles_of_lengths,
)
from fa4_cute.plan.spec.variant import Scheduler
from testing.arguments import arguments
from testing.cases import BF16, CUT, FP8, Case, Lengths
from testing.runner import call, check, checked, run, spec_of
from testing.watchers import ONE_RANDOM, check_schedules
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

LONG: Lengths = ((1, 5000), (1, 70), (1, 200))
"""One query tile has several stretches for itself."""
MANY: Lengths = tuple((1, 40 + 9 * (n % 30)) for n in range(70))
"""More sequences than a warp has lanes: a lane adds up three."""
HOPPER: dict[str, Any] = {"arch": SM90A}
WIDE: Lengths = ((100, 2300), (1, 70), (0, 20), (65, 0), (70, 300))
WIDER: Lengths = ((200, 2300), (1, 70), (0, 20), (129, 0), (140, 300))
"""Without packed heads: rows of both CTAs of a pair, of the first alone, and of none."""


def streamed(features: str, head_dim: int = 128, lengths: Lengths = CUT, **more: Any) -> Case:
    given: dict[str, Any] = {"heads": 8, "kv_heads": 2, "dtype": BF16, **more}
    return Case(frozenset({"stream_k", *features.split()}), head_dim, lengths=lengths, **given)


CASES = (
    streamed("page64 causal ragged sink"),
    streamed("cache causal", lengths=((1, 2300), (1, 130), (1, 0), (1, 1000))),
    streamed("page16 ragged causal", lengths=MANY, kv_heads=4, heads=4),
    streamed("fp8 page64 ragged causal", lengths=LONG, head_dim=64),
    streamed("page64 ragged causal", **HOPPER),
    streamed("cache causal sink", 64, lengths=LONG, **HOPPER),
    streamed("page64 ragged causal sink", 256),
    streamed("cache causal", 512, lengths=((1, 4300), (1, 130), (1, 0), (1, 1))),
    streamed("fp8 page64 ragged causal", 512, lengths=LONG),
    streamed("ragged causal sink", 512, lengths=WIDE, heads=2, kv_heads=2),
)
PAIRS = CASES[-4:]
LINED = (
    streamed("page64 ragged causal sink", 96, kv_heads=8),
    streamed("cache causal", 80, lengths=LONG, kv_heads=4, **HOPPER),
    streamed("fp8 page16 ragged causal", 64, lengths=LONG, kv_heads=4, dtype=FP8),
)
"""Heads share lines of the L2, and so there are several lines, some of several heads."""
LINED_MORE = (
    streamed("page64 ragged causal sink", 200, kv_heads=8),
    streamed("page16 ragged causal", 72, lengths=MANY, heads=6, kv_heads=6),
    streamed("fp8 page64 ragged causal", 64, lengths=MANY, kv_heads=4, dtype=FP8, **HOPPER),
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
    streamed("ragged causal", 256, lengths=WIDER, heads=1, kv_heads=1),
    streamed("page16 ragged causal", 256, lengths=MANY, kv_heads=4, heads=4),
    streamed("union page16 ragged sink", 256),
    streamed("bias cache causal", 512, lengths=LONG),
    streamed("function page64 ragged", 320),
    streamed("padding cache window", 256, lengths=LONG, heads=3, kv_heads=3),
    streamed("fp8 page256 ragged window", 256, lengths=LONG),
    streamed("tokens page16 ragged causal", 256, dtype=FP8),
    streamed("tokens page64 ragged union", 512, dtype=FP8, lengths=LONG),
    streamed("page16 ragged causal sink", 512, heads=6, kv_heads=2),
)


ONE_COPY = [replace(case, num_qo=1) for case in CASES[:4]]
"""Asked for, one Q tile has each row once; else its lanes hold copies of so few."""


@pytest.mark.parametrize("case", [*CASES, ONE_COPY[0], *also(*MORE, *ONE_COPY[1:])], ids=str)
def test_output_and_lse(case: Case) -> None:
    assert spec_of(case).variant.scheduler is Scheduler.STREAM_K
    check(case)


@pytest.mark.parametrize("case", [*LINED, *also(*LINED_MORE)], ids=str)
@pytest.mark.parametrize("num_sms", [8, *also(4, 24, 148)])
def test_several_lines(case: Case, num_sms: int) -> None:
    """A CTA takes parts of query tiles of neighbouring heads of its line only."""
    spec, heads = spec_of(case), case.kv_heads
    checked(call(arguments(case), num_sms=num_sms))
    assert not are_whole_cache_lines(row_bytes(spec))
    at_once = num_sms * spec.schedule.ctas_per_sm // spec.config.cta_group()
    assert num_lines_of(heads, at_once) > 1


@pytest.mark.parametrize(
    "case",
    [streamed("page64 ragged causal"), PAIRS[0], *also(*ONE_COPY, *CASES[1:], MORE[6])],
    ids=str,
)
def test_clean_and_the_same_in_every_schedule(case: Case) -> None:
    """Who is last of a query tile changes no bit."""
    check_schedules(arguments(case), schedules=({"mode": "late"}, ONE_RANDOM))


def test_two_heads_end_at_once() -> None:
    """CTAs have the end of one query tile and the begin of the next, each with its own memory."""
    case = streamed("cache causal", 64, lengths=((1, 2300), (1, 2200)), heads=4, kv_heads=4)
    schedules = tuple({"mode": "random", "seed": seed} for seed in range(4))
    check_schedules(arguments(case), schedules=({"mode": "late"}, *schedules), num_sms=7)


@pytest.mark.parametrize("head_dim", [512, *also(256)])
def test_two_heads_end_at_once_in_pairs(head_dim: int) -> None:
    lengths = ((1, 2300), (1, 2200)) if head_dim == 256 else ((1, 4500), (1, 4300))
    case = streamed("cache causal", head_dim, lengths=lengths, heads=4, kv_heads=4)
    schedules = tuple({"mode": "random", "seed": seed} for seed in range(2))
    check_schedules(arguments(case), schedules=({"mode": "late"}, *schedules), num_sms=14)


HEADS = streamed("causal", 64, lengths=((3, 2300),), heads=2)
"""Two query tiles of 18 key tiles, of both of which the CTA in the middle has a part."""


def counted_wrong(case: Case, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O by ``count`` counters, which are 0 again then, and O where number 1 begins at 1."""
    memory = torch.zeros(count, dtype=torch.int32)
    given, counters = arguments(case), Counters(memory.data_ptr(), count, memory)
    with mock.patch.object(operands, "counters_on", return_value=counters):
        first = call(given).out
        assert not memory.any()
        memory[1] += 1
        return first, call(given).out


def test_each_query_tile_has_a_counter() -> None:
    """Where one counts on from a wrong number, its query tile is written too soon or not at all."""
    first, again = counted_wrong(HEADS, 2)
    assert torch.equal(first[:, :, 0], again[:, :, 0])
    assert not torch.equal(first[:, :, 1], again[:, :, 1])


def test_each_cta_of_a_pair_has_a_counter() -> None:
    """One that counts on from a wrong number leaves out its own rows: those of the second CTA."""
    case = streamed("causal", 256, lengths=((200, 2300),), heads=2, kv_heads=2)
    first, again = counted_wrong(case, 4)
    assert torch.equal(first[:, :128], again[:, :128])
    assert torch.equal(first[:, :, 1], again[:, :, 1])
    assert not torch.equal(first[:, 128:, 0], again[:, 128:, 0])


@contextmanager
def partial_results() -> Iterator[list[torch.Tensor]]:
    """Yield what is to hold O and log-sum-exps of the parts of a call."""
    made: list[torch.Tensor] = []
    new_partial = operands.new_partial

    def kept(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        made.extend(new_partial(*given))
        return made[0], made[1]

    with mock.patch.object(operands, "new_partial", kept):
        yield made


def written(made: list[torch.Tensor]) -> list[int]:
    """Return the numbers of the parts that were written."""
    return [int(n) for n in made[1].isfinite().any(dim=1).nonzero().flatten()]


def test_each_part_has_memory_of_its_own() -> None:
    """Also what a CTA has of the end of a query tile and of the begin of the next one."""
    with partial_results() as made:
        checked(call(arguments(HEADS)))
    # CTAs 0 and 1 have parts of the first, 1 and 2 of the second.
    assert written(made) == [0 + 0, 1 + 0, 1 + 1, 2 + 1]


@pytest.mark.parametrize("case", [CASES[0], PAIRS[0], *also(*CASES[3:], *ONE_COPY)], ids=str)
def test_a_cta_alone_computes_the_bits_of_whole_keys(case: Case) -> None:
    whole = replace(case, features=case.features - {"stream_k"}, num_splits=1)
    alone = checked(call(arguments(case), num_sms=1))
    if case.arch is None:
        assert all(map(torch.equal, alone.results, run(whole).results))


@pytest.mark.parametrize("count", [4, 34, *also(32, 70)])
def test_sequences_that_are_alike_are_not_cut(count: int) -> None:
    """Three CTAs, of which one has fewer query tiles than the others."""
    case = streamed("cache causal", 64, lengths=((1, 520),) * count)
    whole = replace(case, features=case.features - {"stream_k"}, num_splits=1)
    alike = checked(call(arguments(case), num_sms=3))
    assert all(map(torch.equal, alike.results, run(whole).results))


def parts_of_cut(tiles: Sequence[TileInLine], num_ctas: int) -> set[int]:
    """Return the numbers of the parts, in their line, of query tiles that several CTAs share."""
    return {
        cta + n
        for n, tile in enumerate(tiles)
        for cta in range(num_ctas)
        if 0 <= (part := tile.part(cta)).index < part.num_parts > 1
    }


@pytest.mark.parametrize("count", [8, 70, *also(32, 33)])
@pytest.mark.parametrize("other", [0, 6, -1])
def test_one_sequence_that_differs_is_found(count: int, other: int) -> None:
    """Parts are those of the plan, where a stretch of whole query tiles would have none."""
    lengths = [520] * count
    lengths[other] = 900
    case = streamed("cache causal", 64, lengths=tuple((1, keys) for keys in lengths), kv_heads=1)
    spec, num_ctas = spec_of(case), 5
    with partial_results() as made:
        checked(call(arguments(case), num_sms=num_ctas))
    tiles = tiles_of_lengths(lengths, 1, spec.config.BN, num_ctas, spec.start_tiles)
    expected = parts_of_cut(tiles, num_ctas)
    assert expected
    assert set(written(made)) == expected


def test_parts_of_every_line_have_memory_of_their_own() -> None:
    """Lines of two heads each, of four; in both the same query tiles are cut."""
    lengths, num_lines, stretches = [900, 520, 300], 2, 3
    keys = tuple((1, count) for count in lengths)
    case = streamed("cache causal", 96, lengths=keys, heads=4, kv_heads=4)
    spec, num_ctas = spec_of(case), num_lines * stretches
    assert num_lines_of(4, num_ctas) == num_lines
    with partial_results() as made:
        checked(call(arguments(case), num_sms=num_ctas))
    tiles = tiles_of_lengths(lengths, 2, spec.config.BN, stretches, spec.start_tiles)
    of_line = parts_of_cut(tiles, stretches)
    assert of_line
    behind = num_parts_of(len(tiles), stretches)
    assert set(written(made)) == of_line | {behind + part for part in of_line}


@pytest.mark.parametrize("num_sms", [2, *also(1, 5, 40)])
@pytest.mark.parametrize("head_dim", [64, *also(256, 512)])
def test_any_number_of_sms(num_sms: int, head_dim: int) -> None:
    case = streamed("cache causal sink", head_dim, lengths=LONG)
    checked(call(arguments(case), num_sms=num_sms))


@pytest.mark.parametrize(
    ("count", "head_dim"),
    [(32, 64), (33, 64), *also((31, 64), (64, 64), (1024, 64), (1025, 64), (1100, 64), (70, 256))],
)
def test_any_number_of_sequences(count: int, head_dim: int) -> None:
    """Up to 32 take one look, up to 1,024 two, and more a walk through those of a lane."""
    lengths = torch.tensor([1 + 37 * n % 200 for n in range(count)], dtype=torch.int32)
    keys, values = (torch.randn(200, 1, head_dim, dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn(count, 1, 1, head_dim, dtype=torch.bfloat16)
    k, v = (x.expand(count, -1, -1, -1).contiguous() for x in (keys, values))
    found = fa4_cute.flash_attn(q, k, v, seqused_k=lengths, scheduler="stream_k")
    other = fa4_cute.flash_attn(q, k, v, seqused_k=lengths, scheduler="tile", num_splits=1)
    assert (found.float() - other.float()).abs().max() < 2**-7


@pytest.mark.parametrize("head_dim", [64, *also(512)])
def test_calls_of_other_lengths_take_the_same_kernel(head_dim: int) -> None:
    """A repeated call, and one of a longer cache: workspaces and counters are those of each."""
    generator = torch.Generator().manual_seed(3)
    for room, lengths in ((2100, [2100, 5]), (2100, [7, 2000]), (2600, [2600, 300])):
        q, k, v = (
            torch.randn(2, n, 2, head_dim, generator=generator).bfloat16()
            for n in (1, room, room)
        )
        used = torch.tensor(lengths, dtype=torch.int32)
        out = fa4_cute.flash_attn(q, k, v, seqused_k=used, scheduler="stream_k")
        other = fa4_cute.flash_attn(q, k, v, seqused_k=used, num_splits=1)
        assert (out.float() - other.float()).abs().max() < 2**-7

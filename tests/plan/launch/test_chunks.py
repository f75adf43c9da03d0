"""Causal chunks of prompts over pages: who takes their query tiles, by predicted cycles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import choose, require
from fa4_cute.plan.config.prediction import ChunkRow, Costs
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.chunks import are_handed_out, is_in_chunks, row_of_chunks
from fa4_cute.plan.launch.sm100_selection import SchedulerChoice
from fa4_cute.plan.launch.tiles import AttentionSizes, TileShape
from fa4_cute.plan.masks.masks import CAUSAL, SlidingWindowMask
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler, Variant

CHUNKS = Variant(CAUSAL, ragged_q=True, used_k=True, page_size=64)
ROW = ChunkRow("2q", 2, 128, 128, Costs(0, 9000, 1000), Costs(5000, 7000, 1100), (3000, 2000))


def test_they_are_handed_out_where_no_query_tile_with_rows_costs_more() -> None:
    assert are_handed_out(ROW, 1024 * 19, 8, 100)
    assert not are_handed_out(ROW, 1024 * 20, 8, 0)
    dearer = ROW._replace(dynamic=Costs(5000, 9500, 900))
    assert not are_handed_out(dearer, 1024 * 20, 8, 0)


def test_empty_query_tiles_may_not_cost_what_the_others_gain() -> None:
    """Each of 1,024 keys gains 1,900 cycles, and an empty one takes 200 more."""
    row = ROW._replace(empty=(2000, 2200))
    assert are_handed_out(row, 1024, 10, 94)
    assert not are_handed_out(row, 1024, 10, 95)
    assert are_handed_out(row, 1024, 10, 0)
    assert not are_handed_out(row, 1024, 0, 1)


@pytest.mark.parametrize("total_q", [0, 16 * 2048, 16 * 2048 - 3000])
def test_query_tiles_that_have_rows_at_least(total_q: int) -> None:
    """Two heads of keys with four of queries each: tiles of 64 positions of 256 rows."""
    spec = KernelSpec.for_attention(DType.BF16, 128, num_qo=2, group=4, variant=CHUNKS)
    shape, sizes = TileShape.of(spec.config), AttentionSizes(16, 2048, 8192, 8, 2, total_q)
    queries = total_q or 16 * 2048
    assert sizes.full_query_tiles(shape) == 2 * -(-queries // shape.positions)
    assert sizes.full_query_tiles(shape) <= sizes.query_tiles(shape)


def test_many_empty_query_tiles_are_not_handed_out() -> None:
    """At 192/128 an empty one takes more: one long chunk beside many steps of decoding, whose
    queries are as few as there are sequences, and as many prompts of one length."""
    config = KernelSpec.for_attention(DType.BF16, 192, head_dim_v=128, num_qo=2, variant=CHUNKS)
    row = row_of_chunks(config)
    assert row is not None
    assert row.empty[1] > row.empty[0]
    most = row.tile.tile - row.dynamic.tile
    assert are_handed_out(row, 8192, 1, most // (row.empty[1] - row.empty[0]) - 2)
    assert not are_handed_out(row, 8192, 1, most // (row.empty[1] - row.empty[0]) + 1)


def test_a_kernel_has_a_row_by_its_element_type_and_head_dims() -> None:
    for dtype, dim, kernel in ((DType.BF16, 128, "2q"), (DType.FP8_E4M3, 96, "2q")):
        row = row_of_chunks(KernelSpec.for_attention(dtype, dim, num_qo=2, variant=CHUNKS))
        assert row is not None
        assert row[:3] == (kernel, dtype.size, dim)
    pair = row_of_chunks(Depth512Spec.for_attention(DType.FP16, 256, variant=CHUNKS))
    assert pair is not None
    assert pair[:3] == ("pair", 2, 256)
    for options in ({"num_qo": 1}, {"pair_cta": True}):
        spec = KernelSpec.for_attention(DType.BF16, 128, variant=CHUNKS, **options)
        assert row_of_chunks(spec) is None


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (CHUNKS, True),
        (Variant(CAUSAL, return_lse=True, ragged_q=True, used_k=True, page_size=16), True),
        (Variant(CAUSAL, ragged_q=True, used_k=True), False),
        (Variant(CAUSAL, used_k=True, page_size=64), False),
        (Variant(ragged_q=True, used_k=True, page_size=64), False),
        (Variant(SlidingWindowMask(9, 0), ragged_q=True, used_k=True, page_size=64), True),
        (Variant(SlidingWindowMask(9, 9), ragged_q=True, used_k=True, page_size=64), False),
        (Variant(CAUSAL, ragged_q=True, used_k=True, page_size=64, sink=True), False),
        (Variant(CAUSAL), False),
    ],
)
def test_which_kernels_these_are(variant: Variant, expected: bool) -> None:
    assert is_in_chunks(variant) is expected


ASKED = Features(ragged_q=True, used_k=True, page_size=64)
PROMPTS = Problem("bf16", 16, 2048, 8192, 32, 8, 128, 128, causal=True, features=ASKED)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dtype": "fp16"},
        {"return_lse": True},
        {"features": replace(ASKED, page_size=16)},
        {"num_q_heads": 8},
        {"head_dim": 64, "head_dim_v": 64},
        {"head_dim": 96, "head_dim_v": 96},
        {"head_dim": 192},
        {"head_dim": 256, "head_dim_v": 256},
        {"head_dim": 512, "head_dim_v": 512},
        {"dtype": "fp8_e4m3", "head_dim": 192, "seqlen_k": 65536},
    ],
)
def test_causal_chunks_over_pages_are_handed_out(changes: dict[str, Any]) -> None:
    found = require(choose(replace(PROMPTS, **changes)))
    assert found.scheduler == SchedulerChoice(Scheduler.DYNAMIC)
    assert found.spec.variant.scheduler is Scheduler.DYNAMIC
    assert found.spec.sequence_by_sequence


@pytest.mark.parametrize(
    "changes",
    [
        {"causal": False},
        {"batch": 1, "seqlen_q": 512},
        {"features": replace(ASKED, page_size=0)},
        {"features": replace(ASKED, ragged_q=False)},
        {"features": replace(ASKED, sink=True), "head_dim": 256, "head_dim_v": 256},
        {"features": replace(ASKED, num_splits=2)},
        {"features": replace(ASKED, scheduler=Scheduler.TILE)},
        {"pair_cta": True},
        {"num_qo": 1},
        {"seqlen_k": 0},
    ],
)
def test_other_query_tiles_over_pages_have_a_cta_each(changes: dict[str, Any]) -> None:
    found = require(choose(replace(PROMPTS, **changes)))
    assert (found.spec.variant.scheduler, found.scheduler) == (Scheduler.TILE, None)


def test_steps_of_decoding_over_pages_have_as_many_keys_a_cta() -> None:
    found = require(choose(replace(PROMPTS, seqlen_q=1)))
    assert found.spec.variant.scheduler is Scheduler.STREAM_K

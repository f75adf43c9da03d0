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
from fa4_cute.plan.masks.masks import CAUSAL, SlidingWindowMask
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler, Variant

CHUNKS = Variant(CAUSAL, ragged_q=True, used_k=True, page_size=64)
ROW = ChunkRow("2q", 2, 128, 128, Costs(0, 9000, 1000), Costs(5000, 7000, 1100), (3000, 2000))


def test_they_are_handed_out_where_no_query_tile_costs_more() -> None:
    assert are_handed_out(ROW, 1024 * 19)
    assert not are_handed_out(ROW, 1024 * 20)
    assert not are_handed_out(ROW._replace(empty=(2000, 2000)), 1024)
    dearer = ROW._replace(dynamic=Costs(5000, 9500, 900))
    assert not are_handed_out(dearer, 1024 * 20)


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
        (Variant(SlidingWindowMask(9, 0), ragged_q=True, used_k=True, page_size=64), False),
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
        {"head_dim": 192},
        {"head_dim": 256, "head_dim_v": 256},
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
        {"features": replace(ASKED, sink=True)},
        {"features": replace(ASKED, num_splits=2)},
        {"features": replace(ASKED, scheduler=Scheduler.TILE)},
        {"pair_cta": True},
        {"num_qo": 1},
        {"seqlen_k": 0},
        {"head_dim": 64, "head_dim_v": 64},  # a key costs more there
        {"seqlen_k": 32768},  # and so it does here, which as many keys show
    ],
)
def test_other_query_tiles_over_pages_have_a_cta_each(changes: dict[str, Any]) -> None:
    found = require(choose(replace(PROMPTS, **changes)))
    assert (found.spec.variant.scheduler, found.scheduler) == (Scheduler.TILE, None)


def test_steps_of_decoding_over_pages_have_as_many_keys_a_cta() -> None:
    found = require(choose(replace(PROMPTS, seqlen_q=1)))
    assert found.spec.variant.scheduler is Scheduler.STREAM_K

"""The compiled kernels meet at exactly the named barriers that the plan gives them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fa4_cute.plan.barriers.named import CONSUMER, EXCHANGE, NAMED_BARRIERS, TURN
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Partition, Variant
from testing.kernels import STREAM_K, few, few_of_pair
from testing.sass import compiled

BF16 = DType.BF16
HOPPER = SM90Spec.for_attention(BF16, 64, variant=Variant(used_k=True))
KINDS = {
    "2q": KernelSpec.for_attention(BF16, 128, causal=True, return_lse=True),
    # With head dim 64 the second warp group has no columns of O to store.
    "1q": KernelSpec.for_attention(BF16, 128, num_qo=1),
    "cluster": KernelSpec.for_attention(
        BF16, 128, variant=Variant(partition=Partition.CLUSTER, num_partitions=2)
    ),
    "last": KernelSpec.for_attention(BF16, 128, variant=Variant(partition=Partition.LAST)),
    "few": few(BF16, 128),
    "few cluster": few(BF16, 128, partition=Partition.CLUSTER, num_partitions=2),
    "few last": few(BF16, 128, partition=Partition.LAST),
    "pair_cta": KernelSpec.for_attention(BF16, 128, causal=True, return_lse=True, pair_cta=True),
    "depth512": Depth512Spec.for_attention(BF16, 512, return_lse=True),
    # A query tile is written by rows, or as partial results.
    "few depth512": few_of_pair(DType.FP8_E4M3, 256, ragged_q=True),
    "few depth512 stream-K": few_of_pair(DType.FP8_E4M3, 256, **STREAM_K),
    "sm90": replace(HOPPER, config=replace(HOPPER.config, in_turn=True)),
    "sm90 fp8": SM90Spec.for_attention(DType.FP8_E4M3, 64, variant=Variant(used_k=True)),
}


BY_REGISTER = {"depth512": (EXCHANGE,), "sm90": (CONSUMER, TURN), "sm90 fp8": (CONSUMER, TURN)}
"""Barriers whose number differs between warps."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_named_barriers_are_those_of_the_plan(kind: str) -> None:
    ptx = compiled(KINDS[kind]).ptx
    used = set(re.findall(r"bar\.sync\s+(%?\w+), (\d+);", ptx))
    by_register = BY_REGISTER.get(kind, ())
    elsewhere = {
        (str(number), str(barrier.threads)) for barrier in by_register for number in barrier.numbers
    }
    planned = {
        (str(number), str(barrier.threads))
        for barrier in NAMED_BARRIERS[kind]
        for number in barrier.numbers
    }
    threads = {count for number, count in used if number.startswith("%")}
    assert threads == {str(barrier.threads) for barrier in by_register}
    fixed = {pair for pair in used if not pair[0].startswith("%")}
    assert fixed - elsewhere == planned - elsewhere

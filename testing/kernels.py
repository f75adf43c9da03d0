"""A fixed list of kernels that covers both families and every feature that shapes code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch

from fa4_cute import score_mods
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    ChunkedMask,
    DenseBiasMask,
    PaddingMask,
    SlidingWindowMask,
)
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.combine_spec import CombineSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Partition, Scheduler, Variant

BF16, FP16, FP8 = DType.BF16, DType.FP16, DType.FP8_E4M3
BIAS: Final = DenseBiasMask(0)
UNION: Final = (
    ChunkedMask(64) | SlidingWindowMask(20, 0) | (ChunkedMask(256) & SlidingWindowMask(200, 0))
)
WINDOW: Final = SlidingWindowMask(100, 0)
EVERYTHING: Final = CAUSAL & SlidingWindowMask(20, None) & PaddingMask(0) | ChunkedMask(64) & BIAS
PAGED: Final[dict[str, Any]] = {"used_k": True, "ragged_q": True}
PERSISTENT: Final[dict[str, Any]] = {"scheduler": Scheduler.PERSISTENT}
DYNAMIC: Final[dict[str, Any]] = {"scheduler": Scheduler.DYNAMIC}
STREAM_K: Final[dict[str, Any]] = {"scheduler": Scheduler.STREAM_K}
WORKSPACE: Final[dict[str, Any]] = {"partition": Partition.WORKSPACE}
LAST: Final[dict[str, Any]] = {"partition": Partition.LAST}
CLUSTER: Final[dict[str, Any]] = {"partition": Partition.CLUSTER, "num_partitions": 2}
TOKENS: Final[dict[str, Any]] = {"token_scales": True}


def relative(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    """Read a slope per head, as ALiBi does, and a table of rank 2."""
    return score + aux[0][head] * (kv_idx - q_idx) - aux[1][batch, kv_idx]


MOD: Final = ScoreMod("relative", "kernel list", (1, 2), relative)
ALIBI: Final = score_mods.alibi(torch.ones(2)).plan
CAP: Final = score_mods.softcap(30.0).plan
HALVES: Final = DenseBiasMask(0, DType.BF16, at_once=16)
FLOATS: Final = DenseBiasMask(0, at_once=8)


def two_q(
    dtype: DType, head_dim: int, options: dict[str, Any] | None = None, **variant: Any
) -> KernelSpec:
    """Return a kernel of the 2Q family; ``options`` are those of ``KernelSpec.for_attention``."""
    given = {"group": 2, **(options or {})}
    return KernelSpec.for_attention(dtype, head_dim, variant=Variant(**variant), **given)


def few(
    dtype: DType, head_dim: int, copies: int = 4, options: dict[str, Any] | None = None,
    **variant: Any,
) -> KernelSpec:  # fmt: skip
    """Return a kernel of the 2Q family with one Q tile and copies of its few rows."""
    spec = two_q(dtype, head_dim, {**ONE_Q, **(options or {})}, **variant)
    return spec.with_config(replace(spec.config, row_copies=copies))


def pair(
    dtype: DType, head_dim: int, options: dict[str, Any] | None = None, **variant: Any
) -> Depth512Spec:
    """Return a kernel of the depth-512 family."""
    given = {"group": 2, **(options or {})}
    return Depth512Spec.for_attention(dtype, head_dim, variant=Variant(**variant), **given)


def few_of_pair(dtype: DType, head_dim: int, copies: int = 4, **variant: Any) -> Depth512Spec:
    """Return a kernel of the depth-512 family with copies of its few rows."""
    return pair(dtype, head_dim, **variant).with_row_copies(copies)


def hopper(
    dtype: DType, head_dim: int, options: dict[str, Any] | None = None, **variant: Any
) -> SM90Spec:
    """Return a kernel of the Hopper family."""
    given = {"group": 2, **(options or {})}
    return SM90Spec.for_attention(dtype, head_dim, variant=Variant(**variant), **given)


ONE_Q: Final = {"num_qo": 1}
PAIR_CTA: Final = {"pair_cta": True}
MLA: Final = {"head_dim_v": 128}
ROPE: Final = {"head_dim_v": 128, "rope_dtype": BF16, "shared_rope": True}

KERNELS: Final[dict[str, AttentionSpec | CombineSpec]] = {
    "2q d128": two_q(BF16, 128, {"group": 1}),
    "2q d64 causal lse": two_q(FP16, 64, mask=CAUSAL, return_lse=True),
    "2q d64 lse": two_q(BF16, 64, return_lse=True),
    "2q d96 window sink": two_q(BF16, 96, mask=WINDOW, sink=True),
    "2q d192 causal": two_q(BF16, 192, mask=CAUSAL),
    "2q d80 union": two_q(FP16, 80, {"group": 3}, mask=UNION),
    "2q d128 bias": two_q(BF16, 128, mask=BIAS & CAUSAL, return_lse=True),
    "2q d128 function": two_q(BF16, 128, mask=CAUSAL, score_mod=MOD),
    "2q d64 everything": two_q(
        BF16, 64, mask=EVERYTHING, score_mod=MOD, sink=True, page_size=16, return_lse=True,
        **PAGED, **WORKSPACE,
    ),
    "2q d128 ragged": two_q(BF16, 128, mask=CAUSAL, ragged_q=True, ragged_k=True, sink=True),
    "2q d128 ragged by rows": two_q(
        BF16, 128, mask=CAUSAL, ragged_q=True, ragged_k=True, by_rows=True
    ),
    "2q d128 page16": two_q(BF16, 128, mask=WINDOW, page_size=16, **PAGED),
    "2q d64 page256": two_q(BF16, 64, mask=CAUSAL, used_k=True, page_size=256),
    "2q d128 padding split": two_q(BF16, 128, mask=PaddingMask(0), return_lse=True, **WORKSPACE),
    "2q d128 persistent": two_q(BF16, 128, mask=CAUSAL, return_lse=True, **PERSISTENT),
    "2q d128 dynamic": two_q(BF16, 128, mask=CAUSAL, return_lse=True, **DYNAMIC),
    "2q d128 dynamic chunks page64": two_q(
        BF16, 128, mask=CAUSAL, page_size=64, **PAGED, **DYNAMIC
    ),
    "2q d128 dynamic chunks page64 by rows": two_q(
        BF16, 128, mask=CAUSAL, page_size=64, by_rows=True, **PAGED, **DYNAMIC
    ),
    "2q d64 persistent ragged page64": two_q(
        BF16, 64, mask=CAUSAL, page_size=64, **PAGED, **PERSISTENT
    ),
    "2q d128 persistent everything": two_q(
        BF16, 128, mask=EVERYTHING, score_mod=MOD, sink=True, page_size=16, return_lse=True,
        **PAGED, **WORKSPACE, **PERSISTENT,
    ),
    "2q d128 fp8": two_q(FP8, 128, mask=CAUSAL),
    "2q d64 fp8 persistent": two_q(FP8, 64, return_lse=True, **PERSISTENT),
    "2q d128 fp8 tokens page64": two_q(FP8, 128, page_size=64, **PAGED, **TOKENS),
    "2q d192/128": two_q(BF16, 192, MLA, mask=CAUSAL),
    "2q d192/128 rope persistent": two_q(FP8, 192, ROPE, mask=CAUSAL, **PERSISTENT),
    "1q d128": two_q(BF16, 128, ONE_Q, mask=CAUSAL),
    "1q d64 function lse": two_q(FP16, 64, ONE_Q, score_mod=MOD, return_lse=True),
    "1q d128 page64 split": two_q(
        BF16, 128, {**ONE_Q, "group": 8}, page_size=64, used_k=True, **WORKSPACE
    ),
    "1q d128 ragged sink": two_q(
        BF16, 128, ONE_Q, mask=WINDOW, ragged_q=True, ragged_k=True, sink=True
    ),
    "1q d192 bias": two_q(BF16, 192, ONE_Q, mask=BIAS),
    "1q d128 persistent": two_q(BF16, 128, ONE_Q, mask=CAUSAL, **PERSISTENT),
    "1q d128 dynamic ragged page64": two_q(BF16, 128, ONE_Q, page_size=64, **PAGED, **DYNAMIC),
    "1q d128 stream-K page64": two_q(
        BF16, 128, {"group": 4}, mask=CAUSAL, page_size=64, used_k=True, **STREAM_K
    ),
    "1q d64 fp8 stream-K ragged sink": two_q(
        FP8, 64, mask=WINDOW, page_size=16, sink=True, return_lse=True, **PAGED, **STREAM_K
    ),
    "few d128": few(BF16, 128, mask=CAUSAL, return_lse=True),
    "few d128 last page64": few(BF16, 128, 2, page_size=64, **PAGED, **LAST),
    "few d64 fp8 stream-K page16 sink": few(
        FP8, 64, mask=WINDOW, page_size=16, sink=True, return_lse=True, **PAGED, **STREAM_K
    ),
    "few cluster d192/128 page16": few(
        BF16, 192, options=MLA, page_size=16, used_k=True, **CLUSTER
    ),
    "few pair d256 fp8 causal": few_of_pair(FP8, 256, mask=CAUSAL, return_lse=True),
    "few pair d224 fp8 page64 split": few_of_pair(
        FP8, 224, 2, page_size=64, sink=True, partition=Partition.WORKSPACE, **PAGED
    ),
    "few pair d256 fp8 stream-K page16": few_of_pair(
        FP8, 256, page_size=16, return_lse=True, **PAGED, **STREAM_K
    ),
    "1q d128 fp8 tokens persistent": two_q(FP8, 128, ONE_Q, mask=CAUSAL, **TOKENS, **PERSISTENT),
    "1q d192/128 rope tokens": two_q(FP8, 192, {**ONE_Q, **ROPE}, mask=CAUSAL, **TOKENS),
    "cluster d128": two_q(BF16, 128, mask=CAUSAL, return_lse=True, **CLUSTER),
    "cluster d64 page64 sink": two_q(BF16, 64, page_size=64, used_k=True, sink=True, **CLUSTER),
    "cluster8 d192/128": two_q(
        BF16, 192, MLA, partition=Partition.CLUSTER, num_partitions=8, ragged_q=True
    ),
    "cluster d128 fp8": two_q(FP8, 128, **CLUSTER),
    "pair_cta d128": two_q(BF16, 128, PAIR_CTA, mask=CAUSAL),
    "pair_cta d128 page16 function": two_q(
        BF16, 128, PAIR_CTA, score_mod=MOD, page_size=16, **PAGED
    ),
    "pair_cta d128 persistent split": two_q(
        BF16, 128, PAIR_CTA, mask=CAUSAL, return_lse=True, **PERSISTENT, **WORKSPACE
    ),
    "pair_cta d128 dynamic": two_q(BF16, 128, PAIR_CTA, mask=CAUSAL, **DYNAMIC),
    "pair_cta d192/128": two_q(BF16, 192, {**PAIR_CTA, **MLA}, mask=CAUSAL),
    "pair_cta d192/128 tokens rope": two_q(FP8, 192, {**PAIR_CTA, **ROPE}, mask=CAUSAL, **TOKENS),
    "pair_cta d128 fp8 tokens": two_q(FP8, 128, PAIR_CTA, return_lse=True, **TOKENS),
    "depth512 d512": pair(BF16, 512, {"group": 1}),
    "depth512 d256 causal lse": pair(FP16, 256, mask=CAUSAL, return_lse=True),
    "depth512 d256 in turn": pair(BF16, 256, {"look_ahead": False}, mask=CAUSAL),
    "depth512 d320 window sink": pair(BF16, 320, mask=WINDOW, sink=True),
    "depth512 d512 union": pair(BF16, 512, mask=UNION),
    "depth512 d256 ragged": pair(BF16, 256, mask=CAUSAL, ragged_q=True, ragged_k=True),
    "depth512 d256 ragged by rows": pair(
        BF16, 256, mask=CAUSAL, ragged_q=True, ragged_k=True, by_rows=True
    ),
    "depth512 d512 page16 split": pair(BF16, 512, page_size=16, **PAGED, **WORKSPACE),
    "depth512 d256 function bias": pair(BF16, 256, mask=BIAS & CAUSAL, score_mod=MOD),
    "depth512 d512 persistent": pair(BF16, 512, mask=CAUSAL, return_lse=True, **PERSISTENT),
    "depth512 d512 dynamic": pair(BF16, 512, mask=CAUSAL, return_lse=True, **DYNAMIC),
    "depth512 d256 dynamic ragged": pair(
        BF16, 256, mask=CAUSAL, ragged_q=True, ragged_k=True, **DYNAMIC
    ),
    "depth512 d256 dynamic chunks page16": pair(
        BF16, 256, mask=CAUSAL, page_size=16, return_lse=True, **PAGED, **DYNAMIC
    ),
    "depth512 d256 persistent everything": pair(
        BF16, 256, mask=EVERYTHING, score_mod=MOD, sink=True, page_size=16, return_lse=True,
        **PAGED, **WORKSPACE, **PERSISTENT,
    ),
    "depth512 d256 stream-K page64": pair(
        BF16, 256, mask=CAUSAL, page_size=64, used_k=True, **STREAM_K
    ),
    "depth512 d512 stream-K ragged sink": pair(
        BF16, 512, mask=WINDOW, page_size=16, sink=True, return_lse=True, **PAGED, **STREAM_K
    ),
    "depth512 d512 fp8 stream-K": pair(FP8, 512, used_k=True, **STREAM_K),
    "depth512 d512 fp8": pair(FP8, 512, mask=CAUSAL),
    "depth512 d256 fp8 tokens": pair(FP8, 256, mask=CAUSAL, return_lse=True, **TOKENS),
    "depth512 d512 fp8 tokens persistent": pair(FP8, 512, **TOKENS, **PERSISTENT),
    "sm90 d128": hopper(BF16, 128, {"group": 1}, **PERSISTENT),
    "sm90 d64 causal lse": hopper(FP16, 64, mask=CAUSAL, return_lse=True, **PERSISTENT),
    "sm90 d256 causal tile": hopper(BF16, 256, mask=CAUSAL),
    "sm90 d96 window sink": hopper(BF16, 96, mask=WINDOW, sink=True, **PERSISTENT),
    "sm90 d64 union": hopper(BF16, 64, mask=UNION, **PERSISTENT),
    "sm90 d192 ragged": hopper(
        BF16, 192, mask=CAUSAL, ragged_q=True, ragged_k=True, sink=True, **PERSISTENT
    ),
    "sm90 d128 persistent ragged by rows": hopper(
        BF16, 128, mask=CAUSAL, ragged_q=True, ragged_k=True, by_rows=True, **PERSISTENT
    ),
    "sm90 d128 page64 split": hopper(
        BF16, 128, {"group": 8}, page_size=64, used_k=True, **WORKSPACE, **PERSISTENT
    ),
    "sm90 d128 few page64 split": hopper(
        BF16, 128, {"group": 8}, page_size=64, used_k=True, **WORKSPACE
    ).with_few_rows(),
    "sm90 d128 few stream-K page64": hopper(
        BF16, 128, {"group": 4}, mask=CAUSAL, page_size=64, used_k=True, **STREAM_K
    ).with_few_rows(),
    "sm90 d192/128": hopper(BF16, 192, MLA, mask=CAUSAL, return_lse=True),
    "sm90 d128 fp8": hopper(FP8, 128, {"group": 1}, mask=CAUSAL),
    "sm90 d64 fp8 persistent ragged": hopper(
        FP8, 64, mask=CAUSAL, return_lse=True, page_size=64, **PAGED, **PERSISTENT
    ),
    "sm90 d128 fp8 tokens page64": hopper(FP8, 128, page_size=64, **PAGED, **TOKENS),
    "sm90 d192 fp8": hopper(FP8, 192, {"group": 1}, mask=CAUSAL),
    "sm90 d256 fp8 lse": hopper(FP8, 256, mask=CAUSAL, return_lse=True),
    "sm90 d256/208 fp8 tokens union": hopper(
        FP8, 256, {"head_dim_v": 208}, mask=UNION, page_size=64, **PAGED, **TOKENS, **PERSISTENT
    ),
    "sm90 d256 fp8 few page16 split": hopper(
        FP8, 256, {"group": 8}, page_size=16, used_k=True, **WORKSPACE
    ).with_few_rows(),
    "sm90 d256 everything": hopper(
        BF16, 256, mask=EVERYTHING, score_mod=MOD, sink=True, page_size=16, return_lse=True,
        **PAGED, **WORKSPACE, **PERSISTENT,
    ),
    "1q last d128": two_q(BF16, 128, ONE_Q, **LAST),
    "1q last d64 page64 sink lse": two_q(
        BF16, 64, ONE_Q, page_size=64, sink=True, return_lse=True, **PAGED, **LAST
    ),
    "1q last d128 fp8 tokens": two_q(FP8, 128, ONE_Q, **TOKENS, **LAST),
    "combine bf16 d128 lse": CombineSpec(BF16, 128, return_lse=True),
    "combine fp16 d64": CombineSpec(FP16, 64),
    "combine sm90 d64": CombineSpec(BF16, 64, arch=SM90A),
    "combine calls fp16 d96 lse": CombineSpec(FP16, 96, return_lse=True, of_calls=True),
    "combine sm90 calls d128 lse": CombineSpec(BF16, 128, True, arch=SM90A, of_calls=True),
}  # fmt: skip
"""Name of each kernel, and its specification."""

"""No role spills in any kernel that the host can choose: variants of features, kernel by kernel.

``make test`` compiles those that leave the fewest registers; ``make test-all`` all of them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from fa4_cute.plan.config.copies import KEYS_OF_COPIES
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.selection import row_copies_of_pair
from fa4_cute.plan.masks.masks import CAUSAL, SlidingWindowMask
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH, Depth512Spec
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.register_tuning import most_keys
from fa4_cute.plan.spec.variant import Partition, Scheduler, Variant
from testing.kernels import (
    ALIBI,
    BIAS,
    CAP,
    EVERYTHING,
    FLOATS,
    HALVES,
    MOD,
    PERSISTENT,
    TOKENS,
    UNION,
    WINDOW,
)
from testing.kernels import KERNELS as LISTED
from testing.sass import spilled
from tests.kernel.random_cases import also

BF16, FP8 = DType.BF16, DType.FP8_E4M3


def slopes(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score - aux[0][head] * (q_idx - kv_idx)


ALL = Variant(
    EVERYTHING,
    return_lse=True,
    ragged_q=True,
    used_k=True,
    page_size=16,
    sink=True,
    score_mod=ScoreMod("slopes", "sass", (1,), slopes),
    partition=Partition.WORKSPACE,
)
VARIANTS = {
    "plain": Variant(CAUSAL, return_lse=True),
    "window": Variant(WINDOW),
    "union": Variant(UNION),
    "bias": Variant(BIAS & CAUSAL),
    "union of biases": Variant(BIAS & CAUSAL | SlidingWindowMask(20, 40)),
    "function": Variant(CAUSAL, score_mod=MOD),
    "ragged": Variant(CAUSAL, ragged_q=True, ragged_k=True, sink=True),
    "paged": Variant(WINDOW, ragged_q=True, used_k=True, page_size=16, sink=True),
    "large pages": Variant(CAUSAL, used_k=True, page_size=256),
    "split": Variant(CAUSAL, used_k=True, partition=Partition.WORKSPACE, sink=True),
    "all": ALL,
    "persistent all": replace(ALL, **PERSISTENT),
    "persistent": replace(ALL, partition=Partition.NONE, **PERSISTENT),
}
VARIANTS |= {
    "alibi": Variant(CAUSAL, score_mod=ALIBI),
    "far": Variant(score_mod=ALIBI),
    "capped": Variant(CAUSAL, score_mod=CAP),
    "halves": Variant(HALVES & CAUSAL, return_lse=True),
    "floats": Variant(FLOATS & CAUSAL, return_lse=True),
}
DYNAMIC: dict[str, Any] = {"scheduler": Scheduler.DYNAMIC}
for name, how in product(("alibi", "far", "capped", "halves"), (PERSISTENT, DYNAMIC)):
    VARIANTS[f"{how['scheduler'].name.lower()} {name}"] = replace(VARIANTS[name], **how)
VARIANTS["dynamic plain"] = Variant(CAUSAL, return_lse=True, **DYNAMIC)
VARIANTS["dynamic packed"] = Variant(CAUSAL, ragged_q=True, ragged_k=True, **DYNAMIC)
for size in (16, 64, 256):
    VARIANTS[f"dynamic chunks page{size}"] = Variant(
        CAUSAL, return_lse=True, ragged_q=True, used_k=True, page_size=size, **DYNAMIC
    )
for name in ("ragged", "paged", "all", "dynamic packed", "dynamic chunks page64"):
    VARIANTS[f"{name} by rows"] = replace(VARIANTS[name], by_rows=True)
VARIANTS["dynamic full"] = Variant(**DYNAMIC)
STREAMED: dict[str, Any] = {"partition": Partition.NONE, "scheduler": Scheduler.STREAM_K}
for name in ("plain", "ragged", "paged", "large pages", "bias", "function", "union", "all"):
    VARIANTS[f"streamed {name}"] = replace(VARIANTS[name], **STREAMED)
VARIANTS["streamed union of biases"] = replace(VARIANTS["union of biases"], **STREAMED)
for name in ("plain", "paged", "function", "union", "all"):
    VARIANTS[f"tokens streamed {name}"] = replace(VARIANTS[f"streamed {name}"], **TOKENS)
for name in ("window", "function", "union of biases"):
    VARIANTS[f"dynamic {name}"] = replace(VARIANTS[name], **DYNAMIC)
VARIANTS["dynamic sink"] = Variant(CAUSAL, return_lse=True, sink=True, **DYNAMIC)
IN_WINDOW: dict[str, Any] = {"mask": SlidingWindowMask(127, 0), "sink": True, "return_lse": True}
"""What launches that leave their scheduler open may have besides, query tiles in turn or not."""
for name in ("dynamic plain", "dynamic packed", "dynamic packed by rows"):
    VARIANTS[f"{name} in a window"] = replace(VARIANTS[name], **IN_WINDOW)
for size in (16, 64):
    chunks = VARIANTS[f"dynamic chunks page{size}"]
    VARIANTS[f"dynamic chunks page{size} in a window"] = replace(chunks, **IN_WINDOW, by_rows=True)
VARIANTS["dynamic all"] = replace(ALL, **DYNAMIC)
VARIANTS["all but bias"] = replace(ALL, mask=UNION)
VARIANTS["persistent all but bias"] = replace(VARIANTS["all but bias"], **PERSISTENT)
VARIANTS["persistent all but function"] = replace(ALL, score_mod=None, **PERSISTENT)
for name in ("paged", "function", "union of biases", "all", "persistent"):
    VARIANTS[f"tokens {name}"] = replace(VARIANTS[name], **TOKENS)
for name in ("function", "union of biases", "plain", "paged"):
    VARIANTS[f"persistent {name}"] = replace(VARIANTS[name], **PERSISTENT)
VARIANTS["persistent plain in a window"] = replace(VARIANTS["plain"], **PERSISTENT, **IN_WINDOW)
VARIANTS["dynamic tokens function"] = replace(VARIANTS["function"], **DYNAMIC, **TOKENS)
VARIANTS["persistent tokens function"] = replace(VARIANTS["function"], **PERSISTENT, **TOKENS)
for size, name in product((2, 8), ("paged", "function", "union of biases", "all")):
    VARIANTS[f"cluster{size} {name}"] = replace(
        VARIANTS[name], partition=Partition.CLUSTER, num_partitions=size, return_lse=True
    )
MLA: dict[str, Any] = {"head_dim_v": 128}
PAIR: dict[str, Any] = {"pair_cta": True}
KERNELS: dict[str, tuple[int, DType, dict[str, Any]]] = {
    "2Q d64": (64, BF16, {"num_qo": 2}),
    "2Q d96": (96, BF16, {"num_qo": 2}),
    "2Q d128": (128, BF16, {"num_qo": 2}),
    "2Q d192": (192, BF16, {"num_qo": 2}),
    "2Q d192v128": (192, BF16, {"num_qo": 2, "head_dim_v": 128}),
    "1Q d64": (64, BF16, {"num_qo": 1}),
    "1Q d128": (128, BF16, {"num_qo": 1}),
    "1Q d192": (192, BF16, {"num_qo": 1}),
    "few d64": (64, BF16, {"num_qo": 1, "row_copies": 4}),
    "few d128": (128, BF16, {"num_qo": 1, "row_copies": 2}),
    "few d128 fp8": (128, FP8, {"num_qo": 1, "row_copies": 4}),
    "few d192v128 fp8": (192, FP8, {"num_qo": 1, "row_copies": 4, **MLA}),
    "few d256 fp8": (256, FP8, {"row_copies": 4}),
    "few d208 fp8": (208, FP8, {"row_copies": 2}),
    "2Q d64 fp8": (64, FP8, {"num_qo": 2}),
    "2Q d96 fp8": (96, FP8, {"num_qo": 2}),
    "2Q d128 fp8": (128, FP8, {"num_qo": 2}),
    "2Q d192 fp8": (192, FP8, {"num_qo": 2}),
    "1Q d128 fp8": (128, FP8, {"num_qo": 1}),
    "2Q d192v128 fp8, no rope": (192, FP8, {"num_qo": 2, **MLA}),
    "2Q d192v128 fp8": (192, FP8, {"num_qo": 2, "rope_dtype": BF16, "shared_rope": True, **MLA}),
    "1Q d192v128 fp8": (192, FP8, {"num_qo": 1, "rope_dtype": BF16, "shared_rope": True, **MLA}),
    "pair_cta d128": (128, BF16, PAIR),
    "pair_cta d128 fp8": (128, FP8, PAIR),
    "pair_cta d128v64": (128, BF16, {**PAIR, "head_dim_v": 64}),
    "pair_cta d192v128": (192, BF16, {**PAIR, **MLA}),
    "pair_cta d192v128 fp8": (192, FP8, {**PAIR, **MLA, "rope_dtype": BF16}),
    "d256": (256, BF16, {}),
    "d512": (512, BF16, {}),
    "d256 fp8": (256, FP8, {}),
    "d512 fp8": (512, FP8, {}),
}
SLOW = (
    # Where registers are scarcest.
    ("2Q d128", "all"),
    ("1Q d128", "cluster8 function"),
    ("d512 fp8", "tokens all"),
    ("pair_cta d128", "dynamic all"),
    # Whose correction writes O.
    ("2Q d96", "dynamic plain"),
    ("2Q d128", "dynamic capped"),
    # Whose biases are on their way while S is waited for.
    ("2Q d64", "halves"),
    ("d256", "halves"),
    # Where P would leave no registers if it crossed.
    ("2Q d64", "persistent all but bias"),
    # Whose softmax writes whole query tiles and parts of them.
    ("1Q d128", "streamed paged"),
    ("d512", "streamed paged"),
    # Whose load warps hold the pages of many tiles.
    ("few d128 fp8", "streamed paged"),
    ("few d256 fp8", "streamed paged"),
)
ALSO_SCARCE = (
    ("pair_cta d192v128", "persistent all"),
    ("1Q d192v128 fp8", "tokens persistent"),
    ("2Q d128 fp8", "tokens all"),
    ("1Q d128", "all"),
    ("2Q d64", "function"),
    ("pair_cta d128 fp8", "persistent tokens function"),
    ("1Q d128 fp8", "tokens persistent"),
    ("d256", "all"),
    ("d512", "union of biases"),
    ("d512", "persistent all"),
)
SCARCE = ("paged", "function", "union of biases")
"""Variants that leave few registers, besides "all"."""
IN_FULL = ("2Q d64", "2Q d128", "1Q d128", "d256", "d512")
"""Kernels of which every variant is compiled; of the others those that are scarce of registers."""
CROSSED_FP8 = ("2Q d64 fp8", "2Q d96 fp8", "2Q d128 fp8", "2Q d192v128 fp8")
CROSSED = ("2Q d64", "2Q d128", "2Q d192v128", *CROSSED_FP8)
"""Kernels whose P lies in the other chain's scores."""
ASKING = ("2Q d64", "2Q d96", *CROSSED_FP8, "2Q d192v128 fp8, no rope")
"""Kernels whose P crosses in plain CTAs that ask for query tiles."""
OF_CHUNKS = ("2Q d128", "2Q d192v128", *ASKING, "d256", "d512", "d256 fp8", "d512 fp8")
"""Kernels whose CTAs may take over others' chunks of prompts."""
HELD = (*CROSSED_FP8, "2Q d192v128 fp8, no rope")
"""Kernels whose persistent CTAs hold the address of shared memory."""
ONE_Q_FP8 = ("1Q d128 fp8", "1Q d192v128 fp8")
WIDE_FP8 = ("d256 fp8", "d512 fp8")
WIDE_PAIRS = ("d256", "d512", *WIDE_FP8)
FEW = ("few d64", "few d128", "few d128 fp8", "few d192v128 fp8")
"""Kernels whose lanes hold copies of few rows."""
ONE_Q = ("1Q d64", "1Q d128", "1Q d192", *ONE_Q_FP8)
OTHERS = ("2Q d192", "1Q d64", "2Q d128 fp8", "1Q d128 fp8", "d512 fp8")
SCALED = (*CROSSED_FP8, "1Q d128 fp8", "2Q d192 fp8", "d256 fp8", "d512 fp8")
NO_ROOM = tuple(product(("2Q d192v128 fp8",), ("tokens paged", "tokens all", "tokens persistent")))
"""For whose operands shared memory has no two slots beside scales and rope columns."""
PAIRS = ("pair_cta d128", "pair_cta d128v64", "pair_cta d192v128")
PAIRS_FP8 = ("pair_cta d128 fp8", "pair_cta d192v128 fp8")
EXHAUSTIVE = (
    *ALSO_SCARCE,
    *product(IN_FULL, (name for name in VARIANTS if " " not in name and name != "persistent")),
    *product(IN_FULL, ("union of biases", "large pages", "persistent all")),
    *product(OTHERS, (*SCARCE, "plain", "all", "persistent all")),
    *(
        pair
        for pair in product(SCALED, (f"tokens {n}" for n in (*SCARCE, "all", "persistent")))
        if pair not in NO_ROOM
    ),
    *product(("1Q d64", "1Q d128", "1Q d192", "1Q d128 fp8"), (f"cluster2 {n}" for n in SCARCE)),
    *product(("1Q d192", "1Q d128 fp8"), ("cluster8 function",)),
    *product(("d256", "d512", "d512 fp8"), ("persistent function",)),
    *product(("1Q d128", "d512"), ("persistent union of biases",)),
    *product(PAIRS, (*SCARCE, "plain")),
    *product(PAIRS_FP8, ("plain", *(f"tokens {name}" for name in SCARCE))),
    *((kernel, "all") for kernel in ("2Q d64", "pair_cta d128v64")),
    *((kernel, "function") for kernel in ("1Q d128", "d512 fp8")),
    ("1Q d64", "cluster8 function"),
    ("pair_cta d128 fp8", "tokens all"),
    ("2Q d128 fp8", "persistent tokens function"),
    ("1Q d128", "cluster2 all"),
    ("1Q d128 fp8", "persistent tokens function"),
    *product((*IN_FULL, "pair_cta d128"), ("dynamic plain", "dynamic all")),
    *product(
        (*IN_FULL, *CROSSED_FP8, "2Q d192v128", "2Q d96", *WIDE_FP8),
        (f"{how} {name}" for how in ("persistent", "dynamic")
         for name in ("alibi", "far", "capped", "halves")),
    ),
    # Pairs that are dynamic by themselves.
    *product(("d256 fp8", "d512 fp8"), ("dynamic plain",)),
    *product(("d256", "d512", "d256 fp8", "d512 fp8"), ("dynamic packed",)),
    *(("d512 fp8", f"dynamic {name}") for name in ("all", "tokens function")),
    *((f"{kernel} d128 fp8", "dynamic tokens function") for kernel in ("1Q", "pair_cta")),
    *product(CROSSED, ("union", "paged", "persistent all but function", "all but bias")),
    *product(HELD, ("persistent plain", "persistent paged")),
    *product(ASKING, ("dynamic plain", "dynamic packed", "dynamic full")),
    *product((*ASKING, "2Q d128", "2Q d192v128"), ("dynamic window", "dynamic sink")),
    *product(OF_CHUNKS[:-4], (name for name in VARIANTS if name.endswith("in a window"))),
    *product((*ASKING, "2Q d128"), ("dynamic function", "dynamic union of biases")),
    *product(OF_CHUNKS, (f"dynamic chunks page{size}" for size in (16, 64, 256))),
    *product(IN_FULL, (f"{name} by rows" for name in ("ragged", "paged", "all"))),
    *product(PAIRS, ("ragged by rows",)),
    *product(ASKING, ("dynamic packed by rows",)),
    *product(OF_CHUNKS, ("dynamic chunks page64 by rows",)),
    *product((*ONE_Q, *WIDE_PAIRS), (name for name in VARIANTS if name.startswith("streamed"))),
    *product(
        (*ONE_Q_FP8, *WIDE_FP8), (name for name in VARIANTS if name.startswith("tokens streamed"))
    ),
)


def has_copies(variant: Variant) -> bool:
    """Whether a kernel may hold copies of few rows: not where its key tiles are small."""
    return most_keys(variant, 1) in (0, KEYS_OF_COPIES)


def may_be_of_pair(variant: Variant) -> bool:
    """Whether a pair of fp8 operands may hold copies of few rows, with a group of two."""
    if variant.in_cluster or variant.partition is Partition.LAST:
        return False
    spec = Depth512Spec.for_attention(FP8, 256, group=2, variant=variant)
    return spec.may_copy_rows and row_copies_of_pair(spec.config, 1, KEYS_OF_COPIES) > 1


FEW_ROWS = tuple(
    (kernel, name) for kernel, (name, variant) in product(FEW, VARIANTS.items())
    if has_copies(variant) and (KERNELS[kernel][1] is FP8 or not variant.token_scales)
)  # fmt: skip
"""Every variant that the host can choose with them."""
FEW_OF_PAIRS = tuple(
    (kernel, name)
    for kernel, (name, variant) in product(("few d256 fp8", "few d208 fp8"), VARIANTS.items())
    if may_be_of_pair(variant)
)  # fmt: skip
LISTED_SLOW = ("2q d64 everything", "depth512 d256 persistent everything")
"""Kernels of the fixed list where registers are scarcest."""


def spec_of(kernel: str, variant: str) -> AttentionSpec:
    head_dim, dtype, options = KERNELS[kernel]
    kind = KernelSpec if head_dim < SMALLEST_DEPTH else Depth512Spec
    asked = {name: value for name, value in options.items() if name != "row_copies"}
    spec = kind.for_attention(dtype, head_dim, group=2, variant=VARIANTS[variant], **asked)
    copies = options.get("row_copies", 1)
    if copies > 1 and isinstance(spec, KernelSpec):
        return spec.with_config(replace(spec.config, row_copies=copies))
    return spec.with_row_copies(copies) if isinstance(spec, Depth512Spec) else spec


@pytest.mark.parametrize(
    ("kernel", "variant"),
    [
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW),
        *also(
            *(
                pair
                for pair in dict.fromkeys((*EXHAUSTIVE, *FEW_ROWS, *FEW_OF_PAIRS))
                if pair not in SLOW
            )
        ),
    ],
)
def test_no_role_spills(kernel: str, variant: str) -> None:
    assert spilled(spec_of(kernel, variant)) == []


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in LISTED_SLOW),
        *also(*(name for name in LISTED if name not in LISTED_SLOW)),
    ],
)
def test_no_listed_kernel_spills(name: str) -> None:
    assert spilled(LISTED[name]) == []

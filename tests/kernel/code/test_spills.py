"""No role spills in any kernel that the host can choose: variants of features, kernel by kernel.

Without FA4_CUTE_SASS=all in the environment only those run that leave the fewest registers, each
kernel's variant with everything at once among them.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    ChunkedMask,
    DenseBiasMask,
    PaddingMask,
    SlidingWindowMask,
)
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Partition, Scheduler, ScoreMod, Variant
from tests.kernel.artifacts import sass

BF16, FP8 = DType.BF16, DType.FP8_E4M3
Window = SlidingWindowMask


def relative(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    """Read a slope per head, as ALiBi does, and a table of rank 2."""
    return score + aux[0][head] * (kv_idx - q_idx) - aux[1][batch, kv_idx]


def slopes(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score - aux[0][head] * (q_idx - kv_idx)


SLOPES = ScoreMod("slopes", "sass", (1,), slopes)
MOD = ScoreMod("relative", "sass", (1, 2), relative)
BIAS = DenseBiasMask(0)
UNION = ChunkedMask(64) | Window(20, 0) | (ChunkedMask(256) & Window(200, 0))
VARIANTS = {
    "window": Variant(Window(100, 0)),
    "union": Variant(UNION),
    "bias": Variant(BIAS & CAUSAL),
    "union of biases": Variant(BIAS & CAUSAL | Window(20, 40)),
    "function": Variant(CAUSAL, score_mod=MOD),
    "ragged": Variant(CAUSAL, ragged_q=True, ragged_k=True, sink=True),
    "paged": Variant(Window(100, 0), ragged_q=True, used_k=True, page_size=16, sink=True),
    "large pages": Variant(CAUSAL, used_k=True, page_size=256),
    "split": Variant(CAUSAL, used_k=True, partition=Partition.WORKSPACE, sink=True),
    "all": Variant(
        CAUSAL & Window(20, None) & PaddingMask(0) | ChunkedMask(64) & BIAS,
        return_lse=True,
        ragged_q=True,
        used_k=True,
        page_size=16,
        sink=True,
        score_mod=SLOPES,
        partition=Partition.WORKSPACE,
    ),
}
KERNELS = {
    "2Q d64": (64, BF16, 2),
    "2Q d128": (128, BF16, 2),
    "2Q d192": (192, BF16, 2),
    "1Q d64": (64, BF16, 1),
    "1Q d128": (128, BF16, 1),
    "2Q d128 fp8": (128, FP8, 2),
    "1Q d128 fp8": (128, FP8, 1),
    "pair d256": (256, BF16, None),
    "pair d512": (512, BF16, None),
    "pair d512 fp8": (512, FP8, None),
}
EVERY = os.environ.get("FA4_CUTE_SASS") == "all"
SCARCE = ("paged", "function", "union of biases")
"""Variants that leave the fewest registers, beside "all"."""
IN_FULL = ("2Q d64", "2Q d128", "1Q d128", "pair d256", "pair d512")
"""Kernels of which every variant is compiled; of the others those that are scarce of registers."""
SCARCEST = ("function", "union of biases")
"""Those that are compiled in each run, beside "all"."""
QUICK = {("2Q d128", "all"), ("pair d512", "union of biases")}
"""Where registers are scarcest."""


def spec_of(kernel: str, variant: str) -> AttentionSpec:
    head_dim, dtype, num_qo = KERNELS[kernel]
    if num_qo is None:
        return Depth512Spec.for_attention(dtype, head_dim, group=2, variant=VARIANTS[variant])
    return KernelSpec.for_attention(
        dtype, head_dim, group=2, variant=VARIANTS[variant], num_qo=num_qo
    )


def spills(spec: AttentionSpec) -> list[str]:
    return [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)]


@pytest.mark.parametrize(
    ("kernel", "variant"),
    [
        pytest.param(k, v, marks=() if (k, v) in QUICK else pytest.mark.slow)
        for k in KERNELS
        for v in VARIANTS
        if v == "all"
        or (v in SCARCEST and k in IN_FULL)
        or (EVERY and (k in IN_FULL or v in SCARCE))
    ],
)
def test_no_role_spills(kernel: str, variant: str) -> None:
    assert spills(spec_of(kernel, variant)) == []


CLUSTERED = {"d64": (64, BF16), "d128": (128, BF16), "d192": (192, BF16), "d128 fp8": (128, FP8)}
"""Kernels whose keys a cluster may share; all of them have one Q tile."""


@pytest.mark.parametrize(
    ("kernel", "variant", "size"),
    [
        pytest.param("d128", "all", 2, marks=pytest.mark.slow),
        *(
            pytest.param(k, v, 2, marks=pytest.mark.slow)
            for k in CLUSTERED
            for v in (SCARCE if EVERY else ())
        ),
        *(pytest.param(k, "function", 8, marks=pytest.mark.slow) for k in CLUSTERED),
    ],
)
def test_no_role_spills_in_a_cluster(kernel: str, variant: str, size: int) -> None:
    head_dim, dtype = CLUSTERED[kernel]
    shared = replace(
        VARIANTS[variant], partition=Partition.CLUSTER, num_partitions=size, return_lse=True
    )
    assert spills(KernelSpec.for_attention(dtype, head_dim, group=2, variant=shared)) == []


SCALED = {
    "2Q d64": (64, 2),
    "2Q d128": (128, 2),
    "1Q d128": (128, 1),
    "2Q d192": (192, 2),
    "pair d256": (256, None),
    "pair d512": (512, None),
}
PERSISTENT = replace(VARIANTS["all"], partition=Partition.NONE, scheduler=Scheduler.PERSISTENT)
SCALED_VARIANTS = {
    **{name: VARIANTS[name] for name in (*SCARCE, "all")},
    "persistent": PERSISTENT,
}
BESIDE_PERSISTENT = ("2Q d128", "1Q d128", "pair d256")
PAIRS = ("pair d256", "pair d512", "pair d512 fp8")
QUICK_SCALED = {("2Q d128", "all")}


@pytest.mark.parametrize(
    ("kernel", "variant"),
    [
        pytest.param(k, v, marks=() if (k, v) in QUICK_SCALED else pytest.mark.slow)
        for k in SCALED
        for v in SCALED_VARIANTS
        if EVERY or v == "all" or (v == "persistent" and k in BESIDE_PERSISTENT)
    ],
)
def test_no_role_spills_with_scales_per_token(kernel: str, variant: str) -> None:
    head_dim, num_qo = SCALED[kernel]
    with_scales = replace(SCALED_VARIANTS[variant], token_scales=True)
    if num_qo is None:
        spec: AttentionSpec = Depth512Spec.for_attention(
            FP8, head_dim, group=2, variant=with_scales
        )
    else:
        spec = KernelSpec.for_attention(FP8, head_dim, group=2, variant=with_scales, num_qo=num_qo)
    assert spills(spec) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "variant"),
    [
        *((kernel, "all") for kernel in ("2Q d128", "1Q d64", "1Q d128 fp8", *PAIRS)),
        *((kernel, "all") for kernel in ("2Q d64", "2Q d192", "1Q d128", "2Q d128 fp8") if EVERY),
        *((kernel, "union of biases") for kernel in ("1Q d128", "pair d512")),
        *((kernel, "function") for kernel in (PAIRS if EVERY else PAIRS[:1])),
    ],
)
def test_no_role_spills_in_a_persistent_cta(kernel: str, variant: str) -> None:
    spec = spec_of(kernel, variant)
    persistent = replace(spec.variant, scheduler=Scheduler.PERSISTENT)
    again = spec.for_attention(
        spec.config.qkv_dtype, KERNELS[kernel][0], group=2, variant=persistent,
        **({"num_qo": KERNELS[kernel][2]} if KERNELS[kernel][2] else {}),
    )  # fmt: skip
    assert spills(again) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"num_qo": 1}, {"num_qo": 2}, {"pair_cta": True}], ids=str)
def test_no_role_spills_with_scales_and_auxiliary_tensors(options: dict[str, Any]) -> None:
    """Three loads for every score, in CTAs that keep counts from query tile to query tile."""
    more = {"token_scales": True, "scheduler": Scheduler.PERSISTENT}
    variant = replace(VARIANTS["function"], **more)
    assert spills(KernelSpec.for_attention(FP8, 128, group=2, variant=variant, **options)) == []


@pytest.mark.slow
@pytest.mark.parametrize("num_qo", [1, 2])
def test_no_role_spills_with_scales_beside_rope_columns(num_qo: int) -> None:
    variant = replace(PERSISTENT, token_scales=True)
    spec = KernelSpec.for_attention(
        FP8, 192, head_dim_v=128, rope_dtype=BF16, shared_rope=True, variant=variant, num_qo=num_qo
    )
    assert spills(spec) == []


SCALES = {"token_scales": True}
PAIRED: dict[str, tuple[DType, int, dict[str, Any], dict[str, Any]]] = {
    "d128": (BF16, 128, {}, {}),
    "d128 tokens": (FP8, 128, {}, SCALES),
    "d128v64": (BF16, 128, {"head_dim_v": 64}, {}),
    "d192v128": (BF16, 192, {"head_dim_v": 128}, {}),
    "d192v128 tokens": (FP8, 192, {"head_dim_v": 128, "rope_dtype": BF16}, SCALES),
}
"""Two Q tiles per CTA of a pair: type, head dim, columns of V and rope, what the variant adds."""
IN_A_PAIR = {
    **VARIANTS, "persistent all": replace(VARIANTS["all"], scheduler=Scheduler.PERSISTENT)
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "variant"),
    [
        ("d128 tokens", "all"),
        ("d128v64", "all"),
        ("d192v128", "persistent all"),
        *((k, v) for k in PAIRED for v in (SCARCE if EVERY else SCARCEST[:1])),
    ],
)
def test_no_role_spills_in_a_pair(kernel: str, variant: str) -> None:
    dtype, head_dim, columns, more = PAIRED[kernel]
    asked = replace(IN_A_PAIR[variant], **more)
    spec = KernelSpec.for_attention(
        dtype, head_dim, group=2, variant=asked, pair_cta=True, **columns
    )
    assert spills(spec) == []

"""A feature that is not used costs nothing: no parameter, no instruction, no other kernel.

Each feature's device code is replaced by a function that refuses to be traced. Plain kernels are
traced all the same, and their PTX is the same text; a kernel with the feature is not traced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch

from fa4_cute import masks
from fa4_cute.host.ask.arguments import Options
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL, DenseBiasMask, PaddingMask, SlidingWindowMask
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH, Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from fa4_cute.plan.spec.variant import Partition, Variant
from testing.kernels import ALIBI, HALVES
from testing.sass import compiled

PLAIN = [
    KernelSpec.for_attention(DType.BF16, 128, return_lse=True),
    KernelSpec.for_attention(DType.BF16, 64, group=4, causal=True, num_qo=1),
    Depth512Spec.for_attention(DType.BF16, 256, causal=True, return_lse=True),
]


@dataclass(frozen=True)
class Feature:
    """A feature's device code, and a kernel that has it.

    Attributes:
        code: functions that nothing else uses, as the traced modules know them.
        variant: a variant with the feature.
        dtype, head_dim: element type and head dimension of that kernel.
    """

    code: tuple[str, ...]
    variant: Variant
    dtype: DType = DType.BF16
    head_dim: int = 64


FEATURES = {
    "windows": Feature(("operands.scores.mask_spans",), Variant(SlidingWindowMask(70, 3))),
    "padding": Feature(("device.memory.gmem.load_i32",), Variant(PaddingMask(0))),
    "bias": Feature(
        ("operands.scores.modified", "operands.biases.RowBias.loaded"), Variant(DenseBiasMask(0))
    ),
    "biases before scores": Feature(
        ("operands.biases.RowBias.start", "operands.biases.widened"),
        Variant(HALVES),
    ),
    "alibi": Feature(("operands.scores.sloped",), Variant(score_mod=ALIBI)),
    "union of biases": Feature(
        (
            "operands.biases.where_visible", "operands.biases.visibility_word",
            "operands.scores.opaque", "operands.scores.warp_barrier",
        ),
        Variant(DenseBiasMask(0) & CAUSAL | SlidingWindowMask(5, 5)),
    ),
    "sink": Feature(("device.memory.gmem.load_f32",), Variant(sink=True)),
    "packed queries": Feature(("work.sequence._bounds",), Variant(ragged_q=True)),
    "rows of their own": Feature(("output.row_store.store_columns",), Variant(ragged_q=True)),
    "values of others": Feature(("device.memory.clean.zero_rows",), Variant(used_k=True)),
    "pages": Feature(
        ("operands.paging.entry_of_key", "operands.paging.place_in_cache"),
        Variant(used_k=True, page_size=64),
    ),
    "split keys": Feature(
        ("output.row_store.store_partial",), Variant(partition=Partition.WORKSPACE)
    ),
    "a cluster": Feature(
        (
            "output.cluster.publish", "output.cluster.weigh",
            "device.math.mma.descriptor_address",
        ),
        Variant(partition=Partition.CLUSTER, num_partitions=2),
    ),
    "scales per token": Feature(
        (
            "operands.token_scales.query_scale_source", "operands.token_scales.scale_buffer",
            "operands.scores.scaled",
        ),
        Variant(token_scales=True),
        DType.FP8_E4M3,
    ),
    "scales per token of a pair": Feature(
        ("operands.token_scales.load_bytes", "operands.token_scales.buffer_of"),
        Variant(token_scales=True),
        DType.FP8_E4M3,
        256,
    ),
    "scales of packed keys": Feature(
        ("operands.token_scales.packed_start",),
        Variant(token_scales=True, ragged_k=True),
        DType.FP8_E4M3,
    ),
}


class TracedError(Exception):
    """Code of a feature that the kernel does not have was traced."""


def refuse(*_: Any, **__: Any) -> None:
    raise TracedError


@contextmanager
def without(*code: str) -> Iterator[None]:
    """Replace functions of ``fa4_cute`` by ones that refuse."""
    with ExitStack() as stack:
        for name in code:
            stack.enter_context(mock.patch(f"fa4_cute.{name}", refuse))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("spec", PLAIN, ids=lambda s: s.name)
def test_plain_kernels_are_the_same_without_the_code_of_features(spec: AttentionSpec) -> None:
    expected = compiled(spec).ptx
    with without(*(name for feature in FEATURES.values() for name in feature.code)):
        assert compile_kernel(spec).ptx == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_kernels_with_a_feature_trace_its_code(name: str) -> None:
    """Otherwise the test above would say nothing."""
    feature = FEATURES[name]
    kind = KernelSpec if feature.head_dim < SMALLEST_DEPTH else Depth512Spec
    spec = kind.for_attention(feature.dtype, feature.head_dim, variant=feature.variant)
    compiled(PLAIN[0])  # imports the DSL
    for code in feature.code:
        with without(code), pytest.raises(TracedError):
            compile_kernel(spec)


@pytest.mark.slow
@pytest.mark.parametrize("spec", PLAIN, ids=lambda s: s.name)
def test_plain_kernels_have_no_parameter_and_no_access_of_a_feature(spec: AttentionSpec) -> None:
    ptx = compiled(spec).ptx
    assert spec.params == KERNEL_PARAMS
    assert len(re.findall(r"\.param \S", ptx.split(".entry")[1].split("{")[0])) == len(
        KERNEL_PARAMS.params
    )
    assert "ld.global" not in ptx
    assert ("st.global" in ptx) == spec.return_lse
    assert not re.search(r"cp\.async\.bulk\.shared\S* \[", ptx), "a copy without tensor map"


def test_neutral_arguments_choose_the_plain_kernel() -> None:
    inputs = tuple(torch.zeros(1, 300, 2, 64, dtype=torch.bfloat16) for _ in "qkv")
    neutral: dict[str, Any] = {"mask": masks.full(), "window_size": (-1, None), "softcap": 0}
    chosen = [
        choose(request(inputs, options).problem)
        for options in (
            Options(causal=True),
            Options(causal=True, num_splits=1, scheduler="tile", **neutral),
            Options(window_size=(None, 0)),
            Options(causal=True, mask=masks.causal()),
        )
    ]
    assert all(isinstance(choice, Choice) for choice in chosen)
    assert len({choice.spec for choice in chosen if isinstance(choice, Choice)}) == 1

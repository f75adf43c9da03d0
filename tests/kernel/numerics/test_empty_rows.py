"""Rows and sequences that see no key, and memory that must not matter, in every kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.plan.facts.hardware import SM90A
from testing.arguments import ints
from testing.cases import BF16, FP8, KERNELS, Case
from testing.runner import check
from tests.kernel.random_cases import also

SOME = ("one Q tile", "CTA pair")
some_kernels = pytest.mark.parametrize(
    "kernel",
    [pytest.param(k, marks=() if k in SOME else pytest.mark.exhaustive) for k in KERNELS],
)


def attend(kernel: str, *inputs: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    _, num_qo, pair_cta, _ = KERNELS[kernel]
    made: tuple[torch.Tensor, torch.Tensor] = fa4_cute.flash_attn(
        *inputs, return_lse=True, num_qo=num_qo, pair_cta=pair_cta, **options
    )
    return made


def operands(
    queries: int, keys: int, kernel: str, dtype: torch.dtype = BF16
) -> tuple[torch.Tensor, ...]:
    head_dim = KERNELS[kernel].head_dim
    generator = torch.Generator().manual_seed(queries + keys)
    shapes = [(2, queries, 2, head_dim)] + 2 * [(2, keys, 1, head_dim)]
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


EMPTY = {
    "padding of 0": {"mask": masks.padding(ints([0, 0]))},
    "no key used": {"seqused_k": ints([0, 0])},
    "bias of -inf": {"mask": masks.bias(torch.full((1, 1, 1, 50), -math.inf))},
    "window off the keys": {"mask": masks.chunked(100) & masks.padding(ints([0, 0]))},
}


BIAS = masks.bias(torch.zeros(1, 1, 1, 320))
CASES = [*zip(EMPTY, (False, True, True, False), strict=True)]
"""Why rows see no key, and whether there are sinks."""
FEW = {(kernel, CASES[i][0]) for kernel, some in zip(
    KERNELS, ((0,), (1,), (3,), (2,)), strict=True
) for i in some}  # fmt: skip
"""Each reason in one kernel; whether there are keys is asked in the same place."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "why", "sink"),
    [
        pytest.param(k, *case, marks=() if (k, case[0]) in FEW else pytest.mark.exhaustive)
        for k in KERNELS
        for case in CASES
    ],
)
def test_rows_without_keys_are_zero(
    kernel: str, why: str, sink: bool
) -> None:
    q, k, v = operands(20, 50, kernel)
    options: dict[str, Any] = dict(EMPTY[why])
    weights = torch.tensor([1.5, -3.0])
    if sink:
        options["sink"] = weights
    out, lse = attend(kernel, q, k, v, **options)
    assert torch.equal(out, torch.zeros_like(out))
    expected = weights[:, None].expand_as(lse) if sink else torch.full_like(lse, -math.inf)
    torch.testing.assert_close(lse, expected, atol=2e-6, rtol=1e-6)


@pytest.mark.slow
@some_kernels
@pytest.mark.parametrize("dtype", [BF16, *also(FP8)], ids=str)
def test_rows_before_the_first_key_are_zero(
    kernel: str, dtype: torch.dtype
) -> None:
    """More queries than keys, causal: the first rows stand before the first key."""
    q, k, v = operands(300, 40, kernel, dtype)
    out, lse = attend(kernel, q, k, v, causal=True)
    assert torch.equal(out[:, :260], torch.zeros_like(out[:, :260]))
    assert bool((lse[..., :260] == -math.inf).all())
    assert bool(torch.isfinite(lse[..., 260:]).all())
    # The first row with a key sees that one alone.
    torch.testing.assert_close(out[:, 260], v[:, :1, 0].to(out.dtype).expand_as(out[:, 260]))


@pytest.mark.slow
@some_kernels
@pytest.mark.parametrize(
    "page_size", [16, *also(256)]
)
def test_lengths_of_0_and_1_in_pages(kernel: str, page_size: int) -> None:
    """Memory after the last key and unused pages are NaN; tables name no page beyond."""
    plain = Case.of({"ragged", f"page{page_size}", "sink"}, kernel)
    outcome = check(replace(plain, lengths=((3, 0), (1, 1), (0, 5), (1, 129), (130, 1))))
    assert not outcome.out.isnan().any()


@pytest.mark.slow
@some_kernels
@pytest.mark.parametrize("operand", ["k", "v"])
@pytest.mark.parametrize(
    ("dtype", "extra"),
    [
        (BF16, {}),
        *also((FP8, {}), (BF16, {"mask": masks.causal() & BIAS | masks.chunked(64)})),
    ],
    ids=["bf16", "fp8", "union of biases"],
)
def test_stale_rows_never_reach_the_result(
    kernel: str, operand: str, dtype: torch.dtype, extra: dict[str, Any]
) -> None:
    """NaN after the last key changes no bit of the result."""
    q, k, v = operands(5, 320, kernel, dtype)
    used = ints([200, 131])
    clean = attend(kernel, q, k, v, seqused_k=used, **extra)
    stale = {"k": k, "v": v}[operand]
    for i, length in enumerate(used.tolist()):
        stale[i, length:] = math.nan
    found = attend(kernel, q, k, v, seqused_k=used, **extra)
    for x, y in zip(clean, found, strict=True):
        assert torch.equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(num_qo=1, heads=2, kv_heads=1),
        Case(head_dim=256, heads=2, kv_heads=1),
        Case(arch=SM90A, heads=2, kv_heads=1),
    ],
    ids=str,
)
def test_a_sink_without_any_key_is_combined(case: Case) -> None:
    """The split that carries the sink counts though it has no key, and its O is 0."""
    features, lengths = frozenset({"ragged", "split", "sink"}), ((5, 0), (5, 20))
    check(replace(case, features=features, lengths=lengths))

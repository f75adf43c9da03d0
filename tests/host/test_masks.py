"""User masks: how tensors become slots, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    NULL,
    AndMask,
    ChunkedMask,
    DenseBiasMask,
    OrMask,
    PaddingMask,
    SlidingWindowMask,
)

LENGTHS = torch.tensor([3, 5], dtype=torch.int32)
BIAS = torch.zeros(2, 1, 4, 8)
NOTHING: Any = None
"""Of a type that is refused."""


def test_masks_without_tensors() -> None:
    assert masks.full().plan == NULL
    assert masks.causal().plan == CAUSAL
    assert masks.sliding_window(7, 0).plan == SlidingWindowMask(7, 0)
    assert masks.sliding_window(None, 3).plan == SlidingWindowMask(None, 3)
    assert masks.chunked(64).plan == ChunkedMask(64)
    assert masks.chunked_causal(64).plan == AndMask(ChunkedMask(64), CAUSAL)


def test_tensors_are_numbered_from_left_to_right() -> None:
    other = torch.tensor([1, 2], dtype=torch.int32)
    mask = masks.padding(LENGTHS) | (masks.padding(other) & masks.bias(BIAS))
    assert mask.plan == OrMask(PaddingMask(0), AndMask(PaddingMask(1), DenseBiasMask(0)))
    assert [t is u for t, u in zip(mask.lengths, (LENGTHS, other), strict=True)] == [True, True]
    assert mask.biases[0] is BIAS


def test_the_same_tensor_takes_one_slot() -> None:
    view = LENGTHS[:]
    assert view is not LENGTHS
    mask = (masks.padding(LENGTHS) & masks.causal()) | (masks.padding(view) & masks.chunked(4))
    assert len(mask.lengths) == 1
    assert mask.plan == OrMask(
        AndMask(PaddingMask(0), CAUSAL), AndMask(PaddingMask(0), ChunkedMask(4))
    )


def test_views_of_the_same_memory_that_differ_take_two() -> None:
    square = torch.zeros(2, 2, 4, 4)
    mask = masks.bias(square) & masks.bias(square.transpose(2, 3))
    assert mask.plan == AndMask(DenseBiasMask(0), DenseBiasMask(1))


def test_a_mask_with_itself() -> None:
    assert (masks.causal() & masks.causal()).plan == CAUSAL
    assert (masks.causal() | masks.causal()).plan == CAUSAL
    both = masks.padding(LENGTHS) & masks.padding(LENGTHS)
    assert both.plan == PaddingMask(0)
    # Biases add up.
    assert (masks.bias(BIAS) & masks.bias(BIAS)).plan == AndMask(DenseBiasMask(0), DenseBiasMask(0))


def test_full_drops_out_of_and() -> None:
    assert (masks.full() & masks.causal()).plan == CAUSAL
    assert (masks.padding(LENGTHS) & masks.full()).plan == PaddingMask(0)


def test_masks_of_the_plan_are_taken_where_they_need_no_tensors() -> None:
    assert masks.as_mask(ChunkedMask(4)).plan == ChunkedMask(4)
    with pytest.raises(TypeError, match=r"lacks its tensors.*masks.padding\(lengths\)"):
        masks.as_mask(PaddingMask(0) & CAUSAL)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: masks.padding([3, 5]), TypeError, "padding lengths: expected a torch.Tensor"),
        (lambda: masks.bias(None), TypeError, "bias: expected a torch.Tensor, got NoneType"),
        (lambda: masks.causal() & BIAS, TypeError, "mask & Tensor: expected a mask"),
        (lambda: masks.causal() | NOTHING, TypeError, "mask | NoneType: expected a mask"),
        (lambda: masks.sliding_window(-1, 0), ValueError, "left=-1: must be 0 or more"),
        (lambda: masks.chunked(0), ValueError, "size=0: must be 1 or more"),
        (lambda: masks.as_mask(BIAS), TypeError, "fa4_cute.masks.bias(tensor)"),
        (lambda: masks.as_mask("causal"), TypeError, "mask=str: expected a mask"),
    ],
)
def test_refusals(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)


def test_explain_names_the_mask() -> None:
    text = fa4_cute.explain(head_dim=64, mask=masks.chunked(64) | masks.causal())
    assert (
        "mask chunked_64_or_causal: 2 intervals a row; the longest query tiles start first" in text
    )


@pytest.mark.parametrize(
    ("shape", "whole"),
    [((4, 8), (1, 1, 4, 8)), ((3, 4, 8), (1, 3, 4, 8)), ((2, 1, 4, 8), (2, 1, 4, 8))],
)
def test_booleans_are_masks(shape: tuple[int, ...], whole: tuple[int, ...]) -> None:
    visible = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    for mask in (masks.dense(visible), masks.as_mask(visible)):
        assert mask.plan == DenseBiasMask(0)
        (bias,) = mask.biases
        assert bias.shape == whole
        assert torch.equal(bias.isneginf(), ~visible.reshape(whole))
        assert not bias[~bias.isneginf()].any()


def test_booleans_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mask: shape \(8,\); nearest supported choice: \(seqlen"):
        masks.as_mask(torch.ones(8, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"mask\.dtype=torch\.float32.*masks\.bias"):
        masks.dense(torch.ones(4, 8))
    with pytest.raises(TypeError, match=r"mask: expected a torch\.Tensor, got list"):
        masks.dense([[True]])


@pytest.mark.slow
def test_booleans_hide_what_sdpa_hides() -> None:
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(2, 20, 2, 64, generator=generator).bfloat16() for _ in range(3))
    visible = torch.rand(20, 20, generator=generator) < 0.5
    visible[:, 0] = True
    lengths = torch.tensor([20, 20], dtype=torch.int32)
    found = fa4_cute.flash_attn(q, k, v, mask=visible)
    again = fa4_cute.flash_attn(q, k, v, mask=visible, seqused_k=lengths)
    assert torch.equal(again, found)
    heads_first = (x.transpose(1, 2).float() for x in (q, k, v))
    want = torch.nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=visible)
    torch.testing.assert_close(found.float(), want.transpose(1, 2), atol=0.02, rtol=0.02)

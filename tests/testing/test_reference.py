"""The yardsticks: exact in cases known by hand, and strict enough to reject wrong results."""

from __future__ import annotations

import math

import pytest
import torch

from testing.reference import attention as reference
from testing.reference.attention import (
    ResultError,
    attention_float64,
    attention_plain,
    compare,
    visible,
)

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(
    seqlen_q: int = 33, seqlen_k: int = 47, heads_q: int = 4, heads_k: int = 2, d: int = 64
) -> Tensors:
    generator = torch.Generator().manual_seed(1)
    shapes = ((2, seqlen_q, heads_q, d), (2, seqlen_k, heads_k, d), (2, seqlen_k, heads_k, d))
    q, k, v = (torch.randn(s, generator=generator).to(torch.bfloat16) for s in shapes)
    return q, k, v


def test_mask_is_aligned_to_the_bottom_right() -> None:
    assert visible(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert visible(3, 1).int().tolist() == [[0], [0], [1]]


def test_one_key_gives_its_value() -> None:
    q, k, v = inputs(seqlen_k=1)
    exact = attention_float64(q, k, v)
    assert torch.equal(exact.out, v.double().repeat_interleave(2, dim=2).expand_as(exact.out))
    scores = (q.double() * k.double().repeat_interleave(2, dim=2)).sum(-1) / 8
    assert torch.allclose(exact.lse, scores.transpose(1, 2), atol=1e-12)


def test_scale_zero_gives_the_mean() -> None:
    q, k, v = inputs()
    exact = attention_float64(q, k, v, softmax_scale=0.0)
    mean = v.double().mean(1, keepdim=True).repeat_interleave(2, dim=2).expand_as(exact.out)
    assert torch.allclose(exact.out, mean, atol=1e-12)
    assert torch.allclose(exact.lse, torch.full_like(exact.lse, math.log(47)))


def test_agrees_with_pytorch() -> None:
    q, k, v = (t.double() for t in inputs(40, 40))
    exact = attention_float64(q, k, v, causal=True, softmax_scale=0.3)
    other = torch.nn.functional.scaled_dot_product_attention(
        *(t.transpose(1, 2) for t in (q, k, v)), is_causal=True, scale=0.3, enable_gqa=True
    )
    assert torch.allclose(exact.out, other.transpose(1, 2), atol=1e-12)


def test_rows_without_keys() -> None:
    q, k, v = inputs(seqlen_q=5, seqlen_k=2)
    exact = attention_float64(q, k, v, causal=True)
    assert torch.all(exact.out[:, :3] == 0)
    assert torch.all(torch.isneginf(exact.lse[:, :, :3]))
    assert torch.all(torch.isfinite(exact.lse[:, :, 3:]))
    assert torch.all(attention_plain(q, k, v, causal=True)[:, :3] == 0)
    assert torch.all(attention_float64(q, k[:, :0], v[:, :0]).out == 0)


@pytest.mark.parametrize("causal", [False, True])
def test_a_rounded_exact_result_passes(causal: bool) -> None:
    q, k, v = inputs()
    exact = attention_float64(q, k, v, causal=causal)
    report = compare(exact.out.bfloat16(), exact.lse.float(), (q, k, v), causal=causal).check()
    assert report.ok
    assert report.max_error < report.limit
    assert report.max_lse_error is not None
    assert report.max_lse_error < 1e-5


def test_the_plain_result_passes() -> None:
    q, k, v = inputs()
    report = compare(attention_plain(q, k, v), None, (q, k, v)).check()
    assert report.max_error == report.plain_error


def spoiled(out: torch.Tensor, lse: torch.Tensor, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = out.clone(), lse.clone()
    if kind == "nan":
        out[1, 2, 3, 4] = math.nan
    elif kind == "one element":
        out[1, 2, 3, 4] += 0.2
    elif kind == "swapped heads":
        out[:, :, [0, 1]] = out[:, :, [1, 0]]
    elif kind == "lse":
        lse[1, 2, 3] += 0.01
    elif kind == "lse inf":
        lse[1, 2, 3] = math.inf
    elif kind == "lse nan":
        lse[1, 2, 3] = math.nan
    return out, lse


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("nan", "O[1, 2, 3, 4]"),
        ("one element", "O[1, 2, 3, 4]"),
        ("swapped heads", "O[0, 0, 0,"),
        ("lse", "LSE[1, 2, 3]"),
        ("lse inf", "LSE[1, 2, 3]"),
        ("lse nan", "LSE[1, 2, 3]"),
    ],
)
def test_wrong_results_fail_at_the_first_bad_coordinate(kind: str, where: str) -> None:
    q, k, v = inputs()
    exact = attention_float64(q, k, v)
    out, lse = spoiled(exact.out.bfloat16(), exact.lse.float(), kind)
    report = compare(out, lse, (q, k, v))
    assert not report.ok
    assert report.failures[0].startswith(where)
    with pytest.raises(ResultError, match="out of bounds"):
        report.check()


def test_a_small_wrong_row_does_not_hide_behind_a_large_one() -> None:
    q, k, v = inputs(heads_q=2, heads_k=2)
    v = v.clone()
    v[:, :, 0] *= 1000
    exact = attention_float64(q, k, v)
    out = exact.out.bfloat16()
    out[:, 7, 1] = 0
    report = compare(out, None, (q, k, v))
    assert report.max_error <= report.limit
    assert report.failures
    assert report.failures[0].startswith("O (element bound)[0, 7, 1, ")


def test_wrong_shapes_and_types_are_named() -> None:
    q, k, v = inputs()
    exact = attention_float64(q, k, v)
    report = compare(exact.out.bfloat16(), exact.lse.double(), (q, k, v))
    assert report.failures == ("LSE has dtype torch.float64, not float32",)


def test_rows_that_are_one_row_have_no_slopes() -> None:
    q = torch.zeros(1, 3, 1, 64)
    assert reference._rows_differ(q, None)
    assert reference._rows_differ(q, 0.125)
    assert not reference._rows_differ(q, 0.0)
    assert not reference._rows_differ(q, -1e-3)

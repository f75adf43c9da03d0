"""A softcap alone: scores share reciprocals, and nothing else of one another."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.plan.facts.hardware import SM90A, SM100A
from testing.reference.attention import compare
from tests.kernel.features.test_slopes import by_kernel, drawn
from tests.kernel.random_cases import also

CAP = 4.0


def called(
    operands: list[torch.Tensor], kernel: dict[str, Any], **call: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    options = {name: value for name, value in kernel.items() if name != "head_dim"}
    q, k, v = operands
    return fa4_cute.flash_attn(q, k, v, return_lse=True, softcap=CAP, **call, **options)


def spread(seqlens: tuple[int, int], head_dim: int) -> list[torch.Tensor]:
    """Scores far below the cap to far beyond it."""
    q, k, v = drawn(seqlens, head_dim)
    return [q * torch.logspace(-2, 1, seqlens[0])[:, None, None].bfloat16(), k, v]


@pytest.mark.slow
@by_kernel
@pytest.mark.parametrize(
    "mask", [None, masks.causal(), *also(masks.sliding_window(90, 20))],
    ids=lambda mask: mask.plan.name if mask else "all",
)  # fmt: skip
def test_any_score_beside_masks(kernel: dict[str, Any], mask: masks.AttentionMask | None) -> None:
    q, k, v = spread((150, 331), kernel["head_dim"])
    out, lse = called([q, k, v], kernel, mask=mask)
    found = compare(out, lse, (q, k, v), softcap=CAP, mask=mask)
    assert not found.failures, found.failures


@pytest.mark.slow
@by_kernel
@pytest.mark.parametrize("first", [128, 129, 130, 131])
def test_a_nan_that_no_row_sees_reaches_no_score(kernel: dict[str, Any], first: int) -> None:
    """Rows end at every place within the four scores that share a reciprocal."""
    q, k, v = drawn((140, 140), kernel["head_dim"])
    clean = called([q, k, v], kernel, causal=True)
    k[:, first:] = math.nan
    for before, now in zip(clean, called([q, k, v], kernel, causal=True), strict=True):
        by_row = 1 if now.ndim == 4 else 2
        seen, blind = now.split([first, 140 - first], by_row)
        # Rows of a warp keep or leave their old maxima together: roundings of P may differ.
        torch.testing.assert_close(seen, before.narrow(by_row, 0, first), atol=4e-3, rtol=0.02)
        assert blind.isnan().all()


@pytest.mark.slow
@by_kernel
def test_what_lies_behind_the_last_key_reaches_no_score(kernel: dict[str, Any]) -> None:
    q, k, v = drawn((140, 140), kernel["head_dim"])
    used = {"seqused_k": torch.tensor([101, 130], dtype=torch.int32)}
    clean = called([q, k, v], kernel, **used)
    for number, last in enumerate(used["seqused_k"].tolist()):
        k[number, last:] = math.nan
    for before, now in zip(clean, called([q, k, v], kernel, **used), strict=True):
        assert torch.equal(now, before)


@pytest.mark.slow
@by_kernel
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("which", [5, 129])
def test_a_nan_that_a_row_sees_makes_that_row_nan(
    kernel: dict[str, Any], which: int, *, causal: bool
) -> None:
    q, k, v = drawn((140, 140), kernel["head_dim"])
    k[0, which, 0] = math.nan
    out, lse = called([q, k, v], kernel, causal=causal)
    rows = torch.arange(140) >= (which if causal else 0)
    assert torch.equal(out[0, :, :2].isnan().all(-1), rows[:, None].expand(140, 2))
    assert torch.equal(lse[0, :2].isnan(), rows.expand(2, 140))
    assert not out[1].isnan().any()
    assert not out[0, :, 2:].isnan().any()


@pytest.mark.slow
@pytest.mark.parametrize("arch", [SM100A, SM90A])
@pytest.mark.parametrize("causal", [False, True])
def test_an_infinite_score_is_the_cap(arch: str, *, causal: bool) -> None:
    """``tanh`` of infinity is 1: the row stays finite, and so do scores beside it."""
    q, k, v = drawn((140, 140), 64)
    q[..., 0] = k[..., 0] = 0.0
    finite, infinite = ([x.clone() for x in (q, k, v)] for _ in range(2))
    for operands, size in ((finite, 1e9), (infinite, 2e19)):
        operands[0][..., 0] = size
        operands[1][:, 7, 0], operands[1][:, 134, 0] = size, -size
    kernel = {"head_dim": 64, "arch": arch}
    assert math.isinf((infinite[0].float()[0, 0, 0] @ infinite[1].float()[0, 7, 0]).item())
    for of_finite, of_infinite in zip(
        called(finite, kernel, causal=causal), called(infinite, kernel, causal=causal), strict=True
    ):
        assert torch.equal(of_infinite, of_finite)
        assert of_infinite.isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("arch", [SM100A, SM90A])
def test_every_column_is_as_accurate(arch: str) -> None:
    """Of one score that towers above others the log-sum-exp is that score, in each column.

    Some columns' powers are polynomials, which are as good as the hardware's.
    """
    cap, columns = 256.0, 16
    generator = torch.Generator().manual_seed(6)
    direction = torch.randn(64, generator=generator)
    q = torch.logspace(1.6, 2.6, 128)[:, None] * direction / direction.norm() * 8
    q = q.bfloat16().expand(columns, 1, 128, 64).transpose(1, 2).contiguous()
    k = torch.zeros(columns, columns, 1, 64)
    k[range(columns), range(columns), 0] = direction / direction.norm()
    k = k.bfloat16()
    _, lse = fa4_cute.flash_attn(q, k, k, softcap=cap, return_lse=True, arch=arch)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) / 8
    exact = (cap * torch.tanh(scores / cap)).logsumexp(-1)
    error = (lse.double() - exact).abs()
    assert (error <= 4e-6 * exact.abs() + 5e-7 * cap).all(), error.amax((1, 2))

"""ALiBi alone, which is added to raw scores: distances of both signs, any scale, any slope."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.plan.facts.hardware import SM90A, SM100A
from testing.reference.attention import compare
from tests.kernel.random_cases import also

KERNELS: tuple[dict[str, Any], ...] = (
    {"head_dim": 64, "num_qo": 2}, {"head_dim": 128, "num_qo": 1}, {"head_dim": 256},
    {"head_dim": 128, "num_qo": 2, "arch": SM90A},
)  # fmt: skip
MORE: tuple[dict[str, Any], ...] = (
    {"head_dim": 128, "num_qo": 2, "scheduler": "persistent"},
    {"head_dim": 128, "num_qo": 2, "scheduler": "dynamic"}, {"head_dim": 512},
    {"head_dim": 128, "num_splits": 2}, {"head_dim": 256, "arch": SM90A},
)  # fmt: skip
SLOPES = (0.5, 0.03, 2.0, -0.01)
"""Of four heads; the last adds to what is far."""
by_kernel = pytest.mark.parametrize("kernel", [*KERNELS, *also(*MORE)], ids=str)


def drawn(seqlens: tuple[int, int], head_dim: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    queries, keys = seqlens
    shapes = ((2, queries, 4), (2, keys, 2), (2, keys, 2))
    return [torch.randn(*shape, head_dim, generator=generator).bfloat16() for shape in shapes]


def require_right(kernel: dict[str, Any], seqlens: tuple[int, int], **call: Any) -> None:
    options = dict(kernel)
    q, k, v = drawn(seqlens, options.pop("head_dim"))
    call.setdefault("score_mod", score_mods.alibi(torch.tensor(SLOPES)))
    out, lse = fa4_cute.flash_attn(q, k, v, return_lse=True, **call, **options)
    found = compare(out, lse, (q, k, v), **call)
    assert not found.failures, found.failures


@pytest.mark.slow
@by_kernel
def test_keys_before_and_after_a_row(kernel: dict[str, Any]) -> None:
    """Tiles behind all rows of a warp, before them, and on both sides of some."""
    require_right(kernel, (150, 400))
    require_right(kernel, (400, 150))


@pytest.mark.slow
@by_kernel
@pytest.mark.parametrize(
    "mask", [masks.causal(), masks.sliding_window(90, 0), *also(masks.sliding_window(20, 130))],
    ids=lambda mask: mask.plan.name,
)  # fmt: skip
def test_beside_masks(kernel: dict[str, Any], mask: masks.AttentionMask) -> None:
    require_right(kernel, (200, 330), mask=mask)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, -0.2, 1e-12, 3.0])
@pytest.mark.parametrize("arch", [SM100A, SM90A])
def test_any_scale(arch: str, scale: float) -> None:
    """Slopes are divided by it, and are all that is left where it is 0."""
    require_right({"head_dim": 64, "arch": arch}, (40, 200), softmax_scale=scale)


@pytest.mark.slow
@pytest.mark.parametrize("arch", [SM100A, SM90A])
def test_a_steep_slope_leaves_a_key_at_distance_0_its_score(arch: str) -> None:
    steep = score_mods.alibi(torch.tensor([1e3, 1e6, 1e-6, 0.0]))
    require_right({"head_dim": 64, "arch": arch}, (130, 130), score_mod=steep)


@pytest.mark.slow
def test_slopes_of_each_sequence() -> None:
    of_each = torch.tensor([SLOPES, tuple(reversed(SLOPES))])
    require_right({"head_dim": 64, "num_qo": 2}, (140, 140), score_mod=score_mods.alibi(of_each))


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_far_keys_alone_are_as_accurate(causal: bool) -> None:
    """A row's bias may be thousands: what is equally far off for all its keys must cancel."""
    q, k, v = drawn((4, 3000), 64)
    call: dict[str, Any] = {"mask": masks.padding(torch.tensor([70, 100])), "causal": causal}
    score_mod = score_mods.alibi(torch.tensor([1.0, 0.25, 0.01, 3.0]))
    out, lse = fa4_cute.flash_attn(q, k, v, score_mod=score_mod, return_lse=True, **call)
    found = compare(out, lse, (q, k, v), score_mod=score_mod, **call)
    assert not found.failures, found.failures

"""Single features in every kernel, and what must hold besides the right numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.plan.facts.numbers import BRIEF_CAP
from testing.arguments import FEATURES, ints
from testing.cases import KERNELS, Case, is_possible
from testing.reference.attention import compare
from testing.runner import check
from tests.kernel.random_cases import also

HEAD_DIMS = (64, 256)
FEW_DIMS = (64, *also(256))
GROUPS = (
    ("window", "page64", "alibi", "sink"),
    ("causal", "ragged", "fp8"),
    ("chunked", "cache", "split", "softcap"),
    ("padding", "bias", "page16", "persistent"),
    ("union", "ragged", "page256", "function"),
    ("tokens", "window", "ragged", "softcap", "padding"),
    ("rope", "causal", "ragged", "sink"),
    ("cluster", "causal"),
    ("last", "ragged", "sink"),
    ("dynamic", "ragged", "page64", "sink"),
    ("stream_k", "cache", "window", "sink"),
)
"""Every feature at least once; each group is a kernel of its own, compiled in seconds."""


def test_every_feature_is_in_a_group() -> None:
    assert {name for group in GROUPS for name in group} == FEATURES.keys()


def title(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "+".join(value)


def cells() -> list[Any]:
    """Every group in the kernel with the fewest features so far; in the others on request."""
    made, number = [], dict.fromkeys(KERNELS, 0)
    for group in GROUPS:
        possible = [name for name in KERNELS if is_possible(group, *KERNELS[name])]
        usual = min(possible, key=number.__getitem__)
        number[usual] += len(group)
        made += [
            pytest.param(group, name, marks=() if name == usual else pytest.mark.exhaustive)
            for name in possible
        ]
    return made


CELLS = cells()


@pytest.mark.slow
@pytest.mark.parametrize(("features", "kernel"), CELLS, ids=title)
def test_features_of_a_group(features: tuple[str, ...], kernel: str) -> None:
    check(Case.of(features, kernel))


def test_every_run_has_every_feature_and_every_kernel_with_some_of_them() -> None:
    usual = [cell.values for cell in CELLS if not cell.marks]
    assert {name for group, _ in usual for name in group} == FEATURES.keys()
    for kernel in KERNELS:
        found = {name for group, where in usual if where == kernel for name in group}
        assert len(found) >= len(FEATURES) // 3, kernel


@pytest.mark.exhaustive
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("feature", FEATURES)
def test_one_feature(feature: str, kernel: str) -> None:
    if not is_possible({feature}, *KERNELS[kernel]):
        pytest.skip("no such kernel")
    check(Case.of({feature}, kernel))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        "two Q tiles",
        "CTA pair",
        *also("one Q tile", "two Q tiles per CTA of a pair"),
    ],
)
def test_a_function_and_a_bias_in_splits_of_persistent_ctas(kernel: str) -> None:
    """Key tiles have 64 keys where registers are scarcest."""
    names = "persistent split function bias ragged page16 padding causal sink"
    check(Case.of(names.split(), kernel))


def dense(seqlen_q: int, seqlen_k: int, head_dim: int = 64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(5)
    shapes = ((2, seqlen_q, 4, head_dim), (2, seqlen_k, 2, head_dim), (2, seqlen_k, 2, head_dim))
    return tuple(torch.randn(shape, generator=generator).bfloat16() for shape in shapes)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_rows_that_see_nothing(head_dim: int) -> None:
    q, k, v = dense(70, 100, head_dim)
    empty = masks.padding(torch.tensor([0, 100], dtype=torch.int32))
    # Of few keys without a mask, predictions choose the Q tiles of a CTA.
    out, lse = fa4_cute.flash_attn(q, k, v, mask=empty, return_lse=True, num_qo=1)
    assert torch.all(out[0] == 0)
    assert torch.all(lse[0] == -math.inf)
    assert torch.isfinite(out[1]).all()
    plain, plain_lse = fa4_cute.flash_attn(q[1:], k[1:], v[1:], return_lse=True, num_qo=1)
    assert torch.equal(out[1:], plain)
    assert torch.equal(lse[1:], plain_lse)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", FEW_DIMS)
def test_packed_keys_may_be_used_in_part(head_dim: int) -> None:
    q, k, v = (t.flatten(0, 1) for t in dense(40, 90, head_dim))
    starts_q, starts_k, used = ints([0, 30, 80]), ints([0, 100, 180]), ints([57, 0])
    k[57:], v[57:] = math.nan, math.nan
    options = {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k, "seqused_k": used}
    out, lse = fa4_cute.flash_attn_varlen(q, k, v, causal=True, return_lse=True, **options)
    compare(out, lse, (q, k, v), causal=True, **options).check()
    assert torch.all(out[30:] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", FEW_DIMS)
def test_more_splits_than_key_tiles(head_dim: int) -> None:
    q, k, v = dense(3, 200, head_dim)
    out = fa4_cute.flash_attn(q, k, v, num_splits=7)
    torch.testing.assert_close(out, fa4_cute.flash_attn(q, k, v), atol=1e-2, rtol=1e-2)


MORE_CAPS = also(0.01, 1.0, 256.0, 1e6)


@pytest.mark.slow
@pytest.mark.parametrize("cap", [50.0, 257.0, *MORE_CAPS])
def test_softcap_is_accurate(cap: float) -> None:
    """With one key the log-sum-exp is the capped score itself.

    Up to ``BRIEF_CAP`` a score near 0 loses digits, by some roundings of the cap.
    """
    generator = torch.Generator().manual_seed(2)
    q = torch.randn(1, 128, 1, 64, generator=generator).bfloat16()
    q *= torch.logspace(-4, 2, 128).view(1, 128, 1, 1)
    k = torch.randn(1, 1, 1, 64, generator=generator).bfloat16()
    _, lse = fa4_cute.flash_attn(q, k, k, softcap=cap, return_lse=True)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double())[..., 0] / 8
    exact = cap * torch.tanh(scores / cap)
    error = (lse.double() - exact).abs()
    lost = 5e-7 * cap if cap <= BRIEF_CAP else 1e-30
    assert (error <= 4e-6 * exact.abs() + lost).all(), (error / exact.abs()).max()


def unchanged(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    return score


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [64, *also(128, 192, 256)])
@pytest.mark.parametrize("scheduler", ["tile", *also("persistent", "dynamic")])
def test_a_softcap_alone_is_as_accurate_as_one_before_another_step(
    head_dim: int, scheduler: str
) -> None:
    """Alone, scores are capped four at a time, with the factors around it in its own.

    Other exponentials are polynomials then, each off by up to 9e-5 of itself.
    """
    q, k, v = dense(130, 200, head_dim)
    options: dict[str, Any] = {"causal": True, "return_lse": True, "scheduler": scheduler}
    alone, lse = fa4_cute.flash_attn(4 * q, k, v, softcap=30.0, **options)
    after = score_mods.chain(score_mods.softcap(30.0), score_mods.function(unchanged))
    chained, lse_after = fa4_cute.flash_attn(4 * q, k, v, score_mod=after, **options)
    torch.testing.assert_close(lse, lse_after, atol=9e-5, rtol=0)
    torch.testing.assert_close(alone, chained, atol=0.004, rtol=2**-7)  # one rounding of bf16

"""The public calls with q and k wider than v, and with rope columns of a type of their own."""

import math
from typing import Any

import pytest
import torch

import fa4_cute
from testing.reference.attention import compare

pytestmark = pytest.mark.slow
PAGE = 64


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def two_sequences_in_pages(*caches: torch.Tensor) -> dict[str, Any]:
    """Options of two sequences of 130 and 40 keys; the rows after their last key are nobody's."""
    for cache in caches:
        cache[1, 130 % PAGE :] = math.nan
        cache[4, 40:] = math.nan
    return {
        "cu_seqlens_q": torch.tensor([0, 50, 90], dtype=torch.int32),
        "seqused_k": torch.tensor([130, 40], dtype=torch.int32),
        "page_table": torch.tensor([[3, 0, 1], [4, -1, -1]], dtype=torch.int32),
    }


def test_dense_192_beside_128() -> None:
    shapes = ((70, 192), (200, 192), (200, 128))
    q, k, v = (normal(2, n, 2, d, seed=n + d).bfloat16() for n, d in shapes)
    out, lse = fa4_cute.flash_attn(q, k, v, causal=True, return_lse=True)
    assert out.shape == (2, 70, 2, 128)
    compare(out, lse, (q, k, v), causal=True).check()


@pytest.mark.parametrize(
    ("pair_cta", "depth"), [(True, 64), pytest.param(False, 128, marks=pytest.mark.exhaustive)]
)
def test_own_type_packed_and_paged(pair_cta: bool, depth: int) -> None:
    """Of a pair each CTA loads 96 keys of the 192 of a tile: one page and a half."""
    q = normal(90, 2, depth, seed=1).bfloat16()
    k, v = (normal(5, PAGE, 1, depth, seed=seed).bfloat16() for seed in (2, 3))
    q_rope, k_rope = normal(90, 2, 64, seed=4).half(), normal(5, PAGE, 1, 64, seed=5).half()
    options = {
        **two_sequences_in_pages(k, v, k_rope),
        "causal": True,
        "q_rope": q_rope,
        "k_rope": k_rope,
        "pair_cta": pair_cta,
    }
    out, lse = fa4_cute.flash_attn_varlen(q, k, v, return_lse=True, **options)
    compare(out, lse, (q, k, v), **options).check()


def test_split_keys_and_a_sink() -> None:
    q, k = (normal(1, n, 4, 192, seed=n).bfloat16() for n in (20, 900))
    v = normal(1, 900, 4, 128, seed=7).bfloat16()
    options = {"num_splits": 3, "sink": normal(4, seed=8)}
    out, lse = fa4_cute.flash_attn(q, k, v, return_lse=True, **options)
    compare(out, lse, (q, k, v), **options).check()


def test_strided_rope_columns_are_copied_when_need_be() -> None:
    q, k, v = (normal(1, 40, 1, 128, seed=seed).bfloat16() for seed in (1, 2, 3))
    wide = [normal(1, 40, 1, 65, seed=seed).half() for seed in (4, 5)]
    options = {"q_rope": wide[0][..., 1:], "k_rope": wide[1][..., :64]}
    out = fa4_cute.flash_attn(q, k, v, **options)
    compare(out, None, (q, k, v), **options).check()


@pytest.mark.parametrize(
    ("dtype", "kernel"),
    [
        pytest.param(torch.bfloat16, {"num_qo": 1}, marks=pytest.mark.exhaustive),
        (torch.float16, {"num_qo": 2}),
        pytest.param(torch.bfloat16, {"num_qo": 2}, marks=pytest.mark.exhaustive),
        (torch.bfloat16, {"pair_cta": True}),
        pytest.param(torch.float16, {"pair_cta": True}, marks=pytest.mark.exhaustive),
    ],
)
def test_one_head_of_rope_columns_serves_all_heads(
    dtype: torch.dtype, kernel: dict[str, Any]
) -> None:
    """As MLA has it, in a type of its own or in that of the others."""
    q = normal(2, 150, 4, 128, seed=1).bfloat16()
    k, v = (normal(2, 400, 4, 128, seed=seed).bfloat16() for seed in (2, 3))
    rope = {
        "q_rope": normal(2, 150, 4, 64, seed=4).to(dtype),
        "k_rope": normal(2, 400, 1, 64, seed=5).to(dtype),
    }
    options = {"causal": True, **rope}
    out, lse = fa4_cute.flash_attn(q, k, v, return_lse=True, **kernel, **options)
    compare(out, lse, (q, k, v), **options).check()
    options["k_rope"] = rope["k_rope"].expand(-1, -1, 4, -1)
    if dtype != torch.bfloat16:
        copied = fa4_cute.flash_attn(q, k, v, **kernel, **options)
        assert torch.equal(out, copied)


@pytest.mark.parametrize("pair_cta", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_shared_rope_columns_in_pages(pair_cta: bool) -> None:
    q = normal(90, 4, 128, seed=1).bfloat16()
    k, v = (normal(5, PAGE, 2, 128, seed=seed).bfloat16() for seed in (2, 3))
    q_rope, k_rope = (normal(*s, 64, seed=4).bfloat16() for s in ((90, 4), (5, PAGE, 1)))
    options = {
        **two_sequences_in_pages(k, v, k_rope),
        "q_rope": q_rope,
        "k_rope": k_rope,
        "scheduler": "persistent",
        "pair_cta": pair_cta,
    }
    out, lse = fa4_cute.flash_attn_varlen(q, k, v, return_lse=True, **options)
    compare(out, lse, (q, k, v), **options).check()


GOOD = torch.zeros(1, 8, 1, 128, dtype=torch.bfloat16)
ROPE = torch.zeros(1, 8, 1, 64, dtype=torch.float16)


@pytest.mark.parametrize(
    ("rope", "error", "words"),
    [
        ((ROPE, None), TypeError, "k_rope: expected a torch.Tensor"),
        ((ROPE, ROPE[..., :32]), ValueError, "k_rope: head_dim=32"),
        ((ROPE, ROPE[:, :4]), ValueError, "k_rope: seqlen=4"),
        ((ROPE, ROPE.bfloat16()), TypeError, "k_rope.dtype=torch.bfloat16"),
        ((ROPE.bfloat16(), ROPE.bfloat16()), ValueError, r"torch.cat\(\(q, q_rope\), -1\)"),
        ((ROPE[0], ROPE[0]), ValueError, "q_rope: shape"),
        ((ROPE.clone().requires_grad_(), ROPE), NotImplementedError, "q_rope"),
    ],
)
def test_what_does_not_fit(rope: tuple[Any, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        fa4_cute.flash_attn(GOOD, GOOD, GOOD, q_rope=rope[0], k_rope=rope[1])
    support = fa4_cute.can_implement(GOOD, GOOD, GOOD, q_rope=rope[0], k_rope=rope[1])
    assert not support


def test_rope_columns_have_the_heads_of_k_or_one() -> None:
    wide, rope = torch.zeros(1, 8, 4, 128).bfloat16(), torch.zeros(1, 8, 4, 64).half()
    with pytest.raises(ValueError, match=r"k_rope: heads=2 .* differs from heads=4 of k"):
        fa4_cute.flash_attn(wide, wide, wide, q_rope=rope, k_rope=rope[:, :, :2])
    with pytest.raises(ValueError, match=r"q_rope: heads=1 .* differs from heads=4 of q"):
        fa4_cute.flash_attn(wide, wide, wide, q_rope=rope[:, :, :1], k_rope=rope[:, :, :1])


def test_explanations() -> None:
    shared: dict[str, Any] = {"head_dim": 192, "head_dim_v": 128, "heads_q": 8, "shared_rope": True}
    assert "_rope_bf16_shared" in fa4_cute.explain(**shared)
    support = fa4_cute.can_implement(head_dim=128, shared_rope=True)
    assert not support
    assert "there are no rope columns" in support.reason
    text = fa4_cute.explain(head_dim=192, head_dim_v=128, seqlen_q=1000, seqlen_k=1000)
    assert "192/128" in text
    assert fa4_cute.can_implement(head_dim=192, head_dim_v=128, rope_dtype="fp16")
    shared["pair_cta"] = True
    assert "_rope_bf16_shared_pair" in fa4_cute.explain(**shared)
    none = fa4_cute.can_implement(**{**shared, "head_dim": 256, "head_dim_v": 192})
    assert not none
    assert "192" in none.reason
    pair = fa4_cute.explain(head_dim=128, seqlen_q=4096, seqlen_k=4096, pair_cta=True)
    assert "cluster (2, 1, 1)" in pair

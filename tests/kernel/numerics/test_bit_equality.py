"""Results that must be the same bits, with the number of Q tiles and splits fixed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import score_mods
from testing.arguments import ints
from testing.cases import KERNELS

kernels = pytest.mark.parametrize("kernel", KERNELS)
EXHAUSTIVE = pytest.mark.exhaustive
FEW = ("two Q tiles", "CTA pair")
some_kernels = pytest.mark.parametrize(
    "kernel",
    [pytest.param(k, marks=() if k in FEW else EXHAUSTIVE) for k in KERNELS],
)
"""Both families in every run; the others compute with the same code."""


def mostly(usual: str) -> Any:
    """One kernel in every run, where each is a compilation or two."""
    return pytest.mark.parametrize(
        "kernel", [pytest.param(k, marks=() if k == usual else EXHAUSTIVE) for k in KERNELS]
    )


def tiles(kernel: str) -> dict[str, Any]:
    """Options that fix the kernel."""
    _, num_qo, pair_cta, _ = KERNELS[kernel]
    return {"num_qo": num_qo, "pair_cta": pair_cta, "return_lse": True}


def operands(batch: int, queries: int, keys: int, head_dim: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(batch * queries + keys)
    shapes = [(batch, queries, 4, head_dim)] + 2 * [(batch, keys, 2, head_dim)]
    return tuple(torch.randn(shape, generator=generator).bfloat16() for shape in shapes)


@pytest.mark.slow
@kernels
def test_decode_is_the_last_row_of_a_prefill(kernel: str) -> None:
    """Both the newest query alone, and a few of them as in speculative decoding."""
    q, k, v = operands(1, 150, 150, KERNELS[kernel].head_dim)
    options = {"causal": True, **tiles(kernel)}
    whole, whole_lse = fa4_cute.flash_attn(q, k, v, **options)
    for count in (1, 3):
        out, lse = fa4_cute.flash_attn(q[:, -count:], k, v, **options)
        assert torch.equal(out, whole[:, -count:])
        assert torch.equal(lse, whole_lse[..., -count:])


SLOPES = torch.tensor([0.02, 0.01, 0.005, 0.0])


@pytest.mark.slow
@mostly("CTA pair")
def test_decode_knows_where_the_query_stands(kernel: str) -> None:
    """The scores' maximum stays within 2**8 here.

    Where it grows by more, the rows of a warp rescale together, and neighbours move the moment.
    """
    q, k, v = operands(2, 90, 300, KERNELS[kernel].head_dim)
    options = {
        "window_size": (200, 0), "sink": SLOPES, "score_mod": score_mods.alibi(SLOPES),
        "softcap": 20.0, **tiles(kernel),
    }  # fmt: skip
    prefill, all_lse = fa4_cute.flash_attn(q, k, v, **options)
    decode, lse = fa4_cute.flash_attn(q[:, -1:], k, v, **options)
    assert torch.equal(decode, prefill[:, -1:])
    assert torch.equal(lse, all_lse[..., -1:])


@pytest.mark.slow
@some_kernels
@pytest.mark.parametrize("splits", [1, 3])
def test_batch_and_neighbours_do_not_matter(kernel: str, splits: int) -> None:
    """A sequence alone, and at another place of a batch with shorter and longer ones."""
    q, k, v = operands(3, 5, 400, KERNELS[kernel].head_dim)
    used = ints([7, 300, 400])
    options = {"num_splits": splits, "causal": True, **tiles(kernel)}
    together = fa4_cute.flash_attn(q, k, v, seqused_k=used, **options)
    for i in range(3):
        own = (x[i : i + 1] for x in (q, k, v))
        alone = fa4_cute.flash_attn(*own, seqused_k=used[i : i + 1], **options)
        for x, y in zip(together, alone, strict=True):
            assert torch.equal(x[i : i + 1], y)


@pytest.mark.slow
@mostly("two Q tiles")
def test_the_place_of_sequences_and_pages_does_not_matter(kernel: str) -> None:
    """Dense, in a packed batch, in a cache, and in pages in two orders."""
    head_dim = KERNELS[kernel].head_dim
    q, k, v = operands(2, 40, 200, head_dim)
    options = {"causal": True, **tiles(kernel)}
    found = [fa4_cute.flash_attn(q[:1], k[:1], v[:1], **options)]
    packed = fa4_cute.flash_attn_varlen(
        *(t.flatten(0, 1) for t in (q, k, v)),
        cu_seqlens_q=ints([0, 40, 80]), cu_seqlens_k=ints([0, 200, 400]), **options,
    )  # fmt: skip
    found.append((packed[0][None, :40], packed[1][None, :, :40]))
    used = ints([200, 150])
    cached = fa4_cute.flash_attn(q, k, v, seqused_k=used, **options)
    found.append((cached[0][:1], cached[1][:1]))
    for seed in range(2):
        order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))[:8].int()
        pages = [torch.full((9, 64, 2, head_dim), math.nan).bfloat16() for _ in "kv"]
        for x, cache in zip((k, v), pages, strict=True):
            for i, page in enumerate(order.tolist()):
                rows = x[i // 4, i % 4 * 64 : (i % 4 + 1) * 64]
                cache[page, : len(rows)] = rows
        table = order.view(2, 4)
        paged = fa4_cute.flash_attn(q, *pages, page_table=table, seqused_k=used, **options)
        found.append((paged[0][:1], paged[1][:1]))
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            assert torch.equal(x, y)

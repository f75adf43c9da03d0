"""Results that must be the same bits, with the number of Q tiles and splits fixed."""

from __future__ import annotations

import math

import pytest
import torch

import fa4_cute
from tests.kernel.feature_run import query_tiles

KERNELS = [(64, 2), (64, 1), (256, None)]
"""Head dim and Q tiles per CTA."""
kernels = pytest.mark.parametrize(("head_dim", "num_qo"), KERNELS, ids=str)


def dense(batch: int, queries: int, keys: int, head_dim: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(batch * queries + keys)
    shapes = [(batch, queries, 4, head_dim)] + 2 * [(batch, keys, 2, head_dim)]
    return tuple(torch.randn(shape, generator=generator).bfloat16() for shape in shapes)


@kernels
def test_decode_is_the_last_row_of_a_prefill(head_dim: int, num_qo: int | None) -> None:
    """Both the newest query alone, and a few of them as in speculative decoding."""
    q, k, v = dense(1, 150, 150, head_dim)
    with query_tiles(num_qo):
        whole, whole_lse = fa4_cute.flash_attn(q, k, v, causal=True, return_lse=True)
        for count in (1, 3):
            out, lse = fa4_cute.flash_attn(q[:, -count:], k, v, causal=True, return_lse=True)
            assert torch.equal(out, whole[:, -count:])
            assert torch.equal(lse, whole_lse[..., -count:])


@pytest.mark.slow
@kernels
@pytest.mark.parametrize("splits", [1, 3])
def test_batch_and_neighbours_do_not_matter(
    head_dim: int, num_qo: int | None, splits: int
) -> None:
    """A sequence alone, at another place of a longer batch, and beside longer sequences."""
    q, k, v = dense(3, 5, 400, head_dim)
    used = torch.tensor([7, 300, 400], dtype=torch.int32)
    with query_tiles(num_qo):
        both = fa4_cute.flash_attn(
            q, k, v, seqused_k=used, num_splits=splits, causal=True, return_lse=True
        )
        for i in range(3):
            alone = fa4_cute.flash_attn(
                q[i : i + 1], k[i : i + 1], v[i : i + 1], seqused_k=used[i : i + 1],
                num_splits=splits, causal=True, return_lse=True,
            )  # fmt: skip
            for x, y in zip(both, alone, strict=True):
                assert torch.equal(x[i : i + 1], y)


@pytest.mark.slow
@kernels
def test_the_place_of_pages_does_not_matter(head_dim: int, num_qo: int | None) -> None:
    q, k, v = dense(1, 9, 200, head_dim)
    used = torch.tensor([200], dtype=torch.int32)
    found = []
    with query_tiles(num_qo):
        for seed in range(2):
            order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))[:4].int()
            pages = [torch.full((9, 64, 2, head_dim), math.nan).bfloat16() for _ in "kv"]
            for x, cache in zip((k, v), pages, strict=True):
                for i, page in enumerate(order.tolist()):
                    rows = x[0, i * 64 : (i + 1) * 64]
                    cache[page, : len(rows)] = rows
            found.append(
                fa4_cute.flash_attn(
                    q, *pages, page_table=order[None], seqused_k=used, return_lse=True
                )
            )
        dense_result = fa4_cute.flash_attn(q, k, v, seqused_k=used, return_lse=True)
    for other in (found[1], dense_result):
        for x, y in zip(found[0], other, strict=True):
            assert torch.equal(x, y)

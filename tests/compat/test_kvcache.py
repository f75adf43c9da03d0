"""``flash_attn_with_kvcache``: new keys go into the cache, and what is read is the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fa4_cute import compat

from .plain import agree, attention, normal, offsets

ROOM, PAGE = 48, 16
USED = torch.tensor([20, 0], dtype=torch.int32)
TABLE = torch.tensor([[5, 0, 2], [1, 3, 4]], dtype=torch.int32)
NAN = float("nan")


def cache_of(used: list[int], rows: int = 2, seed: int = 5) -> torch.Tensor:
    """A cache (rows, ROOM, 2, 64) with NaN after the used keys."""
    cache = normal(rows, ROOM, 2, 64, seed=seed)
    for row, count in enumerate(used):
        cache[row, count:] = NAN
    return cache


def as_pages(cache: torch.Tensor) -> torch.Tensor:
    """The same cache in pages, in the order of ``TABLE``."""
    pages = torch.empty(TABLE.numel(), PAGE, *cache.shape[2:], dtype=cache.dtype)
    pages[TABLE.flatten().long()] = cache.view(-1, PAGE, *cache.shape[2:])
    return pages


def grown(cache: torch.Tensor, new: torch.Tensor, row: int) -> torch.Tensor:
    """The keys of a sequence after the call."""
    return torch.cat((cache[row, : int(USED[row])], new[row]))


DENSE = pytest.param("dense", marks=pytest.mark.exhaustive)


@pytest.mark.parametrize("kind", [DENSE, "paged", "chosen rows"])
def test_new_keys_are_appended_and_seen(kind: str) -> None:
    q, k, v = normal(2, 3, 4, 64), normal(2, 3, 2, 64, seed=1), normal(2, 3, 2, 64, seed=2)
    of_k, of_v = cache_of([20, 0]), cache_of([20, 0], seed=6)
    given: dict[str, Any] = {}
    caches = (of_k.clone(), of_v.clone())
    if kind == "paged":
        caches = (as_pages(of_k), as_pages(of_v))
        given = {"block_table": TABLE}
    elif kind == "chosen rows":
        caches = tuple(torch.stack((x[1], torch.full_like(x[0], NAN), x[0])) for x in caches)
        given = {"cache_batch_idx": torch.tensor([2, 0], dtype=torch.int32)}
    out, lse = compat.flash_attn_with_kvcache(
        q, *caches, k, v, cache_seqlens=USED, causal=True, return_softmax_lse=True, **given
    )
    for row in range(2):
        keys, values = grown(of_k, k, row), grown(of_v, v, row)
        agree(out[row], lse[row], attention(q[row], keys, values, causal=True))
    for cache, new in zip(caches, (k, v), strict=True):
        if kind == "paged":
            held = cache[TABLE.long()].flatten(1, 2)
        else:
            held = cache[[2, 0]] if kind == "chosen rows" else cache
        assert torch.equal(held[0, 20:23], new[0])
        assert torch.equal(held[1, :3], new[1])
        assert held[0, 23:].isnan().all()
    assert USED.tolist() == [20, 0], "the caller's lengths are the caller's"


@pytest.mark.slow
def test_queries_of_several_lengths_over_pages() -> None:
    starts = offsets([1, 6])
    q, of_k, of_v = normal(7, 4, 64), cache_of([20, 30]), cache_of([20, 30], seed=6)
    lengths = torch.tensor([20, 30], dtype=torch.int32)
    out = compat.flash_attn_with_kvcache(
        q, as_pages(of_k), as_pages(of_v), cache_seqlens=lengths, page_table=TABLE,
        cu_seqlens_q=starts, max_seqlen_q=6, causal=True, out=torch.empty_like(q),
    )  # fmt: skip
    for row, (first, last) in enumerate([(0, 1), (1, 7)]):
        count = int(lengths[row])
        exact = attention(q[first:last], of_k[row, :count], of_v[row, :count], causal=True)
        agree(out[first:last], None, exact)
    same = compat.flash_attn_varlen_func(
        q, as_pages(of_k), as_pages(of_v), starts, offsets([20, 30]), 6, causal=True,
        block_table=TABLE,
    )  # fmt: skip
    assert torch.equal(same, out)


ONE = normal(2, 1, 2, 64)
FULL = normal(2, ROOM, 2, 64)
Call = Callable[[torch.Tensor], Any]


def append(cache: torch.Tensor, k: Any, v: Any) -> Any:
    return compat.flash_attn_with_kvcache(ONE, cache, cache, k, v, cache_seqlens=3)


REFUSED: dict[str, tuple[type[Exception], str, Call]] = {
    "rotary": (NotImplementedError, r"rotary_cos: .*rotate q and k before",
               lambda c: compat.flash_attn_with_kvcache(ONE, c, c, rotary_cos=ONE)),
    "leftpad": (NotImplementedError, r"cache_leftpad: .*block_table",
                lambda c: compat.flash_attn_with_kvcache(ONE, c, c, cache_leftpad=USED)),
    "no room": (ValueError, r"cache_seqlens: 48 keys and 1 new ones do not fit into 48",
                lambda c: compat.flash_attn_with_kvcache(ONE, c, c, ONE, ONE, cache_seqlens=48)),
    "no such page": (ValueError, r"block_table: a page for new keys is not numbered from 0 to 5",
                     lambda c: compat.flash_attn_with_kvcache(
                         ONE, c.view(6, PAGE, 2, 64), c.view(6, PAGE, 2, 64), ONE, ONE,
                         cache_seqlens=USED, block_table=TABLE + 6)),
    "new keys of one head": (ValueError, r"k: shape \(2, 1, 1, 64\) .* choice: \(2, 1, 2, 64\)",
                             lambda c: append(c, ONE[:, :, :1], ONE)),
    "new keys of one sequence": (ValueError, r"v: shape \(1, 1, 2, 64\)",
                                 lambda c: append(c, ONE, ONE[:1])),
    "new keys of another type": (TypeError, r"k.dtype=torch.float16.*k.to\(torch.bfloat16\)",
                                 lambda c: append(c, ONE.half(), ONE)),
    "new keys as a list": (TypeError, r"k: expected a torch.Tensor, got list",
                           lambda c: append(c, [1.0], ONE)),
    "new keys with gradients": (NotImplementedError, r"v_cache.requires_grad=True",
                                lambda c: compat.flash_attn_with_kvcache(
                                    ONE, c, c.clone().requires_grad_(), ONE, ONE,
                                    cache_seqlens=3)),
    "rows in one place": (ValueError, r"k_cache: strides \(0, .*share memory",
                          lambda c: append(c[:1].expand(2, -1, -1, -1), ONE, ONE)),
    "negative lengths": (ValueError, r"cache_seqlens: -1 keys and 1 new",
                         lambda c: compat.flash_attn_with_kvcache(
                             ONE, c, c, ONE, ONE, cache_seqlens=torch.tensor([-1, 3]))),
    "no cache": (TypeError, r"k_cache: expected a torch.Tensor, got NoneType",
                 lambda c: compat.flash_attn_with_kvcache(ONE, None, c)),
    "k alone": (ValueError, r"k, v: new keys need both",
                lambda c: compat.flash_attn_with_kvcache(ONE, c, c, ONE, cache_seqlens=3)),
    "no lengths": (ValueError, r"k, v: .*cache_seqlens=0",
                   lambda c: compat.flash_attn_with_kvcache(ONE, c, c, ONE, ONE)),
    "two tables": (ValueError, r"page_table: another name",
                   lambda c: compat.flash_attn_with_kvcache(ONE, c, c, block_table=TABLE,
                                                            page_table=TABLE)),
    "rows and pages": (ValueError, r"cache_batch_idx: .*block_table\[cache_batch_idx\]",
                       lambda c: compat.flash_attn_with_kvcache(ONE, c, c, cache_batch_idx=USED,
                                                                block_table=TABLE)),
    "rows of odd length": (NotImplementedError, r"cache of 40 keys a row.*rows of 48 keys",
                           lambda c: compat.flash_attn_with_kvcache(
                               ONE, c[:, :40], c[:, :40], cache_batch_idx=USED)),
    "lengths of another batch": (ValueError, r"cache_seqlens: shape \(3,\)",
                                 lambda c: compat.flash_attn_with_kvcache(
                                     ONE, c, c, cache_seqlens=torch.zeros(3, dtype=torch.int32))),
    "lengths as text": (TypeError, r"cache_seqlens='3'",
                        lambda c: compat.flash_attn_with_kvcache(
                            ONE, c, c, cache_seqlens="3")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_before_anything_is_written(what: str) -> None:
    kind, words, call = REFUSED[what]
    cache = FULL.clone()
    with pytest.raises(kind, match=words):
        call(cache)
    assert torch.equal(cache, FULL)

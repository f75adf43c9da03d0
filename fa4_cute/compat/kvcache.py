"""``flash_attn_with_kvcache``: new keys are written into a cache, then all of them are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Unpack

from ..host.ask.checks import check_kind, check_no_grad
from ..host.interface import flash_attn, flash_attn_varlen
from .meaning import OPEN, Asked, Further, refuse_given
from .widths import Widths

if TYPE_CHECKING:
    import torch

PAGE_SIZES: Final = (256, 128, 64, 32, 16)
"""Keys per page that kernels read, largest first."""


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    *,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = OPEN,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    **further: Unpack[Further],
) -> Any:
    """Compute attention over a cache; other arguments are as for ``flash_attn_func``.

    Args:
        q: (batch, seqlen_q, num_q_heads, head_dim); (total_q, num_q_heads, head_dim) with
            ``cu_seqlens_q``.
        k_cache: (cache rows, room, num_kv_heads, head_dim), or (num_pages, page_size,
            num_kv_heads, head_dim) with a block table; page_size 16, 32, 64, 128 or 256.
        v_cache: shape of ``k_cache``; the head dimension may be smaller.
        k, v: (batch, seqlen_new, num_kv_heads, head_dim), in the caches' element type: written into
            the caches, in place, after the ``cache_seqlens`` keys already there; None adds none.
            Not with ``cu_seqlens_q``.
        rotary_cos, rotary_sin: refused; rotate before the call.
        cache_seqlens: keys of every sequence before the call: (batch,), int32, or one number for
            all; None means the whole cache.
        cache_batch_idx: (batch,), int32: cache row of each sequence.
        cache_leftpad: refused.
        block_table, page_table: (batch, pages_per_row), int32; two names of one argument.
        cu_seqlens_q, max_seqlen_q: queries of several lengths, as in flash-attn 3.
        rotary_interleaved: has no effect, since there is no rotation.

    Returns:
        O, shape of ``q``; with ``return_softmax_lse`` (O, LSE), LSE float32 of shape (batch,
        num_q_heads, seqlen_q), or (num_q_heads, total_q).

    Raises:
        TypeError, ValueError, NotImplementedError: as ``flash_attn_func``; nothing is written into
            the cache if lengths, pages or new keys are wrong.
    """
    refuse_given({"rotary_cos": rotary_cos, "rotary_sin": rotary_sin,
                  "cache_leftpad": cache_leftpad})  # fmt: skip
    for name, tensor in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        check_kind(name, tensor)
    asked = Asked(softmax_scale, causal, window_size, softcap, alibi_slopes, further)
    options, wanted = asked.options(num_splits), further.get("out")
    table = _one_table(block_table, page_table)
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    used = _lengths(cache_seqlens, batch, (q, k_cache, table))
    caches = (k_cache, v_cache)
    if cache_batch_idx is not None:
        caches, table = _rows_as_pages(caches, cache_batch_idx, table)
    if k is not None or v is not None:
        if k is None or v is None or cache_seqlens is None or cu_seqlens_q is not None:
            raise ValueError(
                "k, v: new keys need both tensors, cache_seqlens, and queries of one length; "
                "nearest supported choice: cache_seqlens=0 for an empty cache"
            )
        for name, new, cache in zip("kv", (k, v), caches, strict=True):
            check_kind(name, new)
            _check_new(name, new, cache, (batch, *k.shape[1:2]))
        place = _places(used, k.shape[1], caches[0], table, unchecked=options["unchecked"])
        for cache, new in zip(caches, (k, v), strict=True):
            cache[place] = new
        used = used + k.shape[1]
    widths = Widths.as_given(v_cache)
    options |= {"seqused_k": used, "page_table": table, "out": widths.writable(wanted)}
    if cu_seqlens_q is None:
        out, lse = flash_attn(q, *caches, **options)
    else:
        options["max_seqlen_q"] = max_seqlen_q
        out, lse = flash_attn_varlen(q, *caches, cu_seqlens_q=cu_seqlens_q, **options)
    return asked.returned(widths.cut(out, wanted), lse, attn_probs=False)


def _one_table(block_table: Any, page_table: Any) -> Any:
    if block_table is not None and page_table is not None:
        raise ValueError(
            "page_table: another name of block_table; nearest supported choice: one of them"
        )
    return page_table if block_table is None else block_table


def _lengths(given: Any, batch: int, where: tuple[Any, Any, Any]) -> Any:
    """Return the keys of each sequence, (batch,) int32; ``where`` is q, a cache and the table."""
    import torch

    q, cache, table = where
    if given is None:
        given = cache.shape[1] if table is None else cache.shape[1] * table.shape[1]
    if isinstance(given, bool) or not isinstance(given, int | torch.Tensor):
        raise TypeError(
            f"cache_seqlens={given!r}: expected an integer or a tensor of them, got "
            f"{type(given).__name__}"
        )
    if isinstance(given, int):
        return torch.full((batch,), given, dtype=torch.int32, device=q.device)
    if given.shape != (batch,) or given.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"cache_seqlens: shape {tuple(given.shape)} of {given.dtype}; nearest supported "
            f"choice: ({batch},) of torch.int32"
        )
    return given.int()


def _rows_as_pages(caches: tuple[Any, Any], rows: Any, table: Any) -> tuple[tuple[Any, Any], Any]:
    """Return the caches as pages, and the table that names the pages of the chosen ``rows``.

    Raises:
        ValueError: there is a table already.
        NotImplementedError: rows of a length that no page size divides.
    """
    import torch

    if table is not None:
        raise ValueError(
            "cache_batch_idx: pages are chosen by the block_table; nearest supported choice: "
            "block_table[cache_batch_idx]"
        )
    room = caches[0].shape[1]
    size = next((n for n in PAGE_SIZES if room % n == 0), None)
    if size is None or not all(x.stride(0) == room * x.stride(1) for x in caches):
        raise NotImplementedError(
            f"cache_batch_idx: a cache of {room} keys a row, strides {caches[0].stride()}, cannot "
            f"be read as pages; nearest supported choice: contiguous rows of "
            f"{-(-room // 16) * 16} keys"
        )
    pages = tuple(x.view(-1, size, *x.shape[2:]) for x in caches)
    per_row = room // size
    within = torch.arange(per_row, dtype=torch.int32, device=rows.device)
    return (pages[0], pages[1]), rows.int()[:, None] * per_row + within


def _check_new(name: str, new: Any, cache: Any, rows: tuple[int, ...]) -> None:
    """Refuse new keys or values that are not ``rows`` (batch, count) of the cache's.

    Raises:
        TypeError: of another element type.
        ValueError: of another shape, or rows of the cache share memory.
        NotImplementedError: gradients are asked for.
    """
    check_no_grad({name: new, f"{name}_cache": cache})
    if new.dtype != cache.dtype:
        raise TypeError(
            f"{name}.dtype={new.dtype}: differs from {name}_cache.dtype={cache.dtype}; nearest "
            f"supported choice: {name}.to({cache.dtype})"
        )
    wanted = (*rows, *cache.shape[2:])
    if tuple(new.shape) != wanted:
        raise ValueError(
            f"{name}: shape {tuple(new.shape)} for {name}_cache of {tuple(cache.shape)}; nearest "
            f"supported choice: {wanted}"
        )
    steps = zip(cache.shape, cache.stride(), strict=True)
    if any(count > 1 and step == 0 for count, step in steps):
        raise ValueError(
            f"{name}_cache: strides {cache.stride()}, so that its elements share memory, and new "
            f"ones are to be written; nearest supported choice: {name}_cache.contiguous()"
        )


def _places(
    used: Any, count: int, cache: Any, table: Any, *, unchecked: bool
) -> tuple[Any, Any]:
    """Return where ``count`` new keys after ``used`` go: two (batch, count) indices of the cache.

    Raises:
        ValueError: the room does not suffice, or a page does not exist.
    """
    import torch

    at = used.long()[:, None] + torch.arange(count, device=used.device)
    size = cache.shape[1]
    room = size if table is None else size * table.shape[1]
    if not unchecked and count and not bool(((at >= 0) & (at < room)).all()):
        worst = int(used.min()) if bool((used < 0).any()) else int(used.max())
        raise ValueError(
            f"cache_seqlens: {worst} keys and {count} new ones do not fit into {room}"
        )
    if table is None:
        return torch.arange(used.shape[0], device=used.device)[:, None].expand_as(at), at
    page = table.long().gather(1, at // size)
    if not unchecked and not bool(((page >= 0) & (page < cache.shape[0])).all()):
        raise ValueError(
            f"block_table: a page for new keys is not numbered from 0 to {cache.shape[0] - 1}"
        )
    return page, at % size

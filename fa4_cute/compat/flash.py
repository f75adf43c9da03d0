"""flash-attn's functions without a cache, under its names and with its meanings.

The first eight arguments keep flash-attn 2's order; the others go by keyword.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ..host.interface import flash_attn, flash_attn_varlen
from .meaning import OPEN, Asked, Further, refuse_dropout
from .widths import Widths

if TYPE_CHECKING:
    import torch


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = OPEN,
    softcap: float = 0.0,
    *,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    num_splits: int = 0,
    **further: Unpack[Further],
) -> Any:
    """Compute attention of a dense batch.

    Args:
        q: (batch, seqlen_q, num_q_heads, head_dim), bfloat16, float16 or float8_e4m3fn. With
            16-bit types, a head_dim that is not a multiple of 8 is padded, which copies q, k and v.
        k: (batch, seqlen_k, num_kv_heads, head_dim).
        v: (batch, seqlen_k, num_kv_heads, head_dim of v).
        dropout_p: 0; anything else is refused.
        softmax_scale: None means ``1 / sqrt(head_dim)``.
        causal: query ``i`` sees the keys ``j <= i + seqlen_k - seqlen_q``.
        window_size: (left, right) keys besides a query's own; -1 leaves a side open.
        softcap: ``softcap * tanh(score / softcap)``; 0 is off.
        alibi_slopes: float32, (num_q_heads,) or (batch, num_q_heads): ``-slope * |i + seqlen_k -
            seqlen_q - j|`` is added to the score, after ``softcap``.
        deterministic: has no effect; the forward pass always is.
        return_attn_probs: return (O, LSE, None), as flash-attn 2 does without dropout.
        num_splits: CTAs that share the keys of a query tile; 0 leaves it to the kernel.
        further: arguments of some versions of flash-attn, such as ``s_aux``, ``q_descale``,
            ``out`` and ``return_softmax_lse``: :class:`~fa4_cute.compat.meaning.Further`.

    Returns:
        O, shape of ``q`` with the head dimension of ``v``; with ``return_softmax_lse`` (O, LSE),
        LSE float32 of shape (batch, num_q_heads, seqlen_q).

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`fa4_cute.flash_attn`, or an argument
            asks for something that is not supported; the message names it.
    """
    refuse_dropout(dropout_p)
    asked = Asked(softmax_scale, causal, window_size, softcap, alibi_slopes, further)
    widths, wanted = Widths.of(q, v, softmax_scale), further.get("out")
    options = asked.options(num_splits) | {"softmax_scale": widths.scale}
    out, lse = flash_attn(*widths.padded(q, k, v), out=widths.writable(wanted), **options)
    return asked.returned(widths.cut(out, wanted), lse, attn_probs=return_attn_probs)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = OPEN,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    num_splits: int = 0,
    **further: Unpack[Further],
) -> Any:
    """Compute attention of packed sequences; other arguments are as for ``flash_attn_func``.

    Args:
        q: (total_q, num_q_heads, head_dim).
        k: (total_k, num_kv_heads, head_dim), or (num_pages, page_size, num_kv_heads, head_dim)
            with ``block_table``; page_size 16, 32, 64, 128 or 256.
        v: shape of ``k``; the head dimension may be smaller.
        cu_seqlens_q: (batch + 1,), int32: first row of each sequence in ``q``, and ``total_q``.
        cu_seqlens_k: the same for ``k``; with ``block_table`` only the lengths count, and None is
            allowed where ``seqused_k`` says them.
        max_seqlen_q, max_seqlen_k: longest sequence; None finds it by reading back.
        block_table: (batch, pages_per_row), int32: pages of each sequence, in order.
        seqused_k: (batch,), int32: keys of each sequence that count.

    Returns:
        O (total_q, num_q_heads, head dimension of v), or (O, LSE) with LSE float32 (num_q_heads,
        total_q).

    Raises:
        TypeError, ValueError, NotImplementedError: as ``flash_attn_func``.
    """
    refuse_dropout(dropout_p)
    asked = Asked(softmax_scale, causal, window_size, softcap, alibi_slopes, further)
    options, wanted = asked.options(num_splits), further.get("out")
    widths = Widths.of(q, v, softmax_scale) if block_table is None else Widths.as_given(v)
    if block_table is None:
        options |= {"softmax_scale": widths.scale, "cu_seqlens_k": cu_seqlens_k}
    elif seqused_k is None and cu_seqlens_k is not None:
        seqused_k = cu_seqlens_k.diff()
    out, lse = flash_attn_varlen(
        *widths.padded(q, k, v), out=widths.writable(wanted),
        cu_seqlens_q=cu_seqlens_q, seqused_k=seqused_k, page_table=block_table,
        max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, **options,
    )  # fmt: skip
    return asked.returned(widths.cut(out, wanted), lse, attn_probs=return_attn_probs)


def flash_attn_qkvpacked_func(qkv: torch.Tensor, *args: Any, **options: Any) -> Any:
    """``flash_attn_func`` of ``qkv`` (batch, seqlen, 3, num_heads, head_dim), read in place."""
    return flash_attn_func(*qkv.unbind(2), *args, **options)


def flash_attn_kvpacked_func(
    q: torch.Tensor, kv: torch.Tensor, *args: Any, **options: Any
) -> Any:
    """``flash_attn_func`` of ``kv`` (batch, seqlen_k, 2, num_kv_heads, head_dim)."""
    return flash_attn_func(q, *kv.unbind(2), *args, **options)


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor,
    cu_seqlens: torch.Tensor,
    max_seqlen: int | None = None,
    dropout_p: float = 0.0,
    **options: Any,
) -> Any:
    """``flash_attn_varlen_func`` of ``qkv`` (total, 3, num_heads, head_dim)."""
    q, k, v = qkv.unbind(1)
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, **options
    )


def flash_attn_varlen_kvpacked_func(
    q: torch.Tensor, kv: torch.Tensor, cu_seqlens_q: torch.Tensor, *args: Any, **options: Any
) -> Any:
    """``flash_attn_varlen_func`` of ``kv`` (total_k, 2, num_kv_heads, head_dim)."""
    k, v = kv.unbind(1)
    return flash_attn_varlen_func(q, k, v, cu_seqlens_q, *args, **options)

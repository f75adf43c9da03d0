"""``sdpa``: attention in the layout and with the meanings of torch's SDPA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import masks
from ..host.ask.checks import check_flag, check_kind
from ..host.interface import flash_attn
from .meaning import refuse_dropout

if TYPE_CHECKING:
    import torch


def sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    return_lse: bool = False,
) -> Any:
    """Compute what ``torch.nn.functional.scaled_dot_product_attention`` computes.

    Heads come before rows here, and ``is_causal`` is aligned to the top left.

    Args:
        query: (..., num_q_heads, seqlen_q, head_dim), bfloat16 or float16.
        key: (..., num_kv_heads, seqlen_k, head_dim).
        value: (..., num_kv_heads, seqlen_k, head_dim of v).
        attn_mask: a tensor that broadcasts to (..., num_q_heads, seqlen_q, seqlen_k): boolean,
            where True shows a key; or float, added to the scaled scores. A query that sees no key
            has O = 0.
        dropout_p: 0; anything else is refused.
        is_causal: query ``i`` sees the keys ``j <= i``; not together with ``attn_mask``.
        scale: None means ``1 / sqrt(head_dim)``.
        enable_gqa: ``num_q_heads`` may be a multiple of ``num_kv_heads``.
        return_lse: also return the log-sum-exp.

    Returns:
        O, shape of ``query`` with the head dimension of ``value``; or (O, LSE) with LSE float32 of
        shape (..., num_q_heads, seqlen_q).

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`fa4_cute.flash_attn`; the message
            names the argument.
    """
    refuse_dropout(dropout_p)
    check_flag("is_causal", is_causal)
    check_flag("enable_gqa", enable_gqa)
    _check_shapes(query, key, value, enable_gqa=enable_gqa)
    if is_causal and attn_mask is not None:
        raise ValueError(
            "is_causal=True with an attn_mask: torch takes one of them; nearest supported choice: "
            "attn_mask & torch.ones(seqlen_q, seqlen_k, dtype=torch.bool).tril()"
        )
    q, k, v = (_rows_first(x) for x in (query, key, value))
    options: dict[str, Any] = {}
    seqlen_q, seqlen_k = q.shape[1], k.shape[1]
    if is_causal and seqlen_k < seqlen_q:
        # Rows are counted from the last key here, so that the diagonal lies further right.
        options["mask"] = masks.sliding_window(None, seqlen_q - seqlen_k)
    elif is_causal:
        k, v = k[:, :seqlen_q], v[:, :seqlen_q]  # no query sees the keys after these
        options["causal"] = True
    elif attn_mask is not None:
        shape = (*query.shape[:-1], seqlen_k)
        options["mask"] = _mask_of(attn_mask, shape)
    out, lse = flash_attn(q, k, v, softmax_scale=scale, return_lse=True, **options)
    out = out.transpose(1, 2).reshape(*query.shape[:-1], value.shape[-1])
    return (out, lse.reshape(query.shape[:-1])) if return_lse else out


def _check_shapes(query: Any, key: Any, value: Any, *, enable_gqa: bool) -> None:
    """Refuse what does not fit, in the words of SDPA's layout."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_kind(name, tensor)
        if tensor.dim() < 3:
            raise ValueError(
                f"{name}: shape {tuple(tensor.shape)} has {tensor.dim()} dimensions; expected "
                f"(..., heads, seqlen, head_dim)"
            )
        if tensor.shape[:-3] != query.shape[:-3]:
            raise ValueError(
                f"{name}: shape {tuple(tensor.shape)} has other batch dimensions than query, shape "
                f"{tuple(query.shape)}; nearest supported choice: {name}.expand of those"
            )
    if value.shape[:-1] != key.shape[:-1]:
        raise ValueError(
            f"value: shape {tuple(value.shape)} differs from key, shape {tuple(key.shape)}, in "
            f"heads or seqlen; the layout is (..., heads, seqlen, head_dim)"
        )
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(
            f"key: head_dim={key.shape[-1]} differs from head_dim={query.shape[-1]} of query"
        )
    if key.shape[-3] != query.shape[-3] and not enable_gqa:
        raise ValueError(
            f"key: {key.shape[-3]} heads for the {query.shape[-3]} heads of query; nearest "
            f"supported choice: enable_gqa=True"
        )


def _rows_first(x: Any) -> Any:
    """Return (..., heads, rows, columns) as (batch, rows, heads, columns); a view where it can."""
    return x.reshape(-1, *x.shape[-3:]).transpose(1, 2)


def _mask_of(attn_mask: Any, shape: tuple[int, ...]) -> masks.AttentionMask:
    """Return SDPA's mask as one of (batch, heads, seqlen_q, seqlen_k).

    Args:
        attn_mask: boolean or float, of any shape that broadcasts to ``shape``.
        shape: (..., heads, seqlen_q, seqlen_k).

    Raises:
        TypeError: it is no tensor, or of another type.
        ValueError: it does not broadcast.
    """
    import torch

    check_kind("attn_mask", attn_mask)
    if attn_mask.dtype != torch.bool and not attn_mask.is_floating_point():
        raise TypeError(
            f"attn_mask.dtype={attn_mask.dtype}: expected torch.bool or a float type; nearest "
            f"supported choice: attn_mask.bool()"
        )
    have = (1,) * (len(shape) - attn_mask.dim()) + tuple(attn_mask.shape)
    fits = len(have) == len(shape) and all(n in (1, m) for n, m in zip(have, shape, strict=True))
    if not fits:
        raise ValueError(
            f"attn_mask: shape {tuple(attn_mask.shape)} does not broadcast to {shape}, (..., "
            f"heads, seqlen_q, seqlen_k)"
        )
    found = attn_mask.reshape(have)
    if len(have) > 4 and any(n > 1 for n in have[:-3]):
        found = found.expand(*shape[:-3], *have[-3:])
    found = found.reshape(-1, *have[-3:]) if len(have) != 3 else found[None]
    found = found if have[-1] == shape[-1] else found.expand(*found.shape[:-1], shape[-1])
    return masks.dense(found) if found.dtype == torch.bool else masks.bias(found)

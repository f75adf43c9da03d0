"""``attn_implementation="fa4_cute"`` for Hugging Face's transformers.

::

    import fa4_cute.integrations.transformers
    model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16",
                                                 attn_implementation="fa4_cute")

Importing registers the name with transformers' ``AttentionInterface`` and
``AttentionMaskInterface``; models that run already switch with
``model.set_attn_implementation("fa4_cute")``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from transformers import AttentionInterface
from transformers.masking_utils import (
    AttentionMaskInterface,
    bidirectional_mask_function,
    causal_mask_function,
    prepare_padding_mask,
    sdpa_mask,
)

from .. import masks
from ..compat.meaning import refuse_dropout
from ..host.interface import flash_attn

NAME: Final = "fa4_cute"


def attention_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    *,
    config: Any = None,
    **options: Any,
) -> torch.Tensor | None:
    """Return what :func:`attention_forward` gets as its mask; transformers calls it once a pass.

    Causal masks and sliding windows stay intervals, of which only the padding is a tensor; every
    other mask (chunks, packed sequences, images among text, static caches) is written out.

    Args:
        batch_size, q_length, kv_length: sizes of the scores.
        q_offset, kv_offset: positions of the first query and the first key.
        mask_function: transformers' function of (batch, head, query, key).
        attention_mask: (batch, keys so far), boolean, False where there is padding.
        local_size: keys of a sliding window or of a chunk.
        config: the model's configuration.
        options: the other arguments of ``sdpa_mask``.

    Returns:
        None where nothing is padded; (batch, kv_length) where padding is all that the module's own
        causal mask and window lack; else (batch, 1, seqlen_q or 1, kv_length) with the whole mask.
    """
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = padding[:, kv_offset : kv_offset + kv_length].bool()
    if mask_function is bidirectional_mask_function and padding is not None:
        # SDPA takes the module's word for causality where there is no mask; so it does here.
        is_skipped = options.get("allow_is_bidirectional_skip", False) and bool(padding.all())
        return None if is_skipped else padding[:, None, None, :]
    at_end = isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length
    is_interval = mask_function is causal_mask_function or _is_window(config, local_size)
    if options.get("allow_is_causal_skip", True) and at_end and is_interval:
        return None if padding is None or bool(padding.all()) else padding
    options["allow_is_causal_skip"] = False
    return sdpa_mask(
        batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask,
        local_size, **options,
    )  # fmt: skip


def _is_window(config: Any, local_size: int | None) -> bool:
    """Whether a local mask is the sliding window that modules pass on, and no chunk."""
    window = getattr(config, "sliding_window", None)
    chunk = getattr(config, "attention_chunk_size", None)
    return local_size is not None and local_size == window and chunk is None


def attention_forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute the attention of a transformers module.

    Args:
        module: the attention module; its ``is_causal`` counts where the argument is None.
        query: (batch, num_q_heads, seqlen_q, head_dim), bfloat16 or float16.
        key, value: (batch, num_kv_heads, seqlen_k, head_dim).
        attention_mask: as :func:`attention_mask` returns it, or a model's own mask of four
            dimensions, boolean or float, which is then the whole mask.
        dropout: 0.
        scaling: softmax scale.
        is_causal: aligned to the bottom right.
        options: ``sliding_window`` (keys, the query's own included), ``softcap``, ``s_aux`` (sinks,
            (num_q_heads,)), ``position_bias`` (added to the scores); what else modules pass is not
            about attention.

    Returns:
        (batch, seqlen_q, num_q_heads, head_dim), and None for the weights.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`fa4_cute.flash_attn`; also for
            dropout, attention weights as a result, and the paged cache of continuous batching.
    """
    refuse_dropout(dropout)
    if options.get("output_attentions", False):
        raise NotImplementedError(
            "output_attentions=True: there are no weights to return; nearest supported choice: "
            "attn_implementation='eager'"
        )
    if options.get("cache") is not None:
        raise NotImplementedError(
            "cache: continuous batching keeps keys in pages of its own; nearest supported choice: "
            "model.generate, or fa4_cute.flash_attn_varlen with page_table"
        )
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    dtype = query.dtype
    q, k, v = (_narrow(x, module, value).transpose(1, 2) for x in (query, key, value))
    whole = attention_mask is not None and attention_mask.dim() == 4
    out = flash_attn(
        q, k, v,
        causal=causal and not whole,
        softmax_scale=scaling,
        mask=_mask_of(attention_mask, options.get("position_bias")),
        window_size=None if whole else _window(options.get("sliding_window"), causal),
        softcap=options.get("softcap"),
        sink=_sink(options.get("s_aux")),
    )  # fmt: skip
    return out.to(dtype), None


def _window(sliding_window: int | None, causal: bool) -> tuple[int, int] | None:
    """Return (left, right); a causal query's own key is among the ``sliding_window`` ones."""
    if sliding_window is None:
        return None
    return (sliding_window - 1, 0) if causal else (sliding_window, sliding_window)


def _sink(s_aux: torch.Tensor | None) -> torch.Tensor | None:
    return None if s_aux is None else s_aux.detach().float()


def _mask_of(shown: torch.Tensor | None, position_bias: torch.Tensor | None) -> Any:
    """Return mask and bias as one mask of :mod:`fa4_cute.masks`, or None."""
    found = [] if shown is None else [_bias(shown if shown.dim() == 4 else shown[:, None, None])]
    if position_bias is not None:
        found.append(_bias(position_bias))
    if not found:
        return None
    return found[0] if len(found) == 1 else found[0] & found[1]


def _bias(tensor: torch.Tensor) -> masks.AttentionMask:
    """Return a mask of four dimensions, boolean or float, as what is added to the scores."""
    return masks.dense(tensor) if tensor.dtype == torch.bool else masks.bias(tensor.detach())


def _narrow(x: torch.Tensor, module: Any, value: torch.Tensor) -> torch.Tensor:
    """Return ``x`` in the 16-bit type of the module, where a norm or autocast left float32."""
    if x.dtype != torch.float32:
        return x
    if value.dtype != torch.float32:
        return x.to(value.dtype)
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        return x.to(torch.get_autocast_dtype(kind))
    weights = (p.dtype for p in module.parameters() if p.dim() > 1)
    return x.to(next((t for t in weights if t in (torch.bfloat16, torch.float16)), x.dtype))


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, attention_mask)

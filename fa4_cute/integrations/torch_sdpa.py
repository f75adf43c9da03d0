"""``FA4_CUTE`` among torch's flash attention implementations.

::

    import fa4_cute.integrations.torch_sdpa
    from torch.nn.attention import activate_flash_attention_impl, restore_flash_attention_impl

    activate_flash_attention_impl("FA4_CUTE")    # F.scaled_dot_product_attention, varlen_attn
    restore_flash_attention_impl()               # torch's own again

Importing registers the name and activates nothing. While it is active, SDPA's flash attention and
``varlen_attn`` run here, on CPU and on CUDA tensors. What cannot run here (float32, a backward
pass, a device without a kernel) is computed by torch where torch has a kernel, with the reason in
the log of this module (level INFO); elsewhere it is refused with the reason.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import torch

from .. import score_mods
from ..compat.meaning import refuse_dropout
from ..compat.sdpa_layout import sdpa
from ..host.interface import flash_attn, flash_attn_varlen

NAME: Final = "FA4_CUTE"
_LOG: Final = logging.getLogger(__name__)
_KEYS: Final = ("CPU", "CUDA")
_is_torch: Final = ContextVar("is_torch", default=False)
"""Whether torch's own kernel is being called: then the operators inside are torch's, too."""


class _Active:
    """What torch's registry holds while the implementation is active."""

    def __init__(self, library: torch.library.Library) -> None:
        self._library: torch.library.Library | None = library

    def remove(self) -> None:
        """Give the operators back to torch."""
        self._library = None


def activate() -> _Active:
    """Take over the operators of flash attention; torch's registry calls this.

    Returns:
        A handle whose ``remove()`` gives them back.
    """
    library = torch.library.Library("aten", "IMPL")
    ours: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
        "_scaled_dot_product_flash_attention_for_cpu": (_sdpa_on_cpu, ("CPU",)),
        "_scaled_dot_product_flash_attention": (_sdpa_on_cuda, _KEYS),
        "_flash_attention_forward": (_forward, _KEYS),
        "_flash_attention_forward_no_dropout_inplace": (_forward_into, _KEYS),
        "_flash_attention_backward": (_backward, ("CPU",)),
    }
    with warnings.catch_warnings():
        # Taking over is the purpose; torch warns of it.
        warnings.filterwarnings("ignore", message=".*overrid.*", category=UserWarning)
        for name, (function, keys) in ours.items():
            if not hasattr(torch.ops.aten, name):
                continue  # torch 2.12 and before: no form with the output given
            for key in keys:
                served = partial(_served, name, function, _kernel_of_torch(name, key))
                library.impl(name, served, key, with_keyset=True)
    return _Active(library)


def _kernel_of_torch(name: str, key: str) -> Any:
    """Return torch's own kernel of an operator, or None where this build of torch has none."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
        return None
    return torch.library.get_kernel(f"aten::{name}", key)


def _served(
    name: str, function: Callable[..., Any], kernel: Any, keyset: Any, *args: Any, **options: Any
) -> Any:
    """Return the result of ``function``, or of torch's ``kernel`` for what cannot run here.

    Raises:
        RuntimeError: it cannot run here, and torch has no kernel for it.
    """
    if not (_is_torch.get() and kernel):
        try:
            _refuse_grad(args)
            return function(*args, **options)
        except NotImplementedError as reason:
            if kernel is None:
                raise RuntimeError(f"{NAME} {name}: not supported: {reason}") from reason
            _LOG.info("%s %s: computed by torch: %s", NAME, name, reason)
    # On CUDA torch's SDPA calls another operator of these, where nothing tells of a backward pass.
    before = _is_torch.set(True)
    try:
        return kernel.call_boxed(keyset, *args, **options)
    finally:
        _is_torch.reset(before)


def _sdpa_on_cpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """SDPA on CPU tensors: O and the log-sum-exp, the memory in the order of torch's kernel."""
    out, lse = sdpa(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa=True, return_lse=True
    )
    return _laid_out(out, query), lse.transpose(1, 2).contiguous().transpose(1, 2)


def _sdpa_on_cuda(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """SDPA's flash attention on CUDA tensors, with the nine results of torch's operator."""
    _refuse_debug_mask(return_debug_mask)
    out, lse = sdpa(
        query, key, value, None, dropout_p, is_causal, scale, enable_gqa=True, return_lse=True
    )
    sizes = (query.shape[2], key.shape[2])
    return _laid_out(out, query), lse, None, None, *sizes, *_without_dropout(query)


def _laid_out(out: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Return ``out`` with the strides of ``query``, which compiled graphs expect."""
    wanted = torch.empty_like(query) if out.shape == query.shape else out
    return out if wanted.stride() == out.stride() else wanted.copy_(out)


def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *rest: Any,
    out: torch.Tensor | None = None,
    **options: Any,
) -> tuple[Any, ...]:
    """Flash attention in flash-attn's layout, dense or packed: the operator of ``varlen_attn``.

    Args:
        query, key, value: as for ``fa4_cute.flash_attn``, or with ``cum_seq_q`` as for
            ``fa4_cute.flash_attn_varlen``.
        cum_seq_q, cum_seq_k: (batch + 1,) int32, first row of each sequence.
        max_q, max_k: longest sequences.
        rest: ``dropout_p``, ``is_causal`` (bottom-right aligned) and ``return_debug_mask``.
        out: contiguous memory for O, or None.
        options: the operator's keyword arguments.
    """
    call = _options_of(*rest, **options) | {"out": out}
    if cum_seq_q is None:
        out, lse = flash_attn(query, key, value, **call)
    else:
        packed = {"cu_seqlens_q": cum_seq_q, "max_seqlen_q": max_q}
        if call["page_table"] is None:
            packed |= {"cu_seqlens_k": cum_seq_k, "max_seqlen_k": max_k}
        out, lse = flash_attn_varlen(query, key, value, **packed, **call)
    return out, lse, *_without_dropout(query)


def _forward_into(out: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """The same into ``out``; returns the log-sum-exp."""
    found, lse, *_ = _forward(*args, out=out if out.is_contiguous() else None, **options)
    if found is not out:
        out.copy_(found)
    return lse


def _options_of(
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    num_splits: int | None = None,
) -> dict[str, Any]:
    """Return the options of ``fa4_cute.flash_attn`` for those of torch's operator.

    Raises:
        NotImplementedError: dropout, or its mask.
    """
    _refuse_debug_mask(return_debug_mask)
    refuse_dropout(dropout_p)
    return {
        "causal": is_causal,
        "softmax_scale": scale,
        "return_lse": True,
        "window_size": (window_size_left, window_size_right),
        "score_mod": None if alibi_slopes is None else score_mods.alibi(alibi_slopes),
        "seqused_k": seqused_k,
        "page_table": block_table,
        "num_splits": num_splits,
    }


def _backward(*_: Any, **__: Any) -> Any:
    """Refuse the backward pass of ``varlen_attn``, whose forward pass cannot know of it."""
    raise NotImplementedError(
        "there is a forward pass only; nearest supported choice: call under torch.no_grad()"
    )


def _refuse_grad(args: tuple[Any, ...]) -> None:
    """Refuse tensors that ask for a backward pass, as far as it can be seen below autograd."""
    tensors = (x for x in args if isinstance(x, torch.Tensor))
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise NotImplementedError("requires_grad=True: there is a forward pass only")


def _refuse_debug_mask(return_debug_mask: bool) -> None:
    if return_debug_mask:
        raise NotImplementedError("return_debug_mask=True: without dropout there is no such mask")


def _without_dropout(query: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what torch's operators return besides: random state, unused, debug mask."""
    state = torch.zeros(2, dtype=torch.uint64, device=query.device)
    unused = torch.zeros((), dtype=torch.uint64, device=query.device)
    return state, unused, torch.empty(0, dtype=query.dtype, device=query.device)


def _register() -> None:
    """Enter the name into torch's registry.

    Raises:
        ImportError: this torch has no registry.
    """
    try:
        from torch.nn.attention import register_flash_attention_impl
    except ImportError as missing:
        raise ImportError(
            f"torch {torch.__version__} has no torch.nn.attention.register_flash_attention_impl; "
            f"nearest supported choice: torch 2.13"
        ) from missing
    register_flash_attention_impl(NAME, register_fn=activate)


_register()

"""The public calls: attention of sequences that lie on several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ..host.interface import flash_attn, flash_attn_varlen
from .agree import agreed
from .asked import Asked
from .attend import on_device, over_ranks
from .members import Members

if TYPE_CHECKING:
    import torch

    from .asked import ContextOptions


def context_parallel_attn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: Any = None,
    method: str = "ring",
    layout: str = "zigzag",
    return_lse: bool = False,
    **options: Unpack[ContextOptions],
) -> Any:
    """Compute :func:`fa4_cute.flash_attn` over sequences that are spread over ranks.

    Every rank of ``group`` makes the same call with its own rows. CPU tensors need a backend
    such as gloo, CUDA tensors one such as nccl.

    Args:
        q: (batch, rows of this rank, num_q_heads, head_dim), as :func:`shard` deals them out.
        k, v: (batch, rows of this rank, num_kv_heads, head_dim); the whole sequences may be longer
            or shorter than those of ``q``.
        group: process group of ``torch.distributed``; None is the default group.
        method: ``"ring"`` passes keys and values from rank to rank while it computes with those it
            already has; ``"all_gather"`` first collects all of them, which takes the memory of the
            whole ``k`` and ``v`` twice, but makes few calls and joins no results.
        layout: ``"zigzag"`` gives a rank an early and a late chunk of every sequence, which
            distributes the work of a causal mask evenly; ``"contiguous"`` gives it one chunk.
        return_lse: also return the log-sum-exp.
        causal, softmax_scale, window_size, softcap, sink: as for :func:`fa4_cute.flash_attn`, in
            the whole sequences.
        mask: a window of :mod:`fa4_cute.masks`, or ``&`` of them; other masks are refused.
        q_scale, k_scale, v_scale: numbers only.
        unchecked: as for :func:`fa4_cute.flash_attn`. In addition, the ranks compare their calls
            only when one of them sees a new call, instead of every time, which waits for the GPU.
            A rank whose call differs then leaves the others waiting.

    Returns:
        O of this rank's rows, or (O, LSE), with shapes as for :func:`fa4_cute.flash_attn`.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`fa4_cute.flash_attn`, on every rank
            where one is wrong; also for ranks whose calls differ, or that do not hold their share.
    """
    asked = Asked.of((q, k, v), {**options, "return_lse": return_lse}, method, layout)
    return _attention(asked, group)


def context_parallel_attn_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any = None,
    group: Any = None,
    method: str = "ring",
    layout: str = "zigzag",
    return_lse: bool = False,
    **options: Unpack[ContextOptions],
) -> Any:
    """Compute :func:`fa4_cute.flash_attn_varlen` over sequences that are spread over ranks.

    Each sequence is cut separately; its parts lie one after another on each rank.

    Args:
        q: (rows of this rank, num_q_heads, head_dim), as ``shard(..., cu_seqlens=...)`` deals them
            out.
        k, v: (rows of this rank, num_kv_heads, head_dim).
        cu_seqlens_q: (batch + 1,) integers, the same on all ranks: first row of each *whole*
            sequence, and the end. A list, or an int32 or int64 tensor, which is read back if it is
            on a GPU.
        cu_seqlens_k: the same for ``k``; None if sequences of ``q`` and ``k`` are equally long.

    All other arguments are those of :func:`context_parallel_attn`.

    Returns:
        O of this rank's rows (rows, num_q_heads, head_dim), or (O, LSE) with LSE float32
        (num_q_heads, rows).

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`context_parallel_attn`.
    """
    offsets = cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
    given = {**options, "return_lse": return_lse}
    return _attention(Asked.of((q, k, v), given, method, layout, offsets), group)


def _attention(asked: Asked, group: Any) -> Any:
    members = Members.of(group)
    options = asked.options
    plan = agreed(asked.description, members, unchecked=options.unchecked is True)
    carried = {
        name: getattr(options, name)
        for name in ("softmax_scale", "softcap", "q_scale", "k_scale", "v_scale", "unchecked")
    }
    if members.ranks == 1:
        names = ("causal", "mask", "window_size", "sink", "return_lse")
        carried |= {name: getattr(options, name) for name in names}
        if asked.cu_seqlens is None:
            return flash_attn(*asked.inputs, **carried)
        for name, shards in (("q", plan.queries), ("k", plan.keys)):
            carried[f"cu_seqlens_{name}"] = on_device(shards.starts(), asked.inputs[0], "int32")
            carried[f"max_seqlen_{name}"] = max(shards.lengths, default=0)
        return flash_attn_varlen(*asked.inputs, **carried)
    sink = None if options.sink is None else options.sink.float()
    out, lse = over_ranks(plan, members, asked.inputs, asked.method, carried, sink)
    return (out, lse) if options.return_lse else out

"""The public calls: attention on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from .ask.arguments import Inputs, options_and_batch
from .ask.keywords import OF_DENSE, OF_VARLEN, Names, check_keywords, described
from .ask.names import check_surplus

if TYPE_CHECKING:
    import torch

    from .ask.keywords import AttentionOptions, VarlenOptions


@overload
def flash_attn(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    *, return_lse: Literal[False] = False, **options: Unpack[AttentionOptions],
) -> torch.Tensor: ...  # fmt: skip
@overload
def flash_attn(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    *, return_lse: Literal[True], **options: Unpack[AttentionOptions],
) -> tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip
@overload
def flash_attn(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    *, return_lse: bool, **options: Unpack[AttentionOptions],
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip
@described(OF_DENSE)
def flash_attn(q: Any, k: Any, v: Any, *surplus: Any, **options: Any) -> Any:
    """Compute ``softmax(softmax_scale * q k') v`` per head.

    CPU tensors run on ``sm100sim``, the virtual SM100; CUDA tensors run on devices of compute
    capability 10.x or 9.0, on torch's current stream of their device. The inputs are never
    changed. Strided tensors are read in place where TMA can (last dimension contiguous, other
    strides multiples of 16 bytes, 16-byte aligned); others are copied. There is no backward pass.

    Args:
        q: (batch, seqlen_q, num_q_heads, head_dim), bfloat16, float16 or float8_e4m3fn.
        k: (batch, seqlen_k, num_kv_heads, head_dim), or (num_pages, page_size, num_kv_heads,
            head_dim) with ``page_table``; ``num_q_heads`` is a multiple of ``num_kv_heads``, and
            query head ``h`` reads key/value head ``h // (num_q_heads // num_kv_heads)``.
        v: shape of ``k``; the head dimension may be smaller.
        causal: query ``i`` sees the keys ``j <= i + seqlen_k - seqlen_q`` (bottom-right aligned).
        softmax_scale: any finite number; None means ``1 / sqrt(head_dim)``.
        return_lse: also return the log-sum-exp of the scores.
        mask: a mask of :mod:`fa4_cute.masks`. ``causal``, ``window_size`` and ``mask`` must all
            show a key for it to count.
        window_size: (left, right) keys besides a row's own; None or -1 leaves a side open.
        score_mod: a modifier of :mod:`fa4_cute.score_mods`, or a Python function for one.
        softcap: ``softcap * tanh(score / softcap)``, applied after ``score_mod``; None or 0 is off.
        aux_tensors: the tensors that a ``score_mod`` given as a function reads.
        sink: (num_q_heads,) numbers in the units of the scaled scores: ``exp(sink[h])`` is added to
            the denominator of every row of head ``h``, and so counts in the log-sum-exp.
        seqused_k: (batch,), int32: number of keys of each sequence that count; the last query is
            aligned with the last of them. What follows them in ``k`` and ``v`` never matters.
        page_table: (batch, pages_per_row), int32: pages of each sequence, in order. Entries after
            ``seqused_k`` are not read.
        num_splits: number of CTAs over which the keys of a query tile are split. None leaves the
            choice to rules that :func:`fa4_cute.explain` names.
        split: where the results of the splits meet: ``"workspace"``, float32 in global memory that
            a second kernel adds up; ``"last"``, the same memory and the same bits, added up by the
            last CTA of a query tile, for head dimensions up to 192 and one Q tile per CTA;
            ``"cluster"``, the shared memory of up to 8 CTAs of a cluster, for the same; or None,
            which leaves it to the rules that :func:`fa4_cute.explain` names.
        scheduler: ``"tile"``, a CTA for every query tile; ``"persistent"``, a CTA for every SM, or
            a pair of CTAs for every two; ``"dynamic"``, a CTA or pair for every query tile, of
            which those that run take over the tiles of those that have not started (Blackwell);
            or None, which leaves it to rules that :func:`fa4_cute.explain` names. No bit depends
            on these. ``"stream_k"``, a CTA for every SM or a pair for every two, which takes as
            many keys as any other, for queries that fit one query tile: its bits depend on all
            lengths of the batch. None chooses it where sequences may differ in keys and
            ``num_splits`` and ``num_qo`` are open.
        num_qo: Q tiles per CTA, 1 or 2, for head dimensions up to 192 and on Hopper for all; there
            2 means as many as a CTA can hold. None chooses by the sizes of the call, and for few
            queries one Q tile with copies of their rows, which divide the keys. The bits of a
            row depend on ``num_qo``, ``num_splits`` and ``split``; if these are given, they do not
            depend on what else is in the batch.
        pair_cta: whether two CTAs, with two Q tiles each, share every MMA. This is for head
            dimensions from 65 to 128 or, with rope columns, for ``v`` of up to 128 columns; above
            192 they always do.
        arch: architecture of the kernel, ``"sm_100a"`` (Blackwell) or ``"sm_90a"`` (Hopper). None
            means that of the device, and ``"sm_100a"`` for CPU tensors, which run on ``sm100sim``.
        unchecked: do not check the values in ``seqused_k``, ``page_table``, ``sink`` and padding
            lengths. Checking reads them back, which makes a CUDA call wait for the device; a wrong
            value that is not caught makes the kernel read memory outside the tensors.
        q_scale, k_scale, v_scale: factors for the elements of float8_e4m3fn operands: numbers, or
            tensors of one element, which are read back; None means 1. Those of q and k may also be
            float32 tensors of the shape of ``q`` or ``k`` without head_dim, with one factor per
            token and head.
        q_rope, k_rope: further columns of ``q`` and ``k`` in another element type, with the shapes
            of ``q`` and ``k`` except for the last dimension. The default ``softmax_scale`` counts
            them, and the scales of fp8 multiply them too. ``q`` and ``k`` then have the head
            dimension of ``v``. ``k_rope`` may have a single head for all heads of ``k``, and may
            then also have the type of ``k``. Otherwise, columns of the same type are part of ``q``
            and ``k``, whose head dimension may exceed that of ``v``, such as 192 and 128.
        out, lse: the caller's tensors, written and returned instead of new ones. They are
            contiguous, 16-byte aligned, of the shapes and types named under "Returns", and do not
            overlap the inputs. ``lse`` needs ``return_lse=True``.

    Returns:
        O, contiguous, with shape and dtype of ``q`` (bfloat16 for float8) and the head dimension of
        ``v``; or (O, LSE) with LSE float32 of shape (batch, num_q_heads, seqlen_q), natural
        logarithm. A query that sees no key has O = 0 and LSE = -inf, or its head's sink.

    Raises:
        TypeError, ValueError, NotImplementedError: the arguments are wrong, or nothing here can
            run them; the message names the argument, its value and the nearest supported choice.
    """
    return _attention(OF_DENSE, (q, k, v), surplus, options)


@overload
def flash_attn_varlen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, cu_seqlens_q: torch.Tensor,
    return_lse: Literal[False] = False, **options: Unpack[VarlenOptions],
) -> torch.Tensor: ...  # fmt: skip
@overload
def flash_attn_varlen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, cu_seqlens_q: torch.Tensor,
    return_lse: Literal[True], **options: Unpack[VarlenOptions],
) -> tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip
@overload
def flash_attn_varlen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, cu_seqlens_q: torch.Tensor,
    return_lse: bool, **options: Unpack[VarlenOptions],
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip
@described(OF_VARLEN)
def flash_attn_varlen(q: Any, k: Any, v: Any, *surplus: Any, **options: Any) -> Any:
    """Compute attention over sequences whose queries are packed one after another.

    Args:
        q: (total_q, num_q_heads, head_dim), the queries of all sequences.
        k: (total_k, num_kv_heads, head_dim) with ``cu_seqlens_k``; (num_pages, page_size,
            num_kv_heads, head_dim) with ``page_table``; else (batch, seqlen_k, num_kv_heads,
            head_dim), a cache with an entry per sequence.
        v: shape of ``k``.
        cu_seqlens_q: (batch + 1,), int32: first row of each sequence in ``q``, and ``total_q``.
        cu_seqlens_k: (batch + 1,), int32: the same for ``k``; its rows may exceed the last one.
        seqused_k: (batch,), int32: keys of each sequence that count; required with pages.
        page_table: (batch, pages_per_row), int32: pages of each sequence, in order.
        max_seqlen_q, max_seqlen_k: the longest sequence, or more; None finds it by reading back.
        unchecked: as for :func:`flash_attn`; lengths are not read back either, so
            ``max_seqlen_q`` must be given, and ``max_seqlen_k`` with ``cu_seqlens_k``.

    All other arguments are those of :func:`flash_attn`; queries and keys are counted from the start
    of their sequence.

    Returns:
        O (total_q, num_q_heads, head_dim), or (O, LSE) with LSE float32 (num_q_heads, total_q).

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`flash_attn`; also for offsets that
            decrease or do not end with ``q``, lengths beyond their keys, and pages out of range.
    """
    return _attention(OF_VARLEN, (q, k, v), surplus, options)


def _attention(
    names: Names, inputs: Inputs, surplus: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Return what the public functions return; what torch watches goes through its operator."""
    if surplus:
        check_surplus(surplus)
    if _calls is None:
        _load()
    if _watch.is_observed(inputs[0]):
        check_keywords(options, names)
        from .operator.call import call

        out, lse = call(inputs, *options_and_batch(options))
    else:
        out, lse = _calls.attention(inputs, options, names)
    return out if lse is None else (out, lse)


_watch: Any = None
_calls: Any = None


def _load() -> None:
    """Import what needs torch; a statement in the function would cost every call."""
    global _watch, _calls
    from .operator import observed
    from .run import calls

    _watch, _calls = observed, calls

"""Masks for :func:`fa4_cute.flash_attn`: constructors, combined with ``&`` and ``|``.

Masks are named after what they show: with ``a & b`` a key is visible where both masks show it, with
``a | b`` where either does. A :func:`bias` is added to the scores. Biases joined by ``&`` add up;
of biases joined by ``|``, the larger one counts where both sides show a key. Rows are aligned to
the bottom right: query ``i`` of a sequence is aligned with key ``i + seqlen_k - seqlen_q``. As an
example, a window of 128 keys that also sees the first four::

    window = masks.sliding_window(127, 0) | (masks.padding(torch.tensor([4])) & masks.causal())
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from .plan.masks.masks import (
    CAUSAL,
    MAX_LEAVES,
    NULL,
    AndMask,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    OrMask,
    PaddingMask,
    SlidingWindowMask,
    leaves,
)

_BIAS: Final = DenseBiasMask(0)
_HIDDEN: Final = float("-inf")
"""What is added to the score of a key that is not seen."""


@dataclass(frozen=True, eq=False)
class AttentionMask:
    """A mask with the tensors it needs.

    Attributes:
        plan: the mask without tensors; slots number them.
        lengths: lengths of the padding masks, by slot.
        biases: tensors of the biases, by slot.
    """

    plan: Mask
    lengths: tuple[Any, ...] = ()
    biases: tuple[Any, ...] = ()

    def __and__(self, other: AttentionMask) -> AttentionMask:
        """Return the mask that is visible where both are."""
        other, joined = _joined(self, other, "&")
        same = other.plan == self.plan and not joined.biases
        return replace(joined, plan=self.plan if same else self.plan & other.plan)

    def __or__(self, other: AttentionMask) -> AttentionMask:
        """Return the mask that is visible where either is."""
        other, joined = _joined(self, other, "|")
        same = other.plan == self.plan
        return replace(joined, plan=self.plan if same else self.plan | other.plan)


def full() -> AttentionMask:
    """Return the mask that shows every key."""
    return AttentionMask(NULL)


def causal() -> AttentionMask:
    """Return the mask that shows query ``i`` the keys ``j <= i + seqlen_k - seqlen_q``."""
    return AttentionMask(CAUSAL)


def sliding_window(left: int | None, right: int | None = None) -> AttentionMask:
    """Return the mask of the keys from ``left`` before to ``right`` after a row's own.

    Args:
        left, right: keys on either side, 0 or more; None leaves the side open.

    Raises:
        TypeError, ValueError: a side is not an integer, or is negative.
    """
    return AttentionMask(SlidingWindowMask(left, right))


def chunked(size: int) -> AttentionMask:
    """Return the mask of the keys in a row's own chunk of ``size`` keys.

    Raises:
        TypeError, ValueError: ``size`` is not an integer, or is less than 1.
    """
    return AttentionMask(ChunkedMask(size))


def chunked_causal(size: int) -> AttentionMask:
    """Return the chunked mask without the keys after a row; errors as :func:`chunked`."""
    return chunked(size) & causal()


def padding(lengths: Any) -> AttentionMask:
    """Return the mask of the first ``lengths[b]`` keys of sequence ``b``.

    Unlike ``seqused_k``, it does not move the diagonal: rows stay aligned to the last key.

    Args:
        lengths: (batch,), int32 or int64; a length beyond the last key shows all keys.

    Raises:
        TypeError: ``lengths`` is not a tensor.
    """
    _require_tensor("padding lengths", lengths)
    return AttentionMask(PaddingMask(0), lengths=(lengths,))


def bias(tensor: Any) -> AttentionMask:
    """Return the mask that adds ``tensor`` to the scaled scores; minus infinity hides a key.

    Args:
        tensor: (batch, num_q_heads, seqlen_q, seqlen_k), float32, bfloat16 or float16 (other float
            types are copied); a dimension of 1, other than the last, is broadcast. In ragged
            batches, queries and keys count from the start of their sequence. It is read fastest
            where every row starts at a multiple of 16 bytes and is a multiple of them long.

    Raises:
        TypeError: ``tensor`` is not a tensor.
    """
    _require_tensor("bias", tensor)
    return AttentionMask(_BIAS, biases=(tensor,))


def dense(visible: Any) -> AttentionMask:
    """Return the mask of the keys where ``visible`` is True, as ``attn_mask`` of SDPA means it.

    It becomes a :func:`bias` of 0 and minus infinity when it is made: later changes to the tensor
    have no effect. Masks that know their intervals, such as :func:`sliding_window`, cost less.

    Args:
        visible: bool, (seqlen_q, seqlen_k), (num_q_heads, seqlen_q, seqlen_k) or (batch,
            num_q_heads, seqlen_q, seqlen_k); a dimension of 1, other than the last, is broadcast.

    Raises:
        TypeError: ``visible`` is not a tensor of booleans.
        ValueError: it has another rank.
    """
    import torch

    _require_tensor("mask", visible)
    if visible.dtype != torch.bool:
        raise TypeError(
            f"mask.dtype={visible.dtype}: expected torch.bool; nearest supported choice: "
            f"fa4_cute.masks.bias(tensor) for what to add to the scores"
        )
    if visible.dim() not in (2, 3, 4):
        raise ValueError(
            f"mask: shape {tuple(visible.shape)}; nearest supported choice: (seqlen_q, seqlen_k), "
            f"(num_q_heads, seqlen_q, seqlen_k) or (batch, num_q_heads, seqlen_q, seqlen_k)"
        )
    while visible.dim() < 4:
        visible = visible.unsqueeze(0)
    return bias(torch.where(visible, 0.0, _HIDDEN).to(torch.bfloat16))


def as_mask(value: Any) -> AttentionMask:
    """Return ``value``, an :class:`AttentionMask`, or the mask that it stands for.

    That may be a plan's mask that needs no tensors, or a tensor of booleans.

    Raises:
        TypeError: it is none of these.
        ValueError: a tensor of booleans has another rank than :func:`dense` takes, or more masks
            are joined than can be.
    """
    if isinstance(value, AttentionMask):
        return value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.dtype == torch.bool:
        return dense(value)
    if isinstance(value, Mask):
        _check_leaves(len(leaves(value)))
        if any(isinstance(leaf, PaddingMask | DenseBiasMask) for leaf in leaves(value)):
            raise TypeError(
                f"mask={value!r}: it lacks its tensors; nearest supported choice: "
                f"fa4_cute.masks.padding(lengths), fa4_cute.masks.bias(tensor)"
            )
        return AttentionMask(value)
    raise TypeError(
        f"mask={type(value).__name__}: expected a mask of fa4_cute.masks; nearest supported "
        f"choice: fa4_cute.masks.bias(tensor) for a dense tensor of what to add to the scores"
    )


def _check_leaves(count: int) -> None:
    if count > MAX_LEAVES:
        raise ValueError(
            f"mask: {count} masks joined; nearest supported choice: at most {MAX_LEAVES}"
        )


def _require_tensor(name: str, value: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")


def _joined(a: AttentionMask, b: Any, sign: str) -> tuple[AttentionMask, AttentionMask]:
    """Return ``b`` with its slots after those of ``a``, and both tensors together in ``a``."""
    if not isinstance(b, AttentionMask):
        raise TypeError(
            f"mask {sign} {type(b).__name__}: expected a mask of fa4_cute.masks on both sides"
        )
    _check_leaves(len(leaves(a.plan)) + len(leaves(b.plan)))
    lengths, length_slots = _merged(a.lengths, b.lengths)
    biases, bias_slots = _merged(a.biases, b.biases)
    moved = AttentionMask(_renumbered(b.plan, length_slots, bias_slots), lengths, biases)
    return moved, AttentionMask(a.plan, lengths, biases)


def _merged(known: Sequence[Any], further: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, int]]:
    """Return all different tensors, and where each of ``further`` is among them."""
    found = list(known)
    slots = {}
    for i, tensor in enumerate(further):
        place = next((n for n, other in enumerate(found) if _is_same(tensor, other)), len(found))
        if place == len(found):
            found.append(tensor)
        slots[i] = place
    return tuple(found), slots


def _is_same(a: Any, b: Any) -> bool:
    """Whether two tensors are the same memory, read the same way."""
    if a is b:
        return True
    alike = (a.device, a.dtype, a.shape, a.stride()) == (b.device, b.dtype, b.shape, b.stride())
    return alike and _address(a) is not None and _address(a) == _address(b)


def _address(tensor: Any) -> int | None:
    """Return where ``tensor`` lies, or None for one without memory of its own."""
    torch = sys.modules["torch"]
    if torch.compiler.is_dynamo_compiling() or tensor.device.type == "meta":
        return None
    try:
        return int(tensor.data_ptr())
    except RuntimeError:  # of a transform of torch.func, or of FakeTensorMode
        return None


def with_biases(mask: Mask, biases: Sequence[DenseBiasMask]) -> Mask:
    """Return ``mask`` with that of ``biases`` in the place of each of the same slot."""
    if isinstance(mask, AndMask | OrMask):
        first, second = (with_biases(part, biases) for part in (mask.first, mask.second))
        return replace(mask, first=first, second=second)
    return biases[mask.slot] if isinstance(mask, DenseBiasMask) else mask


def _renumbered(mask: Mask, lengths: Mapping[int, int], biases: Mapping[int, int]) -> Mask:
    if isinstance(mask, AndMask | OrMask):
        first = _renumbered(mask.first, lengths, biases)
        return replace(mask, first=first, second=_renumbered(mask.second, lengths, biases))
    if isinstance(mask, PaddingMask):
        return PaddingMask(lengths[mask.slot])
    return DenseBiasMask(biases[mask.slot]) if isinstance(mask, DenseBiasMask) else mask

"""What a call asks for beside plain attention: hashable facts, and the tensors that go with them.

:class:`Features` decides, with element type and head dim, which kernel is compiled;
:class:`FeatureTensors` holds what the kernel reads. :func:`gather` makes both from the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ... import masks, score_mods
from ...plan.masks.masks import CAUSAL, NULL, Mask, SlidingWindowMask
from ...plan.spec.variant import Partition, Scheduler, ScoreMod, Variant
from .checks import check_count, check_device, check_no_grad, check_tensor, kind_of

_OPEN: Final = -1
"""An open side of a window, as older FlashAttention versions write it."""


@dataclass(frozen=True)
class Features:
    """Facts that a kernel is specialised on, without ``causal`` and ``return_lse``.

    Attributes:
        mask: mask without tensors; :data:`~fa4_cute.plan.masks.masks.NULL` when there is none.
        score_mod: modifier of the scores, or None.
        sink: every head has a sink.
        ragged_q, ragged_k: queries, keys are packed.
        used_k: each sequence says how many keys count.
        page_size: keys per page, 0 without pages.
        num_splits: parts into which the keys are split.
        split: where their results are to meet; None leaves it to the rules, and is as much as the
            workspace for who does not ask them.
        scheduler: how CTAs come by query tiles.
        token_scales: q and k have a scale per token.
    """

    mask: Mask = NULL
    score_mod: ScoreMod | None = None
    sink: bool = False
    ragged_q: bool = False
    ragged_k: bool = False
    used_k: bool = False
    page_size: int = 0
    num_splits: int = 1
    split: Partition | None = None
    scheduler: Scheduler = Scheduler.TILE
    token_scales: bool = False

    def variant(self, *, causal: bool, return_lse: bool) -> Variant:
        """Return what the kernel is specialised on.

        Raises:
            ValueError: the features contradict one another.
        """
        return Variant(
            mask=with_causal(self.mask) if causal else self.mask,
            return_lse=return_lse,
            score_mod=self.score_mod,
            sink=self.sink,
            ragged_q=self.ragged_q,
            ragged_k=self.ragged_k,
            used_k=self.used_k,
            page_size=self.page_size,
            partition=self.partition,
            scheduler=self.scheduler,
            token_scales=self.token_scales,
            num_partitions=self.num_splits if self.partition is Partition.CLUSTER else 1,
        )

    @property
    def partition(self) -> Partition:
        """How the keys are split."""
        return Partition.NONE if self.num_splits == 1 else self.split or Partition.WORKSPACE

    @property
    def has_lengths(self) -> bool:
        """Whether sequences differ in length, or lie elsewhere than in a dense batch."""
        return self.ragged_q or self.ragged_k or self.used_k or bool(self.page_size)

    @property
    def names(self) -> Iterator[str]:
        """Names of the features that are used, as the table of kernels lists them."""
        used = {
            "mask": self.mask != NULL,
            "score_mod": self.score_mod is not None,
            "sink": self.sink,
            "cu_seqlens_q": self.ragged_q,
            "cu_seqlens_k": self.ragged_k,
            "seqused_k": self.used_k,
            "page_table": bool(self.page_size),
            "num_splits": self.num_splits > 1,
            "split": self.partition is Partition.CLUSTER,
            "scheduler": self.scheduler is not Scheduler.TILE,
            "q_scale": self.token_scales,
        }
        return (name for name, present in used.items() if present)


PLAIN: Final = Features()


@dataclass(frozen=True, eq=False)
class FeatureTensors:
    """Tensors of the features, converted to what the kernel reads.

    Attributes:
        padding: int32 (batch,) lengths, by slot.
        biases: float32 (batch | 1, heads | 1, seqlen_q | 1, seqlen_k), by slot.
        aux: float32 tensors of the score modifier, by slot.
        sink: float32 (num_q_heads,), or None.
        cu_seqlens_q, cu_seqlens_k: int32 (batch + 1,), or None.
        seqused_k: int32 (batch,), or None.
        page_table: int32 (batch, pages_per_row), or None.
        q_scale: float32, shape of q without head_dim, or None.
        k_scale: float32 (batch or pages, num_kv_heads, row), or None.
        q_rope, k_rope: rope columns of a type of their own, shapes of q and k but for head_dim.
    """

    padding: tuple[Any, ...] = ()
    biases: tuple[Any, ...] = ()
    aux: tuple[Any, ...] = ()
    sink: Any = None
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_k: Any = None
    page_table: Any = None
    q_scale: Any = None
    k_scale: Any = None
    q_rope: Any = None
    k_rope: Any = None

    def all(self) -> list[Any]:
        """Return every tensor."""
        single = (
            self.sink, self.cu_seqlens_q, self.cu_seqlens_k, self.seqused_k, self.page_table,
            self.q_scale, self.k_scale,
        )  # fmt: skip
        several = (*self.padding, *self.biases, *self.aux)
        return [*several, *(tensor for tensor in single if tensor is not None)]


NO_TENSORS: Final = FeatureTensors()


@dataclass(frozen=True, eq=False)
class Modifiers:
    """The arguments of a call that change its scores, as they were given.

    Attributes: as the arguments of :func:`fa4_cute.flash_attn`.
    """

    mask: Any = None
    window_size: Any = None
    score_mod: Any = None
    softcap: Any = None
    aux_tensors: Any = ()
    sink: Any = None

    def full_mask(self) -> masks.AttentionMask:
        """Return ``mask`` and ``window_size`` together, without ``causal``."""
        found = masks.full() if self.mask is None else masks.as_mask(self.mask)
        window = window_of(self.window_size)
        return found if window is None else found & masks.AttentionMask(window)

    def modifier(self) -> score_mods.ScoreModifier | None:
        """Return ``score_mod``, with ``softcap`` as its last step."""
        if not isinstance(self.aux_tensors, list | tuple):
            raise TypeError(
                f"aux_tensors={kind_of(self.aux_tensors)}: expected a tuple of tensors; nearest "
                f"supported choice: (aux_tensors,)"
            )
        steps = []
        if self.score_mod is not None:
            steps.append(_as_modifier(self.score_mod, self.aux_tensors))
        elif self.aux_tensors:
            raise ValueError(
                f"aux_tensors: {len(self.aux_tensors)} tensors, but no score_mod reads them"
            )
        if self.softcap is not None and self.softcap != 0:
            steps.append(score_mods.softcap(self.softcap))
        return score_mods.chain(*steps) if steps else None


def with_causal(mask: Mask) -> Mask:
    """Return ``mask`` and the causal mask; a window simply loses its right side."""
    if isinstance(mask, SlidingWindowMask):
        return SlidingWindowMask(mask.left, 0)
    return mask & CAUSAL


def window_of(value: Any) -> Mask | None:
    """Return the mask of ``window_size``: (left, right), None or -1 for an open side.

    Raises:
        TypeError: it is no pair of integers.
        ValueError: a side is below -1.
    """
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise TypeError(
            f"window_size={value!r}: expected (left, right); nearest supported choice: (None, None)"
        )
    sides: list[int | None] = []
    for name, side in zip(("left", "right"), value, strict=True):
        if side is not None:
            check_count(f"window_size {name}", side, _OPEN)
        sides.append(None if side is None or side == _OPEN else side)
    return None if sides == [None, None] else SlidingWindowMask(*sides)


def float_tensor(name: str, value: Any, layout: tuple[str, ...], q: Any) -> Any:
    """Return ``value`` as float32 on the device of ``q``; copied when it has another type.

    Raises:
        TypeError: no tensor, or its elements are no real numbers.
        ValueError: wrong rank or device.
        NotImplementedError: it requires grad, or is no plain tensor.
    """
    check_tensor(name, value, layout)
    check_device(name, value, q)
    check_no_grad({name: value})
    if value.is_complex() or str(value.dtype) == "torch.bool":
        hint = ""
        if not value.is_complex():
            hint = (
                f"; nearest supported choice: torch.zeros({name}.shape).masked_fill(~{name}, "
                f"float('-inf'))"
            )
        raise TypeError(f"{name}.dtype={value.dtype}: expected float32{hint}")
    return value.resolve_neg().float()


def sink_tensor(value: Any, q: Any, *, unchecked: bool) -> Any:
    """Return the sink as float32 (num_q_heads,); errors as :func:`float_tensor`."""
    found = float_tensor("sink", value, ("num_q_heads",), q)
    heads = q.shape[-2]
    if found.shape[0] != heads:
        raise ValueError(f"sink: {found.shape[0]} weights for the {heads} heads of q")
    if not unchecked and value.device.type != "meta":
        for head, weight in enumerate(found.tolist()):
            if math.isnan(weight) or weight == math.inf:
                raise ValueError(
                    f"sink[{head}]={weight}: must be a number; minus infinity means no sink"
                )
    return found.contiguous()


def check_slopes(modifier: score_mods.ScoreModifier, q: Any, batch: int) -> None:
    """Refuse ALiBi slopes that are not one per head; the kernel would read past their end.

    Raises:
        ValueError: naming the shape and the heads.
    """
    for stage in modifier.stages:
        if stage.kind != "alibi":
            continue
        shape = tuple(stage.tensors[0].shape)
        want = (batch, q.shape[-2])[-len(shape) :]
        if shape != want:
            raise ValueError(
                f"alibi slopes: shape {shape} for {q.shape[-2]} query heads and batch {batch}; "
                f"nearest supported choice: {want}"
            )


def bias_tensor(name: str, value: Any, q: Any, sizes: tuple[int, int, int, int]) -> Any:
    """Return a bias as float32 with a contiguous last dimension.

    Args:
        name: how the message calls it.
        value: the tensor.
        q: its device counts.
        sizes: batch, query heads, longest query and key sequence.

    Raises:
        as :func:`float_tensor`; ValueError also for a shape that does not fit.
    """
    layout = ("batch", "num_q_heads", "seqlen_q", "seqlen_k")
    found = float_tensor(name, value, layout, q)
    for axis, (have, want) in enumerate(zip(found.shape, sizes, strict=True)):
        enough = have == want if axis < 2 else have >= want
        if not enough and (have != 1 or axis == 3):
            broadcast = "" if axis == 3 else " or 1"
            raise ValueError(
                f"{name}: {layout[axis]}={have} (axis {axis} of shape {tuple(found.shape)}); "
                f"nearest supported choice: {want}{broadcast}"
            )
    return found if found.stride(3) == 1 or found.shape[3] == 1 else found.contiguous()


def _as_modifier(value: Any, aux_tensors: Sequence[Any]) -> score_mods.ScoreModifier:
    if isinstance(value, score_mods.ScoreModifier):
        if aux_tensors:
            raise ValueError(
                "aux_tensors: the score_mod brings its own; nearest supported choice: "
                "score_mods.function(code, aux_tensors)"
            )
        return value
    return score_mods.function(value, aux_tensors)

"""What a call asks for besides plain attention: hashable facts, and the tensors that go with them.

:class:`Features` decides, with element type and head dim, which kernel is compiled;
:class:`FeatureTensors` holds what the kernel reads. ``ask.request`` makes both from the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Final

from ...plan.masks.masks import (
    CAUSAL,
    NULL,
    AndMask,
    ChunkedMask,
    Mask,
    SlidingWindowMask,
)
from ...plan.spec.extras import ScoreMod
from ...plan.spec.variant import Partition, Scheduler, Variant


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
        num_splits: CTAs that the keys of a query tile are split over; None leaves it to the rules,
            and counts as 1 where these are not consulted.
        split: where their results are to meet; None leaves it to the rules, and counts as
            ``WORKSPACE`` where the rules are not consulted.
        scheduler: how query tiles are assigned to CTAs; None leaves it to the kernel, and counts as
            ``TILE`` where no kernel is known.
        token_scales: q and k have a scale per token.
        by_rows: query tiles of packed queries are counted by rows; None leaves it to the rules, and
            counts as False where these are not consulted.
    """

    mask: Mask = NULL
    score_mod: ScoreMod | None = None
    sink: bool = False
    ragged_q: bool = False
    ragged_k: bool = False
    used_k: bool = False
    page_size: int = 0
    num_splits: int | None = None
    split: Partition | None = None
    scheduler: Scheduler | None = None
    token_scales: bool = False
    by_rows: bool | None = None

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
            scheduler=self.scheduler or Scheduler.TILE,
            token_scales=self.token_scales,
            num_partitions=self.count if self.partition is Partition.CLUSTER else 1,
            by_rows=bool(self.by_rows),
        )

    @property
    def partition(self) -> Partition:
        """How the keys are split."""
        return Partition.NONE if self.count == 1 else self.split or Partition.WORKSPACE

    @property
    def count(self) -> int:
        """Splits of the keys."""
        return 1 if self.num_splits is None else self.num_splits

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
            "num_splits": self.count > 1,
            "split": self.partition is Partition.CLUSTER,
            "split='last'": self.partition is Partition.LAST,
            "scheduler": self.scheduler is Scheduler.PERSISTENT,
            "scheduler='dynamic'": self.scheduler is Scheduler.DYNAMIC,
            "scheduler='stream_k'": self.scheduler is Scheduler.STREAM_K,
            "q_scale": self.token_scales,
        }
        return (name for name, present in used.items() if present)


PLAIN: Final = Features()


def with_causal(mask: Mask) -> Mask:
    """Return ``mask`` and the causal mask; a window simply loses its right side."""
    if isinstance(mask, SlidingWindowMask):
        return SlidingWindowMask(mask.left, 0)
    return mask & CAUSAL


def in_sight(mask: Mask, seqlen_q: int, seqlen_k: int) -> Mask:
    """Return ``mask`` without sides of windows, and chunks, that hide nothing.

    Args:
        mask: any. seqlen_q, seqlen_k: most queries and keys that a sequence has.
    """
    parts = _parts(mask)
    seen = tuple(_in_sight(part, seqlen_q, seqlen_k) for part in parts)
    if any(isinstance(part, SlidingWindowMask) and part.right == 0 for part in seen):
        # Rows before the first key see nothing of such a window, as of their chunk.
        seen = tuple(p for p in seen if not (isinstance(p, ChunkedMask) and p.size >= seqlen_k))
    return mask if seen == parts else reduce(and_, seen, NULL)


def _parts(mask: Mask) -> tuple[Mask, ...]:
    if isinstance(mask, AndMask):
        return _parts(mask.first) + _parts(mask.second)
    return (mask,)


def _in_sight(mask: Mask, seqlen_q: int, seqlen_k: int) -> Mask:
    if not isinstance(mask, SlidingWindowMask):
        return mask
    # The last row has the place of the last key, the first one `seqlen_q` - 1 before it.
    left = None if mask.left is not None and mask.left >= seqlen_k - 1 else mask.left
    right = None if mask.right and mask.right >= seqlen_q - 1 else mask.right
    return NULL if left is right is None else SlidingWindowMask(left, right)


@dataclass(frozen=True, eq=False)
class FeatureTensors:
    """Tensors of the features, converted to what the kernel reads.

    Attributes:
        padding: int32 (batch,) lengths, by slot.
        biases: float32, bf16 or fp16 (batch | 1, heads | 1, seqlen_q | 1, seqlen_k), by slot.
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

"""``Variant``: what a kernel is specialised on besides element type, head dim and heads.

The generic parameters of the Mojo kernel (``docs/sources.md`` sections 8 and 9) as one
record: MaskType, ScoreModType, ValidLengthType, KVRowOffsetsType, the cache length, KVLUTType,
SinkType, PartitionType and SchedulerType. Everything here is a choice at compile time; tensors and
lengths come with the call, as the parameters that :attr:`Variant.extras` declares. A feature
that is not used adds no parameter and no instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from ..masks.masks import (
    CAUSAL,
    NULL,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    PaddingMask,
    SlidingWindowMask,
    Term,
    leaves,
    terms,
)
from ..masks.score_changes import ScoreChanges
from .extras import ABSENT, BIAS_AXES, Aux, Bias, Extras, PaddingLengths, ScoreMod
from .params import KERNEL_PARAMS, KernelParams, extended

PAGE_SIZES: Final = (16, 32, 64, 128, 256)
"""Keys per page of a paged cache: a page divides a key tile, or a key tile divides it."""
WORK_COUNTS: Final = ("num_work", "num_heads", "num_sequences")
"""Parameters of a persistent kernel: query tiles of all heads and sequences, and these two."""
KEPT: Final = "num_kept"
"""Parameter of a dynamic one that keeps short query tiles for the end: how many of each head."""
FIRST_STEP: Final = "first_step"
"""Parameter of one that counts query tiles by rows: how far apart sequences are looked at first."""


class Partition(Enum):
    """How the key tiles of a query tile are split between CTAs."""

    NONE = "one CTA"
    WORKSPACE = "several CTAs, combined by a second kernel"
    CLUSTER = "the CTAs of a cluster, which combine their results themselves"
    LAST = "several CTAs, the last of which combines the results of all"


class Scheduler(Enum):
    """How query tiles are assigned to CTAs."""

    TILE = "one tile a CTA"
    PERSISTENT = "one CTA a SM takes tile after tile"
    DYNAMIC = "one CTA a tile; one that runs takes over the tiles of those that have not started"
    STREAM_K = "one CTA a SM; all take as many key tiles, and the last of a query tile joins them"


@dataclass(frozen=True)
class Variant:
    """Features of one compiled kernel.

    Args:
        mask: which keys a query sees.
        return_lse: write the log-sum-exp of every row.
        score_mod: modifier of the scores, or None.
        sink: every head has a weight that takes part in the softmax without a value.
        ragged_q: queries are packed, ``cu_seqlens_q`` says where sequences start.
        ragged_k: keys are packed, ``cu_seqlens_k`` says where sequences start.
        used_k: ``seqused_k`` says how many keys of each sequence count.
        page_size: keys per page of a paged cache, 0 when keys are not paged.
        partition: how the keys are split.
        scheduler: how query tiles are assigned to CTAs.
        token_scales: fp8 queries and keys have a scale per token.
        num_partitions: CTAs of a cluster that share the keys; 1 without one. A workspace takes any
            number, which comes with the call.
        by_rows: the launch has query tiles for the rows of packed queries together, not for every
            sequence as many as the longest has, and warps find the sequence of theirs.

    Raises:
        ValueError: for combinations that describe nothing.
    """

    mask: Mask = NULL
    return_lse: bool = False
    score_mod: ScoreMod | None = None
    sink: bool = False
    ragged_q: bool = False
    ragged_k: bool = False
    used_k: bool = False
    page_size: int = 0
    partition: Partition = Partition.NONE
    scheduler: Scheduler = Scheduler.TILE
    token_scales: bool = False
    num_partitions: int = 1
    by_rows: bool = False

    def __post_init__(self) -> None:
        """Refuse what describes nothing."""
        if self.page_size and self.page_size not in PAGE_SIZES:
            nearest = min(PAGE_SIZES, key=lambda size: abs(size - self.page_size))
            raise ValueError(
                f"page_size={self.page_size}: pages have {', '.join(map(str, PAGE_SIZES))} keys; "
                f"nearest supported choice: {nearest}"
            )
        if self.page_size and self.ragged_k:
            raise ValueError("cu_seqlens_k: keys of a paged cache have no row offsets of their own")
        if self.page_size and not self.used_k:
            raise ValueError("page_table: a paged cache needs seqused_k, the keys of each sequence")
        if self.by_rows and not self.ragged_q:
            raise ValueError("by_rows=True: query tiles are counted by rows where those are packed")
        if self.in_cluster != (self.num_partitions > 1):
            raise ValueError(
                f"num_partitions={self.num_partitions}: a cluster that shares the keys has two "
                f"CTAs or more, and other kernels have none"
            )
        if self.in_cluster and self.is_persistent:
            raise ValueError(
                f"scheduler={self.scheduler.name.lower()!r}: the CTAs of a cluster leave together, "
                "after one query tile; nearest supported choice: split='workspace', or "
                "scheduler='tile'"
            )
        if self.streams_keys and self.by_rows:
            raise ValueError(
                "by_rows=True: with scheduler='stream_k' a head of a sequence has one query tile"
            )
        if self.streams_keys and self.splits_by_number:
            raise ValueError(
                "scheduler='stream_k': how many CTAs share the keys of a query tile follows from "
                "its keys; nearest supported choice: num_splits=1"
            )
        if self.partition is Partition.LAST and self.is_persistent:
            raise ValueError(
                f"scheduler={self.scheduler.name.lower()!r}: the last CTA of a query tile joins "
                "its splits where every CTA has one; nearest supported choice: "
                "split='workspace', or scheduler='tile'"
            )

    @property
    def causal(self) -> bool:
        """Whether the mask is the plain causal one."""
        return self.mask == CAUSAL

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The mask as a union of intervals."""
        return terms(self.mask)

    @property
    def padding_slots(self) -> tuple[int, ...]:
        """Slots of the mask's per-sequence lengths, ascending."""
        return _slots(self.mask, PaddingMask)

    @property
    def bias_slots(self) -> tuple[int, ...]:
        """Slots of the mask's dense biases, ascending."""
        return _slots(self.mask, DenseBiasMask)

    @property
    def has_biases_of_terms(self) -> bool:
        """Whether what is added to a score depends on the terms of the mask that show its key."""
        return len(self.terms) > 1 and bool(self.bias_slots)

    @cached_property
    def changes(self) -> ScoreChanges:
        """What changes scores before the softmax."""
        return ScoreChanges(self.score_mod, self.terms)

    @property
    def modifies_scores(self) -> bool:
        """Whether anything does."""
        return self.changes.are_any

    @property
    def is_persistent(self) -> bool:
        """Whether a CTA takes one query tile after the other."""
        return self.scheduler is not Scheduler.TILE

    @property
    def is_dynamic(self) -> bool:
        """Whether it learns which only when it asks: those whose own CTAs have not started."""
        return self.scheduler is Scheduler.DYNAMIC

    @property
    def is_dense(self) -> bool:
        """Whether sequences are as long as their tensors say, and one CTA or pair has all keys."""
        return not (self.ragged_q or self.ragged_k or self.used_k or self.splits_keys)

    @cached_property
    def keeps_short(self) -> bool:
        """Whether the shortest query tiles of all heads come last: in dynamic launches whose late
        ones have the most keys, but not over a cache, where early ones may have as many."""
        apart = self.by_rows or self.used_k or self.splits_keys
        return self.is_dynamic and self.longest_first and not apart

    @property
    def is_over_cache(self) -> bool:
        """Whether queries are packed over a KV cache: chunks of prompts, or steps of decoding."""
        return self.ragged_q and self.used_k and not self.ragged_k

    @property
    def is_split(self) -> bool:
        """Whether CTAs write partial results, float32, to a workspace."""
        return self.partition in (Partition.WORKSPACE, Partition.LAST) or self.streams_keys

    @property
    def last_joins(self) -> bool:
        """Whether the last CTA of a query tile to write its partial results combines them."""
        return self.partition is Partition.LAST or self.streams_keys

    @property
    def streams_keys(self) -> bool:
        """Whether each CTA takes as many key tiles of all query tiles as any other."""
        return self.scheduler is Scheduler.STREAM_K

    @property
    def is_combined(self) -> bool:
        """Whether a second kernel combines the partial results."""
        return self.partition is Partition.WORKSPACE

    @property
    def in_cluster(self) -> bool:
        """Whether the CTAs of a cluster share the keys, and combine their results themselves."""
        return self.partition is Partition.CLUSTER

    @property
    def splits_keys(self) -> bool:
        """Whether several CTAs, of either kind, compute a query tile."""
        return self.splits_by_number or self.streams_keys

    @property
    def splits_by_number(self) -> bool:
        """Whether every query tile has as many CTAs for its keys."""
        return self.partition is not Partition.NONE

    @property
    def partial_values(self) -> bool:
        """Whether memory after a sequence's last value may hold anything, NaN included.

        Then the tile that holds the last value is cleaned before it is multiplied; a dense operand
        ends where its tensor map ends, and TMA fills the rest with zeros.
        """
        return self.ragged_k or self.used_k

    @property
    def ends_by_row(self) -> bool:
        """Whether rows differ in the last key that they see."""
        found = [leaf for term in self.terms for leaf in term.leaves]
        return self.longest_first or any(isinstance(leaf, ChunkedMask) for leaf in found)

    @property
    def starts_by_row(self) -> bool:
        """Whether rows differ in the first key that they see, in every term of the mask."""
        return all(
            any(isinstance(x, SlidingWindowMask) and x.left is not None for x in term.leaves)
            for term in self.terms
        )

    @property
    def longest_first(self) -> bool:
        """Whether late query tiles have the most keys, and so start first."""
        found = [leaf for term in self.terms for leaf in term.leaves]
        return any(isinstance(x, SlidingWindowMask) and x.right is not None for x in found)

    @property
    def params(self) -> KernelParams:
        """The parameter list of the kernel."""
        return extended(KERNEL_PARAMS, *self.extras.items())

    @property
    def has_output_address(self) -> bool:
        """Whether a kernel is told where O lies, to write rows of it without TMA."""
        return self.ragged_q or self.is_persistent or self.last_joins

    @property
    def extras(self) -> Extras[str, str, str]:
        """The parameters that the features add, with their PTX types."""
        aux_ranks = self.score_mod.aux_ranks if self.score_mod else ()
        work_count = _if(self.is_persistent, "u32")
        is_split = self.is_split and not self.streams_keys
        return Extras(
            cu_seqlens_q=_if(self.ragged_q, "u64"),
            total_q=_if(self.ragged_q, "u64"),
            o=_if(self.has_output_address, "u64"),
            cu_seqlens_k=_if(self.ragged_k, "u64"),
            seqused_k=_if(self.used_k, "u64"),
            page_table=_if(self.page_size > 0, "u64"),
            pages_per_row=_if(self.page_size > 0, "u32"),
            sink=_if(self.sink, "u64"),
            q_scale=_if(self.token_scales, "u64"),
            k_scale=_if(self.token_scales, "u64"),
            k_scale_row=_if(self.token_scales, "u32"),
            padding=tuple(PaddingLengths(slot, "u64") for slot in self.padding_slots),
            biases=tuple(
                Bias(slot, "u64", ("u64",) * len(BIAS_AXES)) for slot in self.bias_slots
            ),
            aux=tuple(
                Aux(slot, "u64", ("u64",) * rank) for slot, rank in enumerate(aux_ranks)
            ),
            num_work=_if(self.is_persistent and not self.streams_keys, "u32"),
            num_heads=work_count,
            num_sequences=_if(self.is_persistent or self.by_rows, "u32"),
            num_kept=_if(self.keeps_short, "u32"),
            first_step=_if(self.by_rows, "u32"),
            num_splits=_if(is_split, "u32"),
            partial_rows=_if(is_split, "u64"),
            partial_o=_if(self.is_split, "u64"),
            partial_lse=_if(self.is_split, "u64"),
            counters=_if(self.last_joins, "u64"),
        )

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Names of the parameters that the features add, in order."""
        return tuple(name for name, _ in self.extras.items())

    @property
    def call_extras(self) -> Extras[str, str, str]:
        """Those of the same parameters that the call's tensors give; the rest is the launch's."""
        return self.extras.without((*WORK_COUNTS, KEPT, FIRST_STEP))

    @property
    def name_parts(self) -> tuple[str, ...]:
        """Parts of the kernel's entry name."""
        parts = [] if self.mask == NULL else [self.mask.name]
        parts += [self.score_mod.name] if self.score_mod else []
        flags = {
            "sink": self.sink, "varq": self.ragged_q, "vark": self.ragged_k, "used": self.used_k,
            f"page{self.page_size}": bool(self.page_size), "split": self.is_combined,
            "last": self.partition is Partition.LAST,
            f"cluster{self.num_partitions}": self.in_cluster,
            self.scheduler.name.lower(): self.is_persistent, "rows": self.by_rows,
            "tokens": self.token_scales, "lse": self.return_lse,
        }  # fmt: skip
        return (*parts, *(name for name, present in flags.items() if present))


def _if(present: bool, kind: str) -> str:
    """Return the PTX type of a parameter, or that there is none."""
    return kind if present else ABSENT


def _slots(mask: Mask, kind: type[PaddingMask] | type[DenseBiasMask]) -> tuple[int, ...]:
    found = {leaf.slot for leaf in leaves(mask) if isinstance(leaf, kind)}
    return tuple(sorted(found))

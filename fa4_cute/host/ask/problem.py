"""``Problem``: one call of attention in plain numbers, and the errors of its arguments.

What is wrong with the arguments themselves is said while a problem is made (``checks``,
``sequences``, ``score_changes``, ``scales``); what no kernel can run is said by ``support``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from ...plan.facts.architectures import ARCHITECTURES
from ...plan.facts.dtypes import DType
from ...plan.facts.hardware import SM100A, TMA_ALIGN
from ...plan.launch.tiles import AttentionSizes
from ...plan.spec.variant import Partition, Scheduler, Variant
from . import checks
from .arguments import Options
from .checks import DENSE, check_count, check_flag, check_scale
from .features import PLAIN, Features, in_sight
from .scales import UNSCALED, Scales, check_range
from .sequences import Sequences

Form = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Problem:
    """Shapes and options of one call.

    Attributes:
        dtype: element type of q, k and v: a name of ``plan.facts.dtypes.DType``, or any other name.
        batch: sequences.
        seqlen_q, seqlen_k: queries and keys of a sequence; of the longest one when they differ.
        num_q_heads, num_kv_heads: heads.
        head_dim, head_dim_v: elements per row of q and k, and of v.
        causal: mask aligned to the bottom right corner.
        softmax_scale: factor of the scores; None means ``1 / sqrt(head_dim)``.
        return_lse: whether the log-sum-exp is wanted.
        features: whatever else selects a kernel.
        num_qo: Q tiles per CTA, 1 or 2, where the kernel has a choice; None leaves it to the rules.
        scales: factors of fp8 operands.
        rope_dtype: element type of the last columns of q and k, those beyond ``head_dim_v``, where
            they are tensors of their own.
        shared_rope: whether those of k have one head for all.
        pair_cta: whether two CTAs are to share each MMA, where a kernel has the choice.
        arch: architecture of the kernel.
        num_sms: SMs of the device; None for those of the architecture's usual one.
        total_q: packed queries of all sequences; 0 for as many in each as in the longest.
    """

    dtype: str
    batch: int
    seqlen_q: int
    seqlen_k: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    head_dim_v: int
    causal: bool = False
    softmax_scale: float | None = None
    return_lse: bool = False
    features: Features = PLAIN
    num_qo: int | None = None
    scales: Scales = UNSCALED
    rope_dtype: str | None = None
    shared_rope: bool = False
    pair_cta: bool = False
    arch: str = SM100A
    num_sms: int | None = None
    total_q: int = 0

    def __post_init__(self) -> None:
        """Refuse values outside the domain of the record."""
        for field, name in _SIZES.items():
            check_count(name, getattr(self, field), 0, self._smallest(name))
        for name in ("causal", "return_lse", "shared_rope", "pair_cta"):
            check_flag(name, getattr(self, name))
        if self.num_qo is not None:
            check_count("num_qo", self.num_qo, 1)
        if self.num_qo not in (None, 1, 2):
            raise ValueError(
                f"num_qo={self.num_qo}: choose 1 or 2 Q tiles per CTA, or None; nearest supported "
                "choice: num_qo=2"
            )
        check_scale(self.softmax_scale)
        if self.scales is not UNSCALED:
            check_range(of_scores=self.scale, of_values=self.scales.v)

    def _smallest(self, name: str) -> str | None:
        """Return the nearest choice to a negative head dimension; None: for other sizes 0."""
        if not name.startswith("head_dim"):
            return None
        element = DType.FP8_E4M3 if self.dtype == DType.FP8_E4M3.value else DType.BF16
        return f"{name}={TMA_ALIGN // element.size}"

    @cached_property
    def variant(self) -> Variant:
        """What the kernel is specialised on: without sides of windows that hide nothing.

        With ``num_qo`` given these stay, for the kernel must not depend on other sequences.

        Raises:
            ValueError: the features contradict one another.
        """
        asked = self.features.variant(causal=self.causal, return_lse=self.return_lse)
        if self.num_qo is not None:
            return asked
        seen = in_sight(asked.mask, self.seqlen_q, self.seqlen_k)
        return asked if seen == asked.mask else replace(asked, mask=seen)

    @cached_property
    def form(self) -> Form:
        """What is special about the operands, as arguments of ``KernelSpec.for_attention``."""
        form: dict[str, Any] = {}
        if self.head_dim_v != self.head_dim:
            form["head_dim_v"] = self.head_dim_v
        if self.rope_dtype is not None:
            form["rope_dtype"] = DType.parse(self.rope_dtype)
        if self.shared_rope:
            form["shared_rope"] = True
        if self.pair_cta:
            form["pair_cta"] = True
        return tuple(form.items())

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.num_q_heads // max(1, self.num_kv_heads)

    @property
    def scale(self) -> float:
        """Factor of stored scores: the softmax scale, with its default, times q's and k's."""
        if self.softmax_scale is None:
            return self.scales.of_scores / math.sqrt(max(1, self.head_dim))
        return float(self.softmax_scale) * self.scales.of_scores

    @property
    def sizes(self) -> AttentionSizes:
        """Sizes of the launch."""
        return AttentionSizes(
            self.batch, self.seqlen_q, self.seqlen_k, self.num_q_heads, self.num_kv_heads,
            self.total_q,
        )  # fmt: skip

    @property
    def sms(self) -> int:
        """SMs that the rules count with."""
        return self.num_sms or ARCHITECTURES[self.arch].num_sms

    @property
    def has_no_output(self) -> bool:
        """Whether the output has no element."""
        return 0 in (self.batch, self.seqlen_q, self.num_q_heads)

    @property
    def has_no_keys(self) -> bool:
        """Whether no query sees any key: the output is zeros, the log-sum-exp minus infinity."""
        return self.seqlen_k == 0

    def with_partition(self, partition: Partition) -> Problem:
        """Return the problem with its keys split as a kernel that was chosen for it splits them."""
        if partition is self.features.partition:
            return self
        return replace(self, features=replace(self.features, split=partition))

    def with_scheduler(self, scheduler: Scheduler) -> Problem:
        """Return the problem with ``scheduler`` where it leaves open who takes its query tiles."""
        if self.features.scheduler is not None:
            return self
        return replace(self, features=replace(self.features, scheduler=scheduler))

    def with_splits(self, num_splits: int) -> Problem:
        """Return the problem with ``num_splits`` where it leaves open how often keys are split."""
        if self.features.num_splits is not None:
            return self
        return replace(self, features=replace(self.features, num_splits=num_splits))

    def with_total_of(self, total_q: int) -> Problem:
        """Return the problem with so many packed queries."""
        return self if total_q == self.total_q else replace(self, total_q=total_q)

    def with_rows(self, *, by_rows: bool) -> Problem:
        """Return the problem with ``by_rows`` where it leaves open how query tiles are counted."""
        if self.features.by_rows is not None or not self.features.ragged_q:
            return self
        return replace(self, features=replace(self.features, by_rows=by_rows))

    def settled(self, variant: Variant, num_splits: int) -> Problem:
        """Return the problem with nothing left open: as the kernel of ``variant`` takes it."""
        split = self.with_splits(num_splits).with_partition(variant.partition)
        return split.with_scheduler(variant.scheduler).with_rows(by_rows=variant.by_rows)

    @classmethod
    def from_tensors(cls, q: Any, k: Any, v: Any, **options: Any) -> Problem:
        """Return the problem of dense tensors without further features.

        Args:
            q, k, v: (batch, seqlen, heads, head_dim).
            options: ``causal``, ``softmax_scale`` and ``return_lse``.

        Raises:
            TypeError: an argument has the wrong type, or the element types differ.
            ValueError: shapes or devices do not fit together, or the scale is not finite.
            NotImplementedError: a tensor subclass or layout that has no plain memory, or a tensor
                that requires grad.
        """
        checks.check_inputs((q, k, v), Options(), (DENSE, DENSE))
        return cls.from_shapes(q, k, v, where=Sequences.dense(q, k), **options)

    @classmethod
    def from_shapes(
        cls,
        q: Any,
        k: Any,
        v: Any,
        *,
        where: Sequences,
        features: Features = PLAIN,
        scales: Scales = UNSCALED,
        causal: bool = False,
        softmax_scale: float | None = None,
        return_lse: bool = False,
        num_qo: int | None = None,
        pair_cta: bool = False,
        arch: str = SM100A,
        num_sms: int | None = None,
        rope: tuple[Any, Any] | None = None,
    ) -> Problem:
        """Return the problem of tensors that fit together.

        ``rope`` are the rope columns of q and k where they are tensors of their own, or None.

        Raises:
            TypeError, ValueError: a flag or the scale is wrong.
        """
        return cls(
            dtype=dtype_name(q.dtype),
            batch=where.batch,
            seqlen_q=where.seqlen_q,
            seqlen_k=where.seqlen_k,
            total_q=where.total_q,
            num_q_heads=q.shape[-2],
            num_kv_heads=k.shape[-2],
            head_dim=q.shape[-1] + (0 if rope is None else rope[0].shape[-1]),
            head_dim_v=v.shape[-1],
            causal=causal,
            softmax_scale=softmax_scale,
            return_lse=return_lse,
            features=features,
            num_qo=num_qo,
            pair_cta=pair_cta,
            arch=arch,
            num_sms=num_sms,
            scales=scales,
            rope_dtype=None if rope is None else dtype_name(rope[0].dtype),
            shared_rope=rope is not None and checks.is_shared(rope[1], k),
        )


_SIZES: Final = {
    "batch": "batch", "seqlen_q": "seqlen_q", "seqlen_k": "seqlen_k", "num_q_heads": "heads_q",
    "num_kv_heads": "heads_k", "head_dim": "head_dim", "head_dim_v": "head_dim_v",
    "total_q": "total_q",
}  # fmt: skip
"""Fields that are sizes, and what a caller calls them."""


def dtype_name(dtype: Any) -> str:
    """Return the plan's name of ``dtype`` (a torch dtype, a ``DType`` or a name).

    Names the plan does not know are returned as they are; ``support`` refuses them.

    Raises:
        TypeError: when ``dtype`` is nothing of these.
    """
    if isinstance(dtype, DType):
        return dtype.value
    text = str(dtype)
    if not isinstance(dtype, str) and not text.startswith("torch."):
        raise TypeError(f"dtype={dtype!r}: expected a torch dtype or a name such as 'bf16'")
    name = text.removeprefix("torch.")
    try:
        return DType.parse(name).value
    except ValueError:
        return name

"""What runs where, by the table of kernels: for the call, the documentation and tests.

The rows of ``kernels.KERNELS`` are tried in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

from ...plan.config.reduce_scatter import MAX_CLUSTER
from ...plan.facts.architectures import ARCHITECTURES
from ...plan.facts.dtypes import DType
from ...plan.facts.hardware import TMA_ALIGN, align_up
from ...plan.facts.numbers import MAX_SEQLEN
from ...plan.launch.key_splits import KeySplits
from ...plan.launch.launch import plan_launch
from ...plan.launch.selection import QueryTiles
from ...plan.launch.sm90_selection import TileChoice
from ...plan.launch.sm100_selection import SchedulerChoice
from ...plan.launch.split_selection import SplitChoice
from ...plan.masks.masks import CAUSAL, NULL, terms
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.combine_spec import MAX_SPLITS
from ...plan.spec.depth512_spec import Depth512Spec
from ...plan.spec.variant import Partition
from ..ask.checks import divisibility
from ..ask.problem import Problem
from .kernels import FEATURES, KERNELS, KernelRow, rows_of
from .refusals import Refusal, refusal_of_error
from .specify import row_of, specified

_NEAREST: Final = {
    "split": "split='workspace'",
    "split='last'": "split='workspace'",
    "scheduler='dynamic'": "scheduler='persistent'",
}
"""What to choose instead, where another head dimension is not the nearest choice."""
ROUNDED_BITS: Final = 4
"""Leading bits of the number of packed queries that a choice follows from."""
_WORTH_TELLING: Final = 2048
"""Keys from which on a caller hears that they are whole, and no prediction says so."""


@dataclass(frozen=True)
class Support:
    """The answer of :func:`fa4_cute.can_implement`; true if the problem can be run.

    Attributes:
        ok: the answer.
        reason: why, in a sentence.
        kernel: class of the kernel that runs it, or None.
        nearest: nearest supported choice in words, or None.
    """

    ok: bool
    reason: str
    kernel: str | None = None
    nearest: str | None = None

    def __bool__(self) -> bool:
        """Return ``ok``."""
        return self.ok


@dataclass(frozen=True)
class Choice:
    """The kernel of a problem: its row and its specification.

    Attributes:
        row: the kernel.
        spec: its specification, which may be for a cluster where the problem leaves that open.
        query_tiles: why it takes so many Q tiles.
        split: where the results of split keys meet, and why.
        key_splits: why they are split so often, where the problem leaves that open.
        num_splits: how often.
        scheduler: who takes the query tiles, where predictions decide that.
    """

    row: KernelRow
    spec: AttentionSpec
    query_tiles: QueryTiles | TileChoice | None = None
    split: SplitChoice | None = None
    key_splits: KeySplits | None = None
    num_splits: int = 1
    scheduler: SchedulerChoice | None = None

    def whole_keys(self, problem: Problem, grid: tuple[int, ...]) -> tuple[str, ...]:
        """Return a line where keys are whole though most SMs idle and a caller could split them.

        Predictions choose splits for some kernels only; of others nobody would hear otherwise.
        """
        features, sms, num_ctas = problem.features, problem.sms, prod(grid)
        is_open = features.num_splits is None and problem.num_qo is None and not self.key_splits
        many_keys = self.spec.variant.mask in (NULL, CAUSAL) and problem.seqlen_k >= _WORTH_TELLING
        if not (is_open and many_keys and 2 * num_ctas <= sms):
            return ()
        return (
            f"keys are whole: {num_ctas} CTAs leave {sms - num_ctas} of {sms} SMs without work, "
            "but no prediction chooses splits here; num_splits= shares keys among more CTAs",
        )


def choose(problem: Problem) -> Choice | Refusal:
    """Return the kernel for ``problem``, or why there is none.

    It follows from about how many packed queries there are: their number changes from step to step.
    """
    return _choose(problem.with_total_of(rounded_up(problem.total_q)))


def rounded_up(count: int) -> int:
    """Return a number that ``count`` and up to an eighth more have in common, not below it."""
    shift = max(0, count.bit_length() - ROUNDED_BITS)
    return -(-count >> shift) << shift


@lru_cache(maxsize=1024)
def _choose(problem: Problem) -> Choice | Refusal:
    for rule in (_dtype_rule, _shape_rule, _head_dim_rule):
        refusal = rule(problem)
        if refusal is not None:
            return refusal
    row = row_of(problem)
    for row_rule in (_feature_rule, _form_rule, _split_rule, _variant_rule):
        refusal = row_rule(problem, row)
        if refusal is not None:
            return refusal
    try:
        problem, spec, tiles, key_splits, scheduler, split = specified(problem)
        num_splits = problem.features.count
        if not (problem.has_no_output or problem.has_no_keys):
            plan_launch(spec, problem.sizes, problem.scale, num_splits)
    except ValueError as error:
        return refusal_of_error(NotImplementedError, error)
    return Choice(row, spec, tiles, split, key_splits, num_splits, scheduler)


def supported_dtypes(arch: str) -> tuple[DType, ...]:
    """Return the element types that some kernel of ``arch`` serves."""
    return tuple(dict.fromkeys(dtype for row in rows_of(arch) for dtype in row.dtypes))


def _dtype_rule(problem: Problem) -> Refusal | None:
    names = [dtype.value for dtype in supported_dtypes(problem.arch)]
    if problem.dtype in names:
        return None
    kind = NotImplementedError if "float" in problem.dtype or "fp" in problem.dtype else TypeError
    return Refusal(
        kind,
        f"dtype {problem.dtype}: the tensor cores run attention in {', '.join(names)} here",
        names[0],
    )


def _shape_rule(problem: Problem) -> Refusal | None:
    heads_q, heads_k = problem.num_q_heads, problem.num_kv_heads
    if heads_q and (heads_k == 0 or heads_q % heads_k):
        return Refusal(ValueError, divisibility(heads_q, heads_k))
    for name in ("seqlen_q", "seqlen_k"):
        if getattr(problem, name) > MAX_SEQLEN:
            return Refusal(
                ValueError,
                f"{name}={getattr(problem, name)}: positions are signed 32-bit numbers there",
                f"{name}={MAX_SEQLEN}",
            )
    return None


def _head_dim_rule(problem: Problem) -> Refusal | None:
    dtype = DType(problem.dtype)
    rows = [row for row in rows_of(problem.arch) if dtype in row.dtypes]
    if any(row.serves(dtype, problem.head_dim) for row in rows):
        unit = TMA_ALIGN // dtype.size
        below = problem.head_dim % unit
        if not problem.head_dim_v:
            return Refusal(
                ValueError, "v: head_dim=0, so there is nothing to compute", f"head_dim={unit}"
            )
        if not below:
            return None
        nearest = problem.head_dim - below + unit
        return Refusal(
            NotImplementedError,
            f"head_dim={problem.head_dim}: rows of {problem.head_dim * dtype.size} bytes are no "
            f"multiple of the {TMA_ALIGN} bytes that TMA needs",
            f"pad with zeros to head_dim={nearest}, with softmax_scale=1/sqrt({problem.head_dim})",
        )
    low = min(row.head_dims[0] for row in rows)
    high = max(row.head_dims[1] for row in rows)
    nearest = min(max(problem.head_dim, low), high)
    return Refusal(
        NotImplementedError,
        f"head_dim={problem.head_dim}: {problem.arch} kernels exist for head dimensions from {low} "
        f"to {high}",
        f"head_dim={nearest}",
    )


def _feature_rule(problem: Problem, row: KernelRow) -> Refusal | None:
    """Refuse a feature that the kernel of ``row`` lacks."""
    name = next((name for name in problem.features.names if name not in row.features), None)
    if name is None:
        return None
    others = [other.name for other in rows_of(row.arch) if name in other.features]
    elsewhere = f"a head dimension of {' or '.join(others)}" if others else f"without {name}"
    return Refusal(
        NotImplementedError,
        f"{name}: {FEATURES[name]} are no part of {row.name}, the kernel for "
        f"head_dim={problem.head_dim}",
        _NEAREST.get(name, elsewhere),
    )


def _form_rule(problem: Problem, row: KernelRow) -> Refusal | None:
    """Refuse operands of a form that the kernel of ``row`` does not take."""
    refused = ((name, value) for name, value in problem.form if name not in row.forms)
    name, value = next(refused, ("", None))
    if not name:
        return None
    nearest = f"q, k, v with head_dim={problem.head_dim}, padded with zeros"
    if isinstance(value, DType):
        value = value.value
        nearest = "rope columns as the last columns of q and k"
    if name == "pair_cta":
        always = row.specify is Depth512Spec
        nearest = "pair_cta=False" + ("; its MMAs always take two CTAs" if always else "")
    return Refusal(
        NotImplementedError,
        f"{name}={value}: not in {row.name}, the kernel for head_dim={problem.head_dim}",
        nearest,
    )


def _split_rule(problem: Problem, _: KernelRow) -> Refusal | None:
    """Refuse more splits than a cluster has CTAs, or than are combined."""
    num_splits = problem.features.count
    if problem.features.split is Partition.CLUSTER and num_splits > MAX_CLUSTER:
        return Refusal(
            ValueError,
            f"num_splits={num_splits}, split='cluster': a cluster has at most {MAX_CLUSTER} CTAs",
            f"num_splits={MAX_CLUSTER}, or split='workspace'",
        )
    if num_splits > MAX_SPLITS:
        return Refusal(
            ValueError,
            f"num_splits={num_splits}: at most {MAX_SPLITS} are combined",
            str(MAX_SPLITS),
        )
    return None


def _variant_rule(problem: Problem, _: KernelRow) -> Refusal | None:
    """Refuse features that contradict one another, and a mask of too many intervals."""
    try:
        terms(problem.variant.mask)
    except (ValueError, NotImplementedError) as error:
        return refusal_of_error(type(error), error)
    return None


def support_table() -> Iterator[dict[str, str]]:
    """Yield one row of the documented table per kernel: names to texts."""
    for row in KERNELS:
        yield {
            "kernel": row.name,
            "device": ARCHITECTURES[row.arch].text,
            "dtypes": ", ".join(dtype.value for dtype in row.dtypes),
            "head dims": f"{align_up(row.head_dims[0], 8)} to {row.head_dims[1]}, multiples of 8"
            + (" (fp8: of 16)" if DType.FP8_E4M3 in row.dtypes else ""),
            "masks": "full, causal" + (f", {FEATURES['mask']}" if "mask" in row.features else ""),
            "heads": "MHA, GQA, MQA",
            "features": ", ".join(
                f"{text} (`{name}`)"
                for name, text in FEATURES.items()
                if name in row.features and name != "mask"
            ),
        }


def answer(result: Choice | Refusal) -> Support:
    """Turn the outcome of :func:`choose` into the public answer."""
    if isinstance(result, Refusal):
        return Support(False, result.reason, nearest=result.nearest)
    why = f" with {result.query_tiles.text}" if result.query_tiles else ""
    return Support(True, f"runs on {result.row.name}{why}", kernel=result.row.name)


def require(result: Choice | Refusal | None) -> Any:
    """Return ``result``, raising its exception when it is a refusal."""
    if isinstance(result, Refusal):
        raise result.exception()
    return result

"""The specification of a problem's kernel, with whatever follows from sizes that it leaves open."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from ...plan.facts.dtypes import DType
from ...plan.facts.hardware import TMEM_LANES
from ...plan.launch.key_splits import KeySplits, streams_keys
from ...plan.launch.launch import counts_rows
from ...plan.launch.prompt_splits import choose_tiled_splits
from ...plan.launch.selection import (
    QueryTiles,
    row_copies_of_pair,
    with_fitting_copies,
    with_row_copies,
)
from ...plan.launch.sm90_selection import (
    TileChoice,
    TileKind,
    choose_key_splits,
    choose_scheduler,
    choose_tile,
)
from ...plan.launch.sm100_selection import (
    SchedulerChoice,
    choose_blackwell_query_tiles,
    choose_blackwell_scheduler,
)
from ...plan.launch.split_selection import SplitChoice, SplitWork, choose_split
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.combine_spec import CombineSpec
from ...plan.spec.depth512_spec import Depth512Spec
from ...plan.spec.kernel_spec import KernelSpec
from ...plan.spec.sm90_spec import SM90Spec
from ...plan.spec.variant import Scheduler, Variant
from ..ask.problem import Form, Problem
from .kernels import KernelRow, rows_of


class Specified(NamedTuple):
    """A kernel.

    Attributes:
        problem: with its scheduler, its number of splits, and where they meet.
        spec: the kernel, split as the problem says.
        query_tiles, key_splits, scheduler, split: as of ``support.Choice``.
    """

    problem: Problem
    spec: AttentionSpec
    query_tiles: QueryTiles | TileChoice | None = None
    key_splits: KeySplits | None = None
    scheduler: SchedulerChoice | None = None
    split: SplitChoice | None = None


def row_of(problem: Problem) -> KernelRow:
    """Return the kernel for the element type and head dim of ``problem``; there is one."""
    rows = rows_of(problem.arch)
    return next(r for r in rows if r.serves(DType(problem.dtype), problem.head_dim))


def specified(problem: Problem) -> Specified:
    """Return the kernel of a problem and what was left open of it."""
    row = row_of(problem)
    posed, problem = problem, problem.with_scheduler(Scheduler.TILE)
    spec = _specification_of(problem, row)
    if isinstance(spec, SM90Spec):
        return _specified_sm90(posed, row, spec)
    return _specified_sm100(posed, row, spec)


def _specified_sm100(
    posed: Problem, row: KernelRow, spec: KernelSpec | Depth512Spec
) -> Specified:
    """Return a Blackwell kernel with what predicted times say about it.

    Args:
        posed: what is asked for.
        row: the kernel.
        spec: it, with a CTA for every query tile where the problem leaves that open.
    """
    tiles, taken, splits = None, None, None
    streams = _streams(posed, _single(spec))
    if isinstance(spec, KernelSpec):
        tiles = choose_blackwell_query_tiles(spec, posed.sizes, posed.sms, posed.num_qo)
        if streams and posed.num_qo is None and tiles.num_qo > 1:
            tiles = QueryTiles(1, "stream-K has one")
        if posed.num_qo is None:
            lengths = posed.sizes.seqlen_q, posed.sizes.seqlen_k
            tiles = with_row_copies(tiles, spec.config, *lengths)
        spec = _with_query_tiles(spec, tiles.num_qo, tiles.row_copies)
    else:
        spec = _with_copies_in_pair(spec, posed.sizes.seqlen_q, posed.sizes.seqlen_k)
    if posed.features.num_splits is None and posed.num_qo is None and not streams:
        # With either given, the results must not depend on the batch.
        tiles, splits = choose_tiled_splits(spec, tiles, posed.sizes, posed.sms)
    keys, joined = (splits.key_splits, splits.joined) if splits else (None, None)
    if posed.features.scheduler is None and streams:
        taken = SchedulerChoice(Scheduler.STREAM_K)
    elif posed.features.scheduler is None and (keys is None or keys.num_splits == 1):
        taken = choose_blackwell_scheduler(spec, posed.sizes, posed.sms)
    problem = posed.with_scheduler(taken.scheduler if taken else Scheduler.TILE)
    problem = problem.with_splits(keys.num_splits if keys else 1)
    joined = joined or _joined_by_rules(problem, spec)
    if joined is not None:
        problem = problem.with_partition(joined.partition)
    if problem.variant != spec.variant:
        spec, tiles = _blackwell_specification_of(problem, row, tiles)
    problem = problem.with_rows(by_rows=counts_rows(spec, posed.sizes))
    if problem.variant != spec.variant:
        spec, tiles = _blackwell_specification_of(problem, row, tiles)
    return Specified(problem, spec, tiles, keys, taken, joined)


def _single(spec: KernelSpec | Depth512Spec) -> KernelSpec | Depth512Spec:
    """Return the kernel with one Q tile, or as it is where there is none."""
    if isinstance(spec, Depth512Spec):
        return spec
    try:
        return _with_query_tiles(spec, 1)
    except ValueError:
        return spec


def _streams(posed: Problem, spec: AttentionSpec) -> bool:
    """Return whether CTAs take as many keys each, as asked for or by the rules.

    Any choice of the caller's besides leaves it out: results are to be those of any other batch.
    """
    features = posed.features
    if features.scheduler is not None:
        return features.scheduler is Scheduler.STREAM_K
    is_open = features.num_splits is None and posed.num_qo is None
    return is_open and streams_keys(spec, posed.sizes, posed.sms)


def _joined_by_rules(problem: Problem, spec: AttentionSpec) -> SplitChoice | None:
    """Return where the results of split keys meet; None when keys are not split."""
    features = problem.features
    if features.count == 1:
        return None
    return choose_split(
        SplitWork(
            features.count,
            depth=problem.head_dim_v,
            rows=min(TMEM_LANES, problem.seqlen_q * spec.rows_per_position),
            num_qo=spec.config.num_qo if isinstance(spec, KernelSpec) else None,
            persistent=problem.variant.is_persistent,
            asked=features.split,
        )
    )


def _blackwell_specification_of(
    problem: Problem, row: KernelRow, tiles: QueryTiles | None
) -> tuple[KernelSpec | Depth512Spec, QueryTiles | None]:
    """Return a kernel with everything chosen, and its Q tiles with the copies that it holds."""
    spec = _specification_of(problem, row)
    if tiles is not None and isinstance(spec, KernelSpec):
        tiles = with_fitting_copies(tiles, spec.config)
        return _with_query_tiles(spec, tiles.num_qo, tiles.row_copies), tiles
    assert isinstance(spec, Depth512Spec)
    return _with_copies_in_pair(spec, problem.sizes.seqlen_q, problem.sizes.seqlen_k), tiles


def _specified_sm90(problem: Problem, row: KernelRow, spec: SM90Spec) -> Specified:
    """Return the Hopper kernel, whose tile and number of splits follow from the sizes.

    Args:
        problem: what is asked for.
        row: the kernel.
        spec: it, of one query tile per CTA where the problem leaves that open.
    """
    asked = problem.features.scheduler is Scheduler.PERSISTENT
    few = _with_tile(spec, TileKind.FEW_ROWS)
    streams = _streams(problem, few)
    if streams and not few.may_stream_keys:
        raise ValueError(
            f"scheduler='stream_k', head_dim={problem.head_dim}: a function and biases that differ "
            "between intervals of the mask leave no registers for it beside scales per token; "
            "nearest supported choice: scheduler='tile'"
        )
    sizes, sms = problem.sizes, problem.sms
    tile = choose_tile(spec, sizes, sms, asked=problem.num_qo, is_persistent=asked)
    if streams and tile.kind is not TileKind.FEW_ROWS:
        if problem.num_qo is not None:
            raise ValueError(
                f"num_qo={problem.num_qo}: CTAs with as many keys each have one Q tile; nearest "
                "supported choice: num_qo=1"
            )
        tile = TileChoice(TileKind.FEW_ROWS, "stream-K has one")
    scheduler, splits = choose_scheduler(spec, sizes, sms, tile.kind), None
    taken = None
    if streams and problem.features.scheduler is None:
        scheduler, taken = Scheduler.STREAM_K, SchedulerChoice(Scheduler.STREAM_K)
    if problem.num_qo is not None and spec.has_other_keys_in_turns:
        scheduler = Scheduler.TILE  # The bits are to be those of any other batch.
    problem = problem.with_scheduler(scheduler)
    if streams:
        problem = problem.with_splits(1)
    elif problem.features.num_splits is None:
        posed = _sm90_specification_of(problem, row, tile)
        splits = choose_key_splits(posed, sizes, sms)
        problem = problem.with_splits(splits.num_splits)
    spec = _sm90_specification_of(problem, row, tile)
    problem = problem.with_rows(by_rows=counts_rows(spec, sizes))
    if problem.variant != spec.variant:
        spec = _sm90_specification_of(problem, row, tile)
    return Specified(problem, spec, tile, splits, taken, _joined_by_rules(problem, spec))


def _sm90_specification_of(problem: Problem, row: KernelRow, tile: TileChoice) -> SM90Spec:
    spec = _specification_of(problem, row)
    assert isinstance(spec, SM90Spec)
    return _with_tile(spec, tile.kind)


def _specification_of(problem: Problem, row: KernelRow) -> AttentionSpec:
    group, dtype = max(1, problem.group), DType(problem.dtype)
    asked = row, dtype, problem.head_dim, group, problem.variant
    try:
        return _specification(*asked, problem.form)
    except ValueError as error:
        # Shared memory may hold one Q tile where it does not hold two.
        if row.specify is KernelSpec and problem.num_qo != 2:
            with suppress(ValueError):
                return _specification(*asked, (*problem.form, ("num_qo", 1)))
        raise error from None


@lru_cache(maxsize=1024)
def _specification(
    row: KernelRow, dtype: DType, head_dim: int, group: int, variant: Variant, form: Form
) -> AttentionSpec:
    """Return one object per kernel, so that it can be found again by its identity."""
    return row.specify.for_attention(dtype, head_dim, group=group, variant=variant, **dict(form))


@lru_cache(maxsize=1024)
def _with_query_tiles(spec: KernelSpec, num_qo: int, row_copies: int = 1) -> KernelSpec:
    """Return one object per kernel, as :func:`_specification` does, or raise as it does."""
    if (num_qo, row_copies) == (spec.config.num_qo, spec.config.row_copies):
        return spec
    return spec.with_config(spec.config.with_num_qo(num_qo, row_copies))


@lru_cache(maxsize=1024)
def _with_copies_in_pair(spec: Depth512Spec, seqlen_q: int, seqlen_k: int) -> Depth512Spec:
    """Return one object per kernel, as :func:`_specification` does, with copies of few rows."""
    if not spec.may_copy_rows:
        return spec
    return spec.with_row_copies(row_copies_of_pair(spec.config, seqlen_q, seqlen_k))


@lru_cache(maxsize=1024)
def _with_tile(spec: SM90Spec, kind: TileKind) -> SM90Spec:
    """Return one object per kernel, as :func:`_specification` does."""
    return kind.applied(spec)


def combine_spec(problem: Problem) -> CombineSpec:
    """Return the kernel that combines the splits of ``problem``."""
    dtype = DType(problem.dtype).output
    return CombineSpec(dtype, problem.head_dim_v, problem.return_lse, problem.arch)

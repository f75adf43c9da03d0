"""What a pair of CTAs adds to a role's context: the rank, and barriers in the leader.

Both CTAs decode the same work tile and count its key tiles with the rows of the pair; they differ
in their rank, which names their rows of Q, K and O and their columns of V
(``docs/sources.md`` sections 3 and 10).
"""

from dataclasses import dataclass, replace
from typing import Self

from cutlass import Int32

from ..device import ids
from ..pipelines import PairBarriers
from ..plan.spec.attention_spec import AttentionSpec
from .context import KernelContext, TmemContext
from .sequence import Arguments
from .stream_k import work_in_line
from .tile import (
    WorkTile,
    place_in_section,
    place_of_work,
    query_tile,
    work_at,
    work_by_rows,
)


@dataclass(frozen=True)
class InPair(TmemContext):
    """What the contexts of the CTAs of a pair have in common: their rank."""

    barriers: PairBarriers
    rank: Int32

    def decoded(self) -> Self:
        """Return the same context with the work tile of the CTA."""
        if not self.spec.variant.streams_keys:
            work = decode_pair_work(self.spec, self.args, self.rank, self.index)
        else:
            work = of_rank(self.spec, work_in_line(self.spec, self.args, self.stretch), self.rank)
        return replace(self, work=work)

    def slice_start(self, size: int) -> Int32:
        """Return where this CTA's slice begins in what the pair divides, ``size`` for each."""
        return self.rank * size


@dataclass(frozen=True)
class PairCtaContext(InPair, KernelContext):
    """The context of one CTA of a pair that has two Q tiles each."""


def decode_pair_work(
    spec: AttentionSpec, args: Arguments, rank: Int32, index: Int32 | None = None
) -> WorkTile:
    """Return the tile of this CTA's pair, or that of number ``index`` in the schedule's order.

    With causal masks the longest tiles come first.
    """
    if spec.variant.by_rows:
        work = work_by_rows(spec, args, index)
    else:
        work = work_in_turn(spec, args, index)
    return of_rank(spec, work, rank)


def of_rank(spec: AttentionSpec, work: WorkTile, rank: Int32) -> WorkTile:
    """Return the tile of a pair with the rows of its CTA ``rank``."""
    return replace(work, position=work.position + rank * spec.config.BM_eff())


def work_in_turn(spec: AttentionSpec, args: Arguments, index: Int32 | None) -> WorkTile:
    """Return the tile of this CTA's pair where all sequences have as many query tiles."""
    config = spec.config
    if index is not None:
        block, head, batch, num_pairs = place_of_work(spec, args, index)
    elif spec.heads_first:
        block, head, batch, num_pairs = place_in_section(spec, args.num_q_heads)
    else:
        block, head, batch = ids.block_index()
        num_pairs = ids.grid_size_x() // config.cta_group()
        block = block // config.cta_group()
    tile, split = query_tile(spec, args, block, num_pairs)
    first = tile * config.PairBM_eff()
    return work_at(spec, args, (first, head, batch), split)

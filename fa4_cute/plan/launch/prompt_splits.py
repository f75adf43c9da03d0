"""How many Q tiles the CTAs of a prompt have whose keys are split: as predicted, with its splits.

Where keys are whole one Q tile to a CTA gives few query tiles to twice as many SMs. Splits give
work to all SMs either way, and two Q tiles load keys once for both and take less than twice one:
then they may win. One Q tile has the shorter ways to put few partial results together.
"""

from __future__ import annotations

from typing import NamedTuple

from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from .key_splits import WORTH
from .selection import QueryTiles, row_copies_of
from .sm100_splits import BlackwellSplits, choose_blackwell_splits
from .tiles import AttentionSizes


class TiledSplits(NamedTuple):
    """The decision: Q tiles of a CTA, None for pairs, and splits; None: no choice of these."""

    tiles: QueryTiles | None
    splits: BlackwellSplits | None


def choose_tiled_splits(
    spec: KernelSpec | Depth512Spec,
    tiles: QueryTiles | None,
    sizes: AttentionSizes,
    num_sms: int,
) -> TiledSplits:
    """Return the splits of a call that leaves them open, and the Q tiles that go with them.

    Args:
        spec: the kernel of whole keys. tiles: why it has so many Q tiles; others are tried unless
            that is final. sizes, num_sms: of the call.
    """
    splits = choose_blackwell_splits(spec, sizes, num_sms)
    if splits is None or tiles is None or tiles.is_final or not isinstance(spec, KernelSpec):
        return TiledSplits(tiles, splits)
    # Both are possible: the kernel of two is where the choice began, and one that is not is final.
    count = 3 - spec.config.num_qo
    copies = row_copies_of(spec.config, count, sizes.seqlen_q, sizes.seqlen_k)
    config = spec.config.with_num_qo(count, copies)
    other = choose_blackwell_splits(spec.with_config(config), sizes, num_sms)
    if other is None or other.key_splits.num_splits == 1 or other.cycles > WORTH * splits.cycles:
        return TiledSplits(tiles, splits)
    both = (splits.cycles, other.cycles) if count == 2 else (other.cycles, splits.cycles)
    one, two = (f"{cycles:,}" for cycles in both)
    told = f"{one} cycles with one Q tile, {two} with two (of medians of draws)"
    reason = f"predicted for a B200 with split keys are {told}"
    return TiledSplits(QueryTiles(count, reason, row_copies=copies), other)

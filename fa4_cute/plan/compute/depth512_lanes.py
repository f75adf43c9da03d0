"""Which thread of a warp group holds what of the pair's accumulators.

Lane ``l`` of Tensor Memory belongs to thread ``l`` of a warp group. An accumulator of 128 rows per
CTA has a row in each lane. One of 64 rows fills 128 lanes as well: lane ``r + 64`` continues row
``r`` (PTX ISA, "Data Path Layout Organization", layouts A and B of ``cta_group::2``)::

    head dim 256   lane l        row l        all columns
    head dim 512   lane 0-63     row l        first half of the columns   (half 0)
                   lane 64-127   row l - 64   second half                 (half 1)
"""

from __future__ import annotations

from ..config.depth512_config import Depth512Config


def row_of_lane(config: Depth512Config, lane: int) -> int:
    """Return the row of the CTA's Q tile that lies in ``lane``."""
    return lane % config.BM


def lane_half(config: Depth512Config, lane: int) -> int:
    """Return which half of the row's columns lies in ``lane``: 0, or 1 where rows are split."""
    return lane // config.BM


def first_key(config: Depth512Config, half: int) -> int:
    """Return the key, within its tile, in the first score column of the lanes of ``half``."""
    return half * config.s_columns


def first_output(config: Depth512Config, o_block: int, half: int) -> int:
    """Return the head-dim column in the first column of o block ``o_block``, lanes of ``half``."""
    return o_block * (config.padded_depth // config.num_o_blocks) + half * config.o_columns

"""Columns of an operand tile as chunks of one swizzle span: what one TMA box fills.

A tile lies in shared memory chunk after chunk, each with all rows of the tile. Q and K are loaded
in qk stages; rope columns come on their own, with their own element type, region and, when the type
differs, tensor map.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..config.sm90_config import SM90Config

COPIES_IN_A_ROW: Final = 16
"""Copies of a tile that follow one another in the code, not in turns of a loop. A copy holds its
uniform registers until it begins; in a loop the next one, which writes the same, waits for that.
Sixteen are those of K of 128 keys over pages of 16, of two chunks. More lengthen the code only."""
FEW_COPIES: Final = 8
"""Where K has rope columns besides, whose copies follow; where V has a load warp of its own, so
that two such codes share the instruction cache; on Hopper, whose load warp has fewer registers:
sixteen spill there."""
FEWEST_COPIES: Final = 4
"""Where the load warp has scales per token or a mask of several terms besides."""


@dataclass(frozen=True)
class ColumnChunks:
    """Consecutive columns of one tile.

    Attributes:
        first: first column in the operand's tensor map.
        columns: number of columns, whole chunks.
        width: columns of a chunk.
        row_bytes: bytes of one row of a chunk.
    """

    first: int
    columns: int
    width: int
    row_bytes: int

    @property
    def starts(self) -> range:
        """First column of each chunk."""
        return range(self.first, self.first + self.columns, self.width)

    def boxes_in_a_row(self, boxes: int, copies: int) -> int:
        """Return how many of a tile's boxes of rows are copied in a row: a divisor of ``boxes``.

        ``copies`` is :func:`copies_in_a_row`, each of a chunk of a box.
        """
        most = max(1, copies // len(self.starts))
        return max(count for count in range(1, boxes + 1) if boxes % count == 0 and count <= most)


def copies_in_a_row(
    config: FA4Config | Depth512Config | SM90Config, *, is_laden: bool = False
) -> int:
    """Return how many copies of a tile's pages follow one another in the code at most.

    ``is_laden`` says that keys have scales per token, or the mask several terms.
    """
    if is_laden:
        return FEWEST_COPIES
    has_rope = isinstance(config, FA4Config) and config.rope_depth() > 0
    few = has_rope or isinstance(config, SM90Config) or config.loads_values_apart
    return FEW_COPIES if few else COPIES_IN_A_ROW


def boxes_of_tile(config: FA4Config | Depth512Config) -> int:
    """Return how many boxes a CTA asks for, to have a tile of K and of V, or its part of them.

    Over pages a box has the rows of one page at most. There are none where lanes copy.
    """
    if isinstance(config, FA4Config) and config.copies_by_lanes:
        return 0
    stages = range(config.num_qk_stages)
    of_keys = sum(len(depth_chunks(config, stage).starts) for stage in stages)
    if isinstance(config, FA4Config) and config.rope_depth():
        of_keys += len(rope_chunks(config).starts)
    blocks = 1 if isinstance(config, FA4Config) else config.num_o_blocks
    of_values = blocks * len(value_chunks(config).starts)
    k_rows, v_rows = config.k_rows_per_cta(), config.BK1
    boxes = of_keys * (k_rows // gcd(k_rows, config.page_size))
    return boxes + of_values * (config.BN // v_rows) * (v_rows // gcd(v_rows, config.page_size))


def depth_chunks(
    config: FA4Config | Depth512Config | SM90Config, qk_stage: int
) -> ColumnChunks:
    """Return the columns of qk stage ``qk_stage`` of Q and K, without rope."""
    columns = config.nope_depth() // config.num_qk_stages
    first = qk_stage * columns
    return ColumnChunks(first, columns, config.swizzle_elems, config.swizzle_mode.bytes)


def rope_chunks(config: FA4Config) -> ColumnChunks:
    """Return the rope columns of Q and K; they follow the others unless they are apart."""
    first = 0 if config.rope_apart else config.nope_depth()
    span = config.rope_swizzle.bytes
    return ColumnChunks(first, config.rope_depth(), span // config.rope_dtype_size, span)


def value_chunks(config: FA4Config | Depth512Config | SM90Config) -> ColumnChunks:
    """Return the columns of V that one CTA holds in a slot, counted from its first."""
    columns, span = config.v_cols_per_cta(), config.value_swizzle.bytes
    return ColumnChunks(0, columns, span // config.qkv_dtype_size, span)

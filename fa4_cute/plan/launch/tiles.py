"""The launch grid: how many CTAs a problem has, by query tiles, heads and sequences.

What a CTA does with its place in the grid is told by the device (``work.tile``), and which key
tiles it visits by ``plan.masks.key_tiles``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..config.sm90_config import SM90Config
from ..facts.hardware import ceil_div
from .packed_rows import num_packed_tiles

SECTION_BYTES: Final = 32 * 2**20
"""Most bytes of K and V of heads that are taken together: they stay in an L2 of 50 MB (H100)."""


@dataclass(frozen=True)
class TileShape:
    """What the grid needs of a configuration.

    Args:
        positions: query positions per work tile, over all CTAs that share an MMA (``PairBM_eff``).
        group: query heads packed into the rows, 1 when they are not.
        cluster_size: CTAs per work tile: those that share an MMA.
    """

    positions: int
    group: int = 1
    cluster_size: int = 1

    @classmethod
    def of(cls, config: FA4Config | Depth512Config | SM90Config) -> TileShape:
        """Return the shape of a configuration's work tile."""
        return cls(
            positions=config.PairBM_eff(),
            group=config.group if config.fuse_gqa else 1,
            cluster_size=config.cta_group(),
        )


def grid(
    shape: TileShape, *, max_seqlen_q: int, num_q_heads: int, batch: int
) -> tuple[int, int, int]:
    """Return the launch grid (x, y, z) in CTAs: query tiles, scheduled heads, sequences.

    With the group packed into rows, one scheduled head stands for a key/value head.
    """
    tiles = ceil_div(max_seqlen_q, shape.positions)
    return tiles * shape.cluster_size, num_q_heads // shape.group, batch


def grid_by_rows(
    shape: TileShape, total_q: int, num_q_heads: int, batch: int
) -> tuple[int, int, int]:
    """Return the grid of packed queries: packed tiles of all sequences and heads along x."""
    tiles = num_packed_tiles(total_q, batch, shape.positions)
    return tiles * (num_q_heads // shape.group) * shape.cluster_size, 1, 1


@dataclass(frozen=True)
class AttentionSizes:
    """Sizes of one call: q (batch, seqlen_q, num_q_heads, d), k and v (batch, seqlen_k, ...).

    Of packed sequences, those of the longest; ``total_q`` are the queries of all of them, 0 for as
    many in each.
    """

    batch: int
    seqlen_q: int
    seqlen_k: int
    num_q_heads: int
    num_kv_heads: int
    total_q: int = 0

    @property
    def num_queries(self) -> int:
        """Queries of all sequences."""
        return self.total_q or self.batch * self.seqlen_q

    @property
    def mean_keys(self) -> int:
        """Keys of a sequence on average, where each has as many for a query as the longest."""
        return self.seqlen_k * self.num_queries // max(1, self.batch * self.seqlen_q)

    def query_tiles(self, shape: TileShape) -> int:
        """Return the work tiles of all heads and sequences: at most, where these are packed."""
        each = math.prod(self.blocks(shape))
        if self.total_q:
            each = min(each, math.prod(self.blocks(shape, by_rows=True)))
        return each // shape.cluster_size

    def full_query_tiles(self, shape: TileShape) -> int:
        """Return how many work tiles at least have queries: those of one sequence with all."""
        one = grid(shape, max_seqlen_q=self.num_queries, num_q_heads=self.num_q_heads, batch=1)
        return math.prod(one) // shape.cluster_size

    def blocks(self, shape: TileShape, *, by_rows: bool = False) -> tuple[int, int, int]:
        """Return the grid in which every work tile of this shape has CTAs of its own.

        With ``by_rows`` sequences lie one behind the other along x, with all heads; else along z,
        each with as many query tiles as the longest.
        """
        if by_rows:
            return grid_by_rows(shape, self.num_queries, self.num_q_heads, self.batch)
        return grid(
            shape,
            max_seqlen_q=self.seqlen_q, num_q_heads=self.num_q_heads, batch=self.batch,
        )  # fmt: skip


@lru_cache(maxsize=1024)
def heads_of_section(num_heads: int, bytes_per_head: int) -> int:
    """Return how many of ``num_heads`` heads are taken together: a divisor, as large as fits."""
    fitting = min(num_heads, SECTION_BYTES // max(1, bytes_per_head))
    return next((n for n in range(fitting, 0, -1) if num_heads % n == 0), 1)


def kept_tiles(
    seqlen_q: int, seqlen_k: int, positions: int, heads: int, bytes_of_key: int
) -> int:
    """Return how many query tiles of a head are kept: the keys that they see fit the L2.

    Args:
        seqlen_q, seqlen_k: queries and keys of a sequence. positions: of a query tile.
        heads: of all sequences. bytes_of_key: K and V of a key of one of them.
    """
    fitting = SECTION_BYTES // max(1, heads * bytes_of_key)
    seen_by_all = seqlen_k - seqlen_q
    if fitting >= seqlen_k:
        return ceil_div(seqlen_q, positions)
    return max(0, (fitting - seen_by_all) // positions)

"""Which CTA computes which rows, and which key tiles it visits: the map that all roles share.

Dense batches, one work tile per CTA (or CTA pair), not persistent
(``modular-sm100-attention.md`` sections 5.1, 5.6 and 5.9). Every role derives the tile counts from
the same numbers; roles that disagreed would leave a barrier waiting for ever. The functions use
only integer arithmetic, so that the device can mirror them line by line.

Causal masks are aligned to the bottom right: query ``i`` of ``seqlen_q`` sees the keys
``j <= i + seqlen_k - seqlen_q``. With more queries than keys the first rows see nothing; their
output is 0 and their log-sum-exp minus infinity. Key tiles of one query tile::

    0            full                     total
    | unmasked   | masked per element     |  never loaded ..
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..facts.hardware import ceil_div

MASK_WORD_BITS = 32
"""Columns that one visibility word covers: the batch in which a thread loads its scores."""


class MaskKind(Enum):
    """Mask of a problem."""

    FULL = "full"
    CAUSAL = "causal"


@dataclass(frozen=True)
class TileShape:
    """What the tile map needs of a configuration.

    Args:
        positions: query positions per work tile, over all CTAs of a cluster (``PairBM_eff``).
        keys: keys per tile (``BN``).
        group: query heads packed into the rows, 1 when they are not.
        cluster_size: CTAs per work tile.
    """

    positions: int
    keys: int
    group: int = 1
    cluster_size: int = 1

    @classmethod
    def of(cls, config: FA4Config | Depth512Config) -> TileShape:
        """Return the shape of a configuration's work tile."""
        return cls(
            positions=config.PairBM_eff(),
            keys=config.BN,
            group=config.group if config.fuse_gqa else 1,
            cluster_size=config.cta_group(),
        )


@dataclass(frozen=True)
class KeyTiles:
    """Key tiles of one query tile: ``full`` need no mask, ``total`` are visited at all."""

    full: int
    total: int

    @property
    def masked(self) -> int:
        """Tiles that select per element."""
        return self.total - self.full


def num_query_tiles(shape: TileShape, seqlen_q: int) -> int:
    """Return the work tiles of one head."""
    return ceil_div(seqlen_q, shape.positions)


def grid(
    shape: TileShape, *, max_seqlen_q: int, num_q_heads: int, batch: int
) -> tuple[int, int, int]:
    """Return the launch grid (x, y, z) in CTAs: query tiles, scheduled heads, sequences.

    With the group packed into rows, one scheduled head stands for a key/value head.
    """
    tiles = num_query_tiles(shape, max_seqlen_q)
    return tiles * shape.cluster_size, num_q_heads // shape.group, batch


def query_tile(shape: TileShape, block_x: int, num_tiles: int, mask: MaskKind) -> int:
    """Return the query tile of CTA ``block_x``; a causal grid starts with the longest tiles."""
    index = block_x // shape.cluster_size
    return num_tiles - 1 - index if mask is MaskKind.CAUSAL else index


def score_row(prompt_offset: int, seqlen_q: int, seqlen_k: int) -> int:
    """Return the last key that the tile's first query may see under a causal mask.

    Negative when the first query sees no key at all.
    """
    return prompt_offset + seqlen_k - seqlen_q


def key_tiles(
    shape: TileShape, mask: MaskKind, *, prompt_offset: int, seqlen_q: int, seqlen_k: int
) -> KeyTiles:
    """Return how many key tiles the query tile at ``prompt_offset`` visits.

    A tile past the end of the sequence visits none; so does one whose queries see no key.
    """
    if prompt_offset >= seqlen_q:
        return KeyTiles(0, 0)
    if mask is MaskKind.FULL:
        return KeyTiles(seqlen_k // shape.keys, ceil_div(seqlen_k, shape.keys))
    first = score_row(prompt_offset, seqlen_q, seqlen_k)
    visible_to_all = max(0, first + 1)
    visible_to_any = max(0, min(first + shape.positions, seqlen_k))
    return KeyTiles(visible_to_all // shape.keys, ceil_div(visible_to_any, shape.keys))


def visible_keys(mask: MaskKind, *, position: int, seqlen_q: int, seqlen_k: int) -> int:
    """Return how many keys, counted from key 0, query ``position`` sees."""
    if mask is MaskKind.FULL:
        return seqlen_k
    return min(seqlen_k, max(0, score_row(position, seqlen_q, seqlen_k) + 1))


def mask_word(visible: int, first_key: int) -> int:
    """Return the visibility of 32 keys from ``first_key``: bit ``i`` set when key is visible."""
    count = min(MASK_WORD_BITS, max(0, visible - first_key))
    return (1 << count) - 1


def row_position(shape: TileShape, tile_row: int) -> int:
    """Return the query position, within the CTA's tile, of MMA row ``tile_row``."""
    return tile_row // shape.group


def row_head(shape: TileShape, scheduled_head: int, tile_row: int) -> int:
    """Return the query head of MMA row ``tile_row``."""
    return scheduled_head * shape.group + tile_row % shape.group


def kv_head(shape: TileShape, scheduled_head: int, group: int) -> int:
    """Return the key/value head of a scheduled head; ``group`` is query heads per KV head."""
    return scheduled_head * shape.group // group


def tile_row(shape: TileShape, position: int, head_in_group: int = 0) -> int:
    """Return the MMA row of a query position within the CTA's tile: inverse of the row maps."""
    return position * shape.group + head_in_group


def valid_positions(*, seqlen_q: int, first_position: int, positions: int) -> int:
    """Return how many of ``positions`` query positions from ``first_position`` exist."""
    return max(0, min(positions, seqlen_q - first_position))

"""How kernels spread query tiles over clusters, and which keys each of them sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fa4_cute.plan.launch.tiles import heads_of_section, kept_tiles
from fa4_cute.plan.masks.query_tiles import KeptOrder

KEY_TILES: Final = (128, 192, 64, 96, 256)
"""Keys that kernels take at once."""


@dataclass(frozen=True)
class Layout:
    """How a kernel spreads query tiles over clusters.

    Attributes:
        rows: queries of a tile.
        cluster: CTAs that share it.
        persistent: whether as many clusters as the chip has places take the tiles in turn.
        order: "heads" (tiles of a head one after the other) or "sections" (the longest tiles of
            many heads first); longest first in both, but for those that are `rising`.
        block: keys that it takes at once.
        turns: whether every other round of a persistent kernel goes backwards.
        runner: whose kernel it is.
        claims: whether clusters that run take over the tiles of those that have not started.
    """

    rows: int
    cluster: int
    persistent: bool
    order: str = "heads"
    block: int = KEY_TILES[0]
    turns: bool = False
    runner: str = ""
    rising: bool = False
    claims: bool = False

    def taken(self, tiles: Sequence[int], cluster: int, clusters: int) -> list[int]:
        """Return those of ``tiles`` that a cluster of ``clusters`` takes; one takes over all."""
        if self.claims:
            return list(tiles)
        if not self.persistent:
            return [tiles[cluster]]
        if not self.turns:
            return list(tiles[cluster::clusters])
        last = 2 * clusters - 1 - cluster
        places = sorted([*range(cluster, len(tiles), 2 * clusters),
                         *range(last, len(tiles), 2 * clusters)])  # fmt: skip
        return [tiles[place] for place in places]


@dataclass(frozen=True)
class Extent:
    """A problem as a grid sees it.

    Attributes:
        heads: of all sequences. queries, keys: of a head. causal: the mask.
        section: heads that are taken together.
        key_bytes: K and V of a key of a head, where CTAs that take over others keep the shortest
            tiles for the end; else 0.
        window: keys before its own that a query sees, or None for all.
    """

    heads: int
    queries: int
    keys: int
    causal: bool
    section: int = 1
    key_bytes: int = 0
    window: int | None = None

    def tiles(self, layout: Layout) -> list[int]:
        """Keys of each tile, in whole blocks, in the order in which tiles are given out."""
        return self.by_parts(layout, 1)

    def by_parts(self, layout: Layout, parts: int) -> list[int]:
        """The same of so many parts of each tile's rows, together."""
        rows = layout.rows // parts
        seen = [
            sum(len(self.blocks(layout, first + part * rows, rows)) for part in range(parts))
            for first in range(0, self.queries, layout.rows)
        ]
        return [seen[tile] * layout.block for _, tile in self.order(layout)]

    def order(self, layout: Layout) -> list[tuple[int, int]]:
        """Head and tile, of the first queries 0, in the order in which tiles are given out."""
        count = -(-self.queries // layout.rows)
        falls = self.causal and not layout.rising
        numbers = list(reversed(range(count)) if falls else range(count))
        section = 1 if layout.order == "heads" or not self.causal else self.section
        if layout.claims and self.key_bytes and self.causal:
            section = heads_of_section(self.heads, self.keys * self.key_bytes)
            kept = kept_tiles(self.queries, self.keys, layout.rows, self.heads, self.key_bytes)
            of = KeptOrder(section, self.heads // section, count, kept)
            places = (of.place(index) for index in range(count * self.heads))
            return [(head, numbers[block]) for block, head in places]
        return [
            (head, tile)
            for first in range(0, self.heads, section) for tile in numbers
            for head in range(first, min(first + section, self.heads))
        ]  # fmt: skip

    def blocks(self, layout: Layout, first: int, rows: int) -> range:
        """Return the blocks of keys that some of ``rows`` queries from ``first`` on see."""
        last, before = -(-self.keys // layout.block), self.keys - self.queries
        if not self.causal:
            return range(last)
        start = 0 if self.window is None else max(0, first + before - self.window)
        return range(start // layout.block, min(last, -(-(first + rows + before) // layout.block)))

"""When the last query tile ends of those that go to whoever is free, in the order of a launch.

A CTA for every query tile is such a launch, and so are CTAs that take over others. Sections of
heads whose keys and values fit the L2 come one after the other, in each the longest query tiles
first (``work.tile``); the second keep short ones for the end (``plan.masks.query_tiles``). So a
launch of many sections ends with short query tiles of the last one, and what is long in it may end
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace
from typing import Final

from ..facts.hardware import ceil_div
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from .launch import bytes_of_head, bytes_of_key
from .tiles import AttentionSizes, TileShape, heads_of_section, kept_tiles

FOLLOWED: Final = 32
"""Query tiles of a place that are followed, the last ones; those before are taken to end at once in
all places."""


@dataclass(frozen=True)
class HandedOrder:
    """The order of query tiles.

    Attributes:
        heads: of all sequences. section: heads that are taken together. kept: of a head's query
            tiles those that are kept for the end.
    """

    heads: int
    section: int
    kept: int = 0

    @classmethod
    def of(
        cls, spec: KernelSpec | Depth512Spec, sizes: AttentionSizes, *, keeps_short: bool
    ) -> HandedOrder:
        """Return the order of a kernel whose late query tiles have more keys; those that keep short
        ones have sections of several sequences, too."""
        shape, of_head = TileShape.of(spec.config), bytes_of_head(spec, sizes)
        _, heads, batch = sizes.blocks(shape)
        every, of_key = heads * batch, bytes_of_key(spec, sizes)
        if not keeps_short:
            return cls(every, heads_of_section(heads, of_head))
        kept = kept_tiles(sizes.seqlen_q, sizes.seqlen_k, shape.positions, every, of_key)
        return cls(every, heads_of_section(every, of_head), kept)

    def busiest(self, loads: tuple[int, ...], places: int) -> int:
        """Return when the last place ends.

        Args:
            loads: what each query tile of a head takes, the longest first. places: that take them.
        """
        most, front = FOLLOWED * places, len(loads) - self.kept
        of_section = [load for load in loads[:front] for _ in range(self.section)]
        kept = [load for load in loads[front:] for _ in range(self.heads)]
        sections = ceil_div(max(0, most - len(kept)), max(1, len(of_section)))
        order = of_section * min(sections, self.heads // self.section) + kept
        order = order[-most:]
        ends = [(sum(loads) * self.heads - sum(order)) // places] * places
        for load in order:
            heapreplace(ends, ends[0] + load)
        return max(ends)

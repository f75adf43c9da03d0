"""Stream-K launches of the page: who has been at a query tile, and which CTA is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fa4_cute.plan.launch.key_splits import tiles_in_line
from fa4_cute.plan.launch.launch import lines_of_launch
from fa4_cute.plan.launch.stream_k import Part, TileInLine
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.spec.attention_spec import AttentionSpec


class Line(NamedTuple):
    """One of the lines of a launch, which are all alike.

    Attributes:
        tiles: its query tiles, by their numbers. num_ctas: that have a stretch of it, or pairs.
        lines: how many there are. heads: of each sequence in one.
    """

    tiles: list[TileInLine]
    num_ctas: int
    lines: int = 1
    heads: int = 1

    @classmethod
    def of(
        cls, spec: AttentionSpec, sizes: AttentionSizes, lengths: Sequence[int], num_sms: int
    ) -> Line:
        """The lines of a kernel, without a mask, whose sequences have so many keys."""
        lines = lines_of_launch(spec, sizes, num_sms)
        tiles = tiles_in_line(spec, sizes, lengths, num_sms)
        return cls(tiles, lines.stretches, lines.num_lines, lines.heads)

    def counted(self, cta: int) -> list[int]:
        """How many parts of each query tile are there when a CTA of the first line ends its own.

        All others of its last one: a launch waits for CTAs that find themselves the last. None of
        those after which it goes on: the CTAs of all other parts end with them, and so later.
        """
        parts = [tile.part(cta) for tile in self.tiles]
        last = max(n for n, part in enumerate(parts) if 0 <= part.index < part.num_parts)
        here = [int(part.num_parts - 1) * (n == last) for n, part in enumerate(parts)]
        # Heads of a sequence follow one another, of which the line has every so many.
        return [count for own in here for count in (own, *[0] * (self.lines - 1))]

    def parts(self) -> Iterator[tuple[int, Part]]:
        """Every part of a query tile, after the CTA that has it."""
        for tile in self.tiles:
            some = tile.part(0)
            for cta in range(-some.index, some.num_parts - some.index):
                yield cta, tile.part(cta)

    def work(self) -> list[tuple[int, int]]:
        """Of each CTA what its parts take in key tiles, by the plan, and how many they are."""
        key_tiles, count = Counter[int](), Counter[int]()
        for cta, part in self.parts():
            key_tiles[cta] += self.tiles[0].start_tiles + part.count
            count[cta] += 1
        return [(key_tiles[cta], count[cta]) for cta in range(self.num_ctas)]

    def busiest(self) -> int:
        """The first CTA that has most to do, and of those one with most parts.

        All stretches are as long, but in which a CTA begins with a later part of a query tile,
        the start of that counts for another, and this one has it besides; the last may be short.
        """
        work = self.work()
        return work.index(max(work))

"""The order in which dynamic CTAs are handed the query tiles of causal launches.

Plain ones, of dense sequences, go by sections; chunks of prompts over a KV cache by sequences.
Sections of heads whose keys and values fit the L2 come one after the other, in each the longest
query tiles first. The shortest ones of all heads are kept for the end: else the longest of the last
section begin when little else is left to do beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .masks import HOST, Arithmetic


@dataclass(frozen=True)
class KeptOrder:
    """The order of a launch; while a kernel is traced, the counts are registers.

    Attributes:
        heads: of a section.
        sections: of all heads and sequences.
        tiles: query tiles of a head, the longest first.
        kept: of these the last, which come after those of all sections.
    """

    heads: Any
    sections: Any
    tiles: Any
    kept: Any

    def place(self, index: Any, ops: Arithmetic = HOST) -> tuple[Any, Any]:
        """Return query tile and head, of those of all sequences, of the ``index``-th work.

        All heads of one query tile, of a section or of those that are kept, follow one another.
        """
        front, every = self.tiles - self.kept, self.heads * self.sections
        before = every * front
        is_kept = index >= before
        # What is kept is one section, of all heads.
        first, tiles = ops.select(is_kept, front, 0), ops.select(is_kept, self.kept, front)
        together = ops.select(is_kept, every, self.heads)
        index = index - ops.select(is_kept, before, 0)
        row = index // together
        section = row // tiles
        column = index - row * together
        return first + (row - section * tiles), section * together + column


@dataclass(frozen=True)
class SequenceOrder:
    """The order of a launch that takes a sequence after the other, as numbers or registers.

    Attributes:
        heads: of a sequence.
        tiles: query tiles of a head, the longest first.
    """

    heads: Any
    tiles: Any

    def place(self, index: Any) -> tuple[Any, Any, Any]:
        """Return query tile, head and sequence of the ``index``-th work.

        All heads of one query tile follow one another.
        """
        row = index // self.heads
        sequence = row // self.tiles
        return row - sequence * self.tiles, index - row * self.heads, sequence

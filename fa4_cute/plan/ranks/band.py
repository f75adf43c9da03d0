"""``cover``: the visible part of a block of rows and keys, as calls that attention can make.

A mask by position is a band: row ``r`` sees the keys from ``r - left`` to ``r + right``. A call
counts its rows and keys from its own first ones and puts its last row at its last key. So a band
that is shifted against the block's corner has no call of its own, and a kernel is compiled for each
width of a window. Both are met by cutting: every piece ends where its band ends. Whatever the sizes
of the blocks, four kernels serve a band: full, ``(None, 0)``, ``(0, None)``, ``(left + right, 0)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Span = tuple[int, int]
"""First number, and the one after the last."""


@dataclass(frozen=True)
class Band:
    """Row ``r`` sees the keys ``r - left <= key <= r + right``; None leaves a side open."""

    left: int | None = None
    right: int | None = None

    def keys(self, rows: Span, keys: Span) -> Span:
        """Return those of ``keys`` that some of ``rows`` may see; rows must not be empty."""
        low = keys[0] if self.left is None else max(keys[0], rows[0] - self.left)
        high = keys[1] if self.right is None else min(keys[1], rows[1] + self.right)
        return low, high

    def rows(self, rows: Span, keys: Span) -> Span:
        """Return those of ``rows`` that may see some of ``keys``; keys must not be empty."""
        low = rows[0] if self.right is None else max(rows[0], keys[0] - self.right)
        high = rows[1] if self.left is None else min(rows[1], keys[1] + self.left)
        return low, high

    def meets(self, rows: Span, keys: Span) -> bool:
        """Return whether any of ``rows`` sees any of ``keys``."""
        if rows[0] >= rows[1] or keys[0] >= keys[1]:
            return False
        low, high = self.keys(rows, keys)
        return low < high


FULL: Final = Band()
CAUSAL: Final = Band(None, 0)
_LEFT_ONLY: Final = Band(0, None)


@dataclass(frozen=True)
class Piece:
    """What one call computes.

    Attributes:
        rows, keys: what it gets.
        band: what a row sees of them, where the last row stands at the last key.
    """

    rows: Span
    keys: Span
    band: Band


def cover(rows: Span, keys: Span, band: Band) -> list[Piece]:
    """Return pieces that hold every visible pair of ``rows`` and ``keys`` once, and no other."""
    if not band.meets(rows, keys):
        return []
    rows, keys = band.rows(rows, keys), band.keys(rows, keys)
    left = band.left is not None and rows[1] - 1 - band.left > keys[0]
    right = band.right is not None and rows[0] + band.right < keys[1] - 1
    if right and band.right is not None:
        last = keys[1] - band.right
        # Rows from ``last`` on see the last key: for them the right side is open.
        if last < rows[1]:
            upper, lower = (rows[0], last), (last, rows[1])
            return [*cover(upper, keys, band), *cover(lower, keys, Band(band.left, None))]
        width = None if not left or band.left is None else band.left + band.right
        return [Piece(rows, keys, Band(width, 0))]
    if left and band.left is not None:
        first = rows[1] - band.left
        # Keys from ``first`` on are seen by the last row too, and so by all.
        cut = [Piece(rows, (keys[0], first), _LEFT_ONLY)]
        return cut if first >= keys[1] else [*cut, Piece(rows, (first, keys[1]), FULL)]
    return [Piece(rows, keys, FULL)]

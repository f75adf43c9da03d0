"""What a persistent CTA has done before: the counts that barrier parities continue from.

A CTA that computes one query tile starts every count at 0, as Python integers, which leave no trace
in its code.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32

from ..plan.spec.issue_order import IssueOrder


@dataclass(frozen=True)
class Progress:
    """Counts over all earlier query tiles of the CTA.

    Attributes:
        loaded: query tiles that had key tiles.
        tiles: key tiles.
        second: key tiles of chain 1, where the chains share the key tiles out.
        second_loaded: query tiles in which chain 1 had key tiles, likewise.
    """

    loaded: Int32 | int = 0
    tiles: Int32 | int = 0
    second: Int32 | int = 0
    second_loaded: Int32 | int = 0

    @classmethod
    def zero(cls) -> "Progress":
        """Return the counts of a CTA that has done nothing, as registers."""
        return cls(*(Int32(0) for _ in range(4)))

    def steps_of(self, chain: int, order: IssueOrder) -> Int32 | int:
        """Return the key tiles of ``chain``."""
        if not order.deals_out:
            return self.tiles
        return self.second if chain else _difference(self.tiles, self.second)

    def corrections_of(self, chain: int, order: IssueOrder) -> Int32 | int:
        """Return the corrections of ``chain``: per query tile, one fewer than key tiles."""
        return _difference(self.steps_of(chain, order), self.outputs_of(chain, order))

    def outputs_of(self, chain: int, order: IssueOrder) -> Int32 | int:
        """Return the query tiles in which ``chain`` had key tiles, and so accumulated an output."""
        return self.second_loaded if order.deals_out and chain else self.loaded

    def after(self, num_tiles: Int32, order: IssueOrder) -> "Progress":
        """Return the counts after a query tile with ``num_tiles`` key tiles."""
        second = order.num_tiles(1, num_tiles) if order.deals_out else Int32(0)
        return Progress(
            self.loaded + _one_if_any(num_tiles),
            self.tiles + num_tiles,
            self.second + second,
            self.second_loaded + _one_if_any(second),
        )

    def __extract_mlir_values__(self) -> list:
        """Return the registers, for the loop over query tiles."""
        return [value.ir_value() for value in self._counts]

    def __new_from_mlir_values__(self, values: list) -> "Progress":
        """Return the counts whose registers are ``values``."""
        return Progress(*(Int32(value) for value in values))

    @property
    def _counts(self) -> tuple:
        return self.loaded, self.tiles, self.second, self.second_loaded


START = Progress()


def counted(n: Int32, before: Int32 | int) -> Int32:
    """Return the number of the ``n``-th after ``before`` others."""
    return n if isinstance(before, int) and before == 0 else n + before


def parity(n: Int32, before: Int32 | int) -> Int32:
    """Return the parity of the phase that is the ``n``-th after ``before`` others."""
    return n & 1 if isinstance(before, int) and before == 0 else (n + before) & 1


def _difference(a: Int32 | int, b: Int32 | int) -> Int32 | int:
    return a if isinstance(b, int) and b == 0 else a - b


def _one_if_any(count: Int32) -> Int32:
    return Int32(cutlass.select_(count > 0, Int32(1), Int32(0)))

"""What a persistent CTA has done before: the counts that barrier parities continue from.

A CTA that computes one query tile starts every count at 0, as Python integers, which leave no trace
in its code.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import cutlass
from cutlass import Int32

from ..device.math.arith import opaque
from ..plan.barriers.chains import NUM_CHAINS, of_chain
from ..plan.masks.masks import is_zero
from ..plan.spec.issue_order import ChainOrder


@dataclass(frozen=True)
class Progress:
    """Counts over all earlier query tiles of a CTA whose chains each take every key tile.

    Attributes:
        loaded: query tiles that had key tiles.
        tiles: key tiles.
        latest: key tiles of the latest query tile, where query tiles run on; else None.
    """

    loaded: Int32 | int = 0
    tiles: Int32 | int = 0
    latest: Int32 | None = field(default=None, kw_only=True)

    @staticmethod
    def zero(order: ChainOrder) -> "Progress":
        """Return the counts of a CTA that has done nothing, as registers."""
        nothing = Progress._nothing(order)
        return replace(nothing, latest=Int32(0)) if order.runs_on else nothing

    @staticmethod
    def _nothing(order: ChainOrder) -> "Progress":
        if order.deals_out:
            return DealtProgress(*(Int32(0) for _ in range(4)))
        if order.starts_apart:
            return LeadProgress(*(Int32(0) for _ in range(5)))
        if order.ends_apart:
            return ApartProgress(*(Int32(0) for _ in range(3)))
        return Progress(Int32(0), Int32(0))

    def steps_of(self, chain: Int32 | int) -> Int32 | int:
        """Return the key tiles of ``chain``."""
        return self.tiles

    def corrections_of(self, chain: Int32 | int) -> Int32 | int:
        """Return the corrections of ``chain``: per query tile, one fewer than key tiles."""
        return _difference(self.steps_of(chain), self.outputs_of(chain))

    def outputs_of(self, chain: Int32 | int) -> Int32 | int:
        """Return the query tiles in which ``chain`` had key tiles, and so accumulated an output."""
        return self.loaded

    @property
    def tiles_before(self) -> Int32:
        """Key tiles of the latest query tile, where query tiles run on."""
        assert self.latest is not None
        return self.latest

    def after(
        self, num_tiles: Int32, num_hidden: Int32 | int = 0, lead: Int32 | int = 0
    ) -> "Progress":
        """Return the counts after a query tile with ``num_tiles`` key tiles.

        Chain 0 has left out the last ``num_hidden`` of them; chain 1 was ``lead`` ahead of it.
        """
        loaded = self.loaded + _one_if_any(num_tiles)
        latest = None if self.latest is None else num_tiles
        return Progress(loaded, self.tiles + counted(num_tiles, lead), latest=latest)

    def alone(self) -> Self:
        """Return the same counts; sums and differences of them are not held besides."""
        return replace(self, **{name: opaque(count) for name, count in self._counts().items()})

    def _counts(self) -> dict[str, Int32]:
        return {name: count for name, count in vars(self).items() if count is not None}

    def __extract_mlir_values__(self) -> list[Any]:
        """Return the registers, for the loop over query tiles."""
        return [count.ir_value() for count in self._counts().values()]

    def __new_from_mlir_values__(self, values: list[Any]) -> "Progress":
        """Return the counts whose registers are ``values``."""
        counts = map(Int32, values)
        return replace(self, **dict(zip(self._counts(), counts, strict=True)))


@dataclass(frozen=True)
class DealtProgress(Progress):
    """The same counts where the key tiles are dealt out to two chains.

    Attributes:
        second: key tiles of chain 1.
        second_loaded: query tiles in which chain 1 had key tiles.
    """

    second: Int32 | int = 0
    second_loaded: Int32 | int = 0

    def steps_of(self, chain: Int32 | int) -> Int32 | int:
        """Return the key tiles of ``chain``."""
        return self.second if chain else _difference(self.tiles, self.second)

    def outputs_of(self, chain: Int32 | int) -> Int32 | int:
        """Return the query tiles in which ``chain`` had key tiles, and so accumulated an output."""
        return self.second_loaded if chain else self.loaded

    def after(
        self, num_tiles: Int32, num_hidden: Int32 | int = 0, lead: Int32 | int = 0
    ) -> "DealtProgress":
        """Return the counts after a query tile with ``num_tiles`` key tiles."""
        second = num_tiles // NUM_CHAINS
        return DealtProgress(
            self.loaded + _one_if_any(num_tiles),
            self.tiles + num_tiles,
            self.second + second,
            self.second_loaded + _one_if_any(second),
        )


@dataclass(frozen=True)
class ApartProgress(Progress):
    """The same counts where chain 0 may leave out the last key tile of a query tile.

    Attributes:
        hidden: key tiles that it has left out.
    """

    hidden: Int32 | int = 0

    def steps_of(self, chain: Int32 | int) -> Int32 | int:
        """Return the key tiles of ``chain``."""
        return _difference(self.tiles, of_chain(chain, (self.hidden, 0)))

    def after(
        self, num_tiles: Int32, num_hidden: Int32 | int = 0, lead: Int32 | int = 0
    ) -> "ApartProgress":
        """Return the counts after a query tile with ``num_tiles`` key tiles."""
        before = super().after(num_tiles, lead=lead)
        hidden = self.hidden + num_hidden
        return ApartProgress(before.loaded, before.tiles, hidden, latest=before.latest)


@dataclass(frozen=True)
class LeadProgress(ApartProgress):
    """The same counts where chain 1 may leave out the first key tile too.

    Attributes:
        unseen: key tiles that it has left out.
        last_lead: how many it has left out of the latest query tile.
    """

    unseen: Int32 | int = 0
    last_lead: Int32 | int = 0

    def steps_of(self, chain: Int32 | int) -> Int32 | int:
        """Return the key tiles of ``chain``."""
        return _difference(self.tiles, of_chain(chain, (self.hidden, self.unseen)))

    def after(
        self, num_tiles: Int32, num_hidden: Int32 | int = 0, lead: Int32 | int = 0
    ) -> "LeadProgress":
        """Return the counts after a query tile whose chains take ``num_tiles`` key tiles."""
        before = super().after(num_tiles, num_hidden + lead, lead)
        unseen = self.unseen + lead
        counts = before.loaded, before.tiles, before.hidden, unseen, lead
        return LeadProgress(*counts, latest=before.latest)


START = Progress()
"""Before the first query tile: every count is 0, whatever the order."""


def counted(n: Int32, before: Int32 | int) -> Int32:
    """Return the number of the ``n``-th after ``before`` others."""
    return n if is_zero(before) else n + before


def _difference(a: Int32 | int, b: Int32 | int) -> Int32 | int:
    return a if is_zero(b) else a - b


def _one_if_any(count: Int32) -> Int32:
    return Int32(cutlass.select_(count > 0, Int32(1), Int32(0)))

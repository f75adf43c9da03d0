"""Which key tiles each S/O chain takes, and the one order in which MMAs and loads are issued.

A kernel has two chains, each with its own S, O, softmax warp group, row maximum and row sum. Two Q
tiles are two chains over the same key tiles; a single Q tile deals its key tiles out to both::

    two Q tiles    chain 0: Q0 with tiles 0 1 2 3 ..     one Q tile    chain 0: Q0 with 0 2 4 ..
                   chain 1: Q1 with tiles 0 1 2 3 ..                   chain 1: Q0 with 1 3 5 ..

Call a pair of chain and key tile a step, and number the steps as they alternate between the chains.
Then both kernels issue S of a step one step ahead of P V::

    S(0)  S(1) O(0)  S(2) O(1)  S(3) O(2)  ..  O(last)

so that two MMAs lie between "S ready" and "P needed", and S of a chain is overwritten only after
its P has been used. Where P crosses to the columns of the other chain's S, S of a step is issued
two steps ahead, and three MMAs lie between::

    S(0)  S(1)  S(2) O(0)  S(3) O(1)  S(4) O(2)  ..  O(last)

It is overwritten once its softmax group holds it in registers. P of the other chain, which lies
there meanwhile, is stored after that, and its P V is issued before the next S. The second S of
chain 0 follows no P V: the MMA role waits for the reading itself. The last P of chain 1 follows no
reading, but the answer of the correction, which comes after P V has read the one before.

Where the last visible key depends on the row, the last key tile may be hidden whole from Q0. Then
the chains end apart: chain 0 leaves that tile out, and S of chain 1 comes in its place::

    ..  S(Q1, n-2) O(Q1, n-3)  S(Q1, n-1) O(Q0, n-2) O(Q1, n-2)  O(Q1, n-1)

It need not wait for the last P of chain 0, which is late for its mask: that lies in the high half
of its own S, not in S of chain 1. The MMA role waits for the reading of the S before.

Where the first visible key depends on the row too, the first key tile may be hidden whole from Q1.
If the last is hidden from Q0 as well, chain 1 leads by one key tile, from the start to the end, and
nothing else differs: both take as many, and in the order of their own key tiles as above::

    S(Q0, 0) S(Q1, 1)  S(Q0, 1) O(Q0, 0)  S(Q1, 2) O(Q1, 1)  S(Q0, 2) O(Q0, 1)  ..

K and V are loaded in the same order. Chain 1 is then the first to read them, chain 0 the last.

In a persistent CTA whose P crosses query tiles run on. The last P of each chain lies in the high
half of its own S, and the next query tile's first S0 comes in front of the last P V of chain 1::

    ..  S(Q1, n-1) O(Q1, n-2)  O(Q0, n-1)  S(Q0', 0)  O(Q1, n-1)  S(Q1', 0)  S(Q0', 1) O(Q0', 0)  ..

Nobody waits for the reading of the last S1 then but the MMA role, before it tells of S(Q0', 0).

An odd number of key tiles needs no case of its own: the last step of a single Q tile simply lies in
chain 0. K of a tile is freed by the last S that reads it, V by the last P V; only V of the last
tile is not, because nobody would wait for that, and the CTA must not end before an arrival on one
of its barriers.

Slots are filled in the order in which the MMA role first needs them. With a single Q tile, and
where P crosses, that puts K of the next tile before V (``docs/sources.md`` section 7 loads K, K, V,
V; both are the same with separate rings, and with a shared one this order frees slots in ring
order).

Source: ``docs/sources.md`` section 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..barriers.chains import NUM_CHAINS


@dataclass(frozen=True)
class Issue:
    """One accumulation, ``S`` (scores) or ``O`` (P V), and what its operands need.

    Attributes:
        product: ``S`` or ``O``.
        chain: chain whose accumulator it writes.
        query_tile: Q tile of the chain.
        key_tile: number of the visited key tile.
        accumulate: whether O is added to; scores always start anew.
        waits: whether it is the first use of K (for ``S``) or V (for ``O``).
        releases: whether it frees K or V: the last use, save that of the last V.
    """

    product: str
    chain: int
    query_tile: int
    key_tile: int
    accumulate: bool
    waits: bool
    releases: bool


@dataclass(frozen=True)
class IssueOrder:
    """Steps of a kernel with ``num_qo`` Q tiles per CTA; P that ``crosses`` lies in the other S.

    Where it ``ends_apart``, chain 0 may leave out the last key tile; where it ``starts_apart``
    too, chain 1 the first: then it leads by one key tile, and both take as many. Where query tiles
    ``runs_on``, the next one's first S comes in front of the last P V of chain 1.
    ``num_tiles`` and ``key_tile`` only add, multiply and divide, so that they work on registers.
    """

    num_qo: int
    crosses: bool = False
    ends_apart: bool = False
    starts_apart: bool = False
    runs_on: bool = False

    @property
    def keys_ahead(self) -> bool:
        """Whether K of the next key tile is loaded before V."""
        return self.deals_out or self.crosses

    @property
    def deals_out(self) -> bool:
        """Whether the key tiles are dealt out to the chains, so that chain 1 may have one fewer."""
        return self.num_qo == 1

    @property
    def longest(self) -> int:
        """The chain that has no fewer key tiles than the other."""
        return NUM_CHAINS - 1 if self.ends_apart else 0

    def ends_early(self, chain: int) -> bool:
        """Return whether ``chain`` may leave out the last key tile."""
        return self.ends_apart and chain != self.longest

    def keeps_last(self, chain: Any) -> bool:
        """Return whether the last P of ``chain`` lies in its own S."""
        return self.runs_on or self.ends_early(chain)

    def issues_later(self, chain: int) -> bool:
        """Return whether the last P V of ``chain`` follows the next query tile's first S."""
        return self.runs_on and chain == NUM_CHAINS - 1

    def may_lack_one(self, chain: int) -> bool:
        """Return whether ``chain`` may have a key tile fewer than the other."""
        return self.ends_early(chain) or (self.deals_out and chain != self.longest)

    def query_tile(self, chain: Any) -> Any:
        """Return the Q tile of ``chain``."""
        return 0 if self.deals_out else chain

    def num_tiles(self, chain: Any, num_key_tiles: Any, num_hidden: Any = 0) -> Any:
        """Return how many of ``num_key_tiles`` visited key tiles ``chain`` takes.

        Chain 0 leaves out the last ``num_hidden``, one or none, where the chains end apart.
        """
        if self.deals_out:
            return (num_key_tiles + (NUM_CHAINS - 1 - chain)) // NUM_CHAINS
        if self.ends_apart:
            return num_key_tiles - num_hidden * (self.longest - chain)
        return num_key_tiles

    def key_tile(self, chain: int, n: Any) -> Any:
        """Return the number of the ``n``-th key tile of ``chain``."""
        return n * NUM_CHAINS + chain if self.deals_out else n

    def issues(
        self, num_key_tiles: int, num_hidden: int = 0, lead: int = 0
    ) -> Iterator[Issue]:
        """Yield the accumulations in the order of the MMA role.

        Where chain 1 has a ``lead`` of one, each chain takes ``num_key_tiles`` of one more.
        """
        for issue in self._issues(num_key_tiles, num_hidden):
            yield _led(issue, num_key_tiles - 1) if lead else issue

    def _issues(self, num_key_tiles: int, num_hidden: int) -> Iterator[Issue]:
        steps = list(self._steps(num_key_tiles))
        ahead = 2 if self.crosses else 1
        taken = self.num_tiles(0, num_key_tiles, num_hidden)
        for i in range(len(steps) + ahead):
            if i < len(steps):
                chain, n = steps[i]
                if n < taken:
                    yield self._issue("S", chain, n)
                elif chain != self.longest:
                    # In the place of the S that is left out.
                    yield replace(self._issue("S", self.longest, n), waits=True)
            if ahead <= i:
                chain, n = steps[i - ahead]
                issue = self._issue("O", chain, n)
                is_last = i - ahead == len(steps) - 1
                if n < taken:
                    yield replace(issue, releases=issue.releases and not is_last)
                elif chain == self.longest:
                    yield replace(issue, waits=True, releases=False)

    def loads(self, num_key_tiles: int, lead: int = 0) -> Iterator[tuple[str, int]]:
        """Yield ("K", tile) and ("V", tile) in the order in which slots are filled."""
        for issue in self.issues(num_key_tiles, lead=lead):
            if issue.waits:
                yield ("K" if issue.product == "S" else "V"), issue.key_tile

    def chains_of(self, query_tile: int) -> tuple[int, ...]:
        """Return the chains of one Q tile."""
        return tuple(c for c in range(NUM_CHAINS) if self.query_tile(c) == query_tile)

    def _steps(self, num_key_tiles: int) -> Iterator[tuple[int, int]]:
        for n in range(self.num_tiles(0, num_key_tiles)):
            for chain in range(NUM_CHAINS):
                if n < self.num_tiles(chain, num_key_tiles):
                    yield chain, n

    def _issue(self, product: str, chain: int, n: int) -> Issue:
        first = self.deals_out or chain == 0
        last = self.deals_out or chain == NUM_CHAINS - 1
        return Issue(
            product=product,
            chain=chain,
            query_tile=self.query_tile(chain),
            key_tile=self.key_tile(chain, n),
            accumulate=product == "O" and n > 0,
            waits=first,
            releases=last,
        )


def _led(issue: Issue, last: int) -> Issue:
    """Return ``issue`` where chain 1 leads; ``last`` is the last key tile of chain 0."""
    n, is_second = issue.key_tile, issue.chain == NUM_CHAINS - 1
    is_last_key = issue.product == "S" and n == last
    return replace(
        issue,
        key_tile=n + 1 if is_second else n,
        waits=is_second or n == 0,
        releases=is_last_key or not is_second,
    )


@dataclass(frozen=True)
class OneChain:
    """The key tiles of a kernel with a single chain, number 0, which takes them all."""

    deals_out: ClassVar[bool] = False
    ends_apart: ClassVar[bool] = False
    starts_apart: ClassVar[bool] = False
    runs_on: ClassVar[bool] = False

    def query_tile(self, chain: int) -> int:
        """Return the Q tile of ``chain``: there is one."""
        return 0

    def num_tiles(self, chain: int, num_key_tiles: Any, num_hidden: Any = 0) -> Any:
        """Return how many of ``num_key_tiles`` visited key tiles ``chain`` takes: all."""
        return num_key_tiles

    def key_tile(self, chain: int, n: Any) -> Any:
        """Return the number of the ``n``-th key tile of ``chain``."""
        return n


ChainOrder = IssueOrder | OneChain
"""How a kernel's key tiles go to its chains."""

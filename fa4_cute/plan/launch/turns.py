"""The fixed order of persistent CTAs: how even it is, and in which sections.

They go through a head's query tiles, the longest first, before the next head's. With a causal mask
a round of CTAs then has long and short ones, which few rounds even out badly. In a section of
several heads, all heads of one query tile follow one another, so that the works of a round are
alike: with a window on Blackwell, with that or a causal mask on Hopper, where it was measured which
sections pay (``docs/hopper.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice, repeat
from operator import add
from typing import Final, NamedTuple

from ..facts.hardware import ceil_div
from ..masks.key_tiles import most_visited
from ..spec.common_spec import CommonSpec
from ..spec.sm90_spec import SM90Spec
from .tiles import SECTION_BYTES, AttentionSizes, TileShape

MOST_COUNTED: Final = 64
"""Query tiles per CTA that are counted: after more, those that it had differ little."""
DIGITS: Final = 2
"""To so many, two orders are equally even."""
CTAS_PER_HEAD: Final = 2
"""CTAs that work on a narrow head at the same time, at least: it is read for them together."""


class Section(NamedTuple):
    """Heads whose query tiles are taken together, and how uneven the order is then."""

    heads: int
    unevenness: float


def is_in_turns(spec: CommonSpec) -> bool:
    """Return whether persistent CTAs go by heads through query tiles the host can count."""
    variant, ordered = spec.variant, spec.head_by_head or spec.in_sections
    return ordered and not (variant.ragged_q or variant.partial_values)


def key_loads(spec: CommonSpec, seqlen_q: int, seqlen_k: int, longest: int) -> tuple[int, ...]:
    """Return how many keys each query tile of a head visits, the longest first.

    With a causal mask, or a window that lets a query tile visit ``longest`` keys.
    """
    size = TileShape.of(spec.config).positions
    tiles, first = ceil_div(seqlen_q, size), spec.positions_before(seqlen_q)
    ends = [(tile + 1) * size - first + seqlen_k - seqlen_q for tile in range(tiles)]
    return tuple(max(0, min(end, longest, seqlen_k)) for end in reversed(ends))


def works(loads: tuple[int, ...], heads: int, section: int) -> Iterator[int]:
    """Return the loads of all works in the order of sections of ``section`` heads."""
    of_section = [load for load in loads for _ in range(section)]
    return chain.from_iterable(repeat(of_section, heads // section))


@lru_cache(maxsize=1024)
def unevenness(loads: tuple[int, ...], heads: int, section: int, ctas: int) -> float:
    """Return the keys that the busiest persistent CTA visits over the mean.

    The order is that of ``work.persistent``: one round of CTAs forwards and one backwards.
    """
    found, order = [0] * ctas, works(loads, heads, section)
    for turn in range(min(ceil_div(len(loads) * heads, ctas), MOST_COUNTED)):
        row = list(islice(order, ctas))
        row += [0] * (ctas - len(row))
        found = list(map(add, found, reversed(row) if turn % 2 else row))
    return max(found) * ctas / max(1, sum(found))


def choose_section(
    spec: CommonSpec, sizes: AttentionSizes, heads: int, places: int, bytes_of_key: int
) -> Section:
    """Return the most even of the sections that ``heads`` heads fall into and the L2 holds.

    Of a window it holds what query tiles see at a time; of equally even sections the largest is
    taken. Narrow causal heads need little of the memory's rate, so that more of them are taken
    together than fit the L2, as long as CTAs share each; of theirs the largest is taken, too.

    Args:
        spec, sizes: of the launch. heads: of all sequences.
        places: query tiles that are computed at the same time, each by a CTA or pair.
        bytes_of_key: K and V of one key of a head.
    """
    keys, positions = sizes.seqlen_k, TileShape.of(spec.config).positions
    longest = most_visited(spec.variant.mask, positions, keys, spec.config.BN)
    loads = key_loads(spec, sizes.seqlen_q, keys, longest)
    in_window = spec.variant.starts_by_row
    if isinstance(spec, SM90Spec) and spec.has_narrow_heads and not in_window:
        return _most_even(loads, heads, places, places // CTAS_PER_HEAD, prefers_many=True)
    at_once = longest if in_window else keys
    fitting = SECTION_BYTES // max(1, at_once * bytes_of_key)
    return _most_even(loads, heads, places, fitting, prefers_many=in_window)


@lru_cache(maxsize=1024)
def _most_even(
    loads: tuple[int, ...], heads: int, ctas: int, most: int, *, prefers_many: bool
) -> Section:
    sizes = [n for n in range(1, max(1, min(heads, most)) + 1) if heads % n == 0]
    first, *others = reversed(sizes) if prefers_many else sizes
    best = Section(first, unevenness(loads, heads, first, ctas))
    for size in others:
        if round(best.unevenness, DIGITS) <= 1:
            break  # none is more even
        found = Section(size, unevenness(loads, heads, size, ctas))
        if round(found.unevenness, DIGITS) < round(best.unevenness, DIGITS):
            best = found
    return best

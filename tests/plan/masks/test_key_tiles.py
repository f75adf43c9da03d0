"""Which key tiles a query tile visits, against the keys that its rows see."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fa4_cute.plan.masks.key_tiles import KeyTileMap, Rows, TileStatus, tile_status, visible_to_all
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    HOST,
    NULL,
    ChunkedMask,
    DenseBiasMask,
    Interval,
    Mask,
    SlidingWindowMask,
    Term,
    terms,
)
from tests.plan.mask_cases import MOST_KEYS, leaf_masks, lengths, masks, shows, trees, with_bias


@dataclass(frozen=True)
class Tile:
    """A query tile, the keys beside it, and the size of their tiles."""

    first: int
    count: int
    num_keys: int
    tile_keys: int
    valid: tuple[int, ...]

    @property
    def rows(self) -> Rows:
        return Rows(self.first, self.first + self.count - 1, self.num_keys, self.valid)

    @property
    def num_tiles(self) -> int:
        return -(-self.num_keys // self.tile_keys)

    def seen(self, mask: Mask) -> dict[int, set[int]]:
        """Keys that each row sees."""
        return {
            row: {key for key in range(self.num_keys) if shows(mask, row, key, self.valid)}
            for row in range(self.first, self.first + self.count)
        }

    def keys_of(self, tile: int) -> set[int]:
        """Keys of a key tile, those after the last one included."""
        return set(range(tile * self.tile_keys, (tile + 1) * self.tile_keys))


tiles = st.builds(
    Tile,
    first=st.integers(-50, MOST_KEYS + 20),
    count=st.integers(1, 24),
    num_keys=st.integers(0, MOST_KEYS),
    tile_keys=st.sampled_from([1, 4, 8, 16, 32]),
    valid=lengths,
)


def map_of(mask: Mask, tile: Tile) -> tuple[KeyTileMap, tuple[Term, ...]]:
    try:
        found = terms(mask)
    except NotImplementedError:
        assume(False)
        raise
    return KeyTileMap.of(found, tile.rows, tile.tile_keys), found


def visited(tile_map: KeyTileMap) -> list[int]:
    return [tile_map.tile(n) for n in range(tile_map.count)]


@settings(deadline=None)
@given(masks, tiles)
def test_every_needed_tile_is_visited_once_and_in_order(mask: Mask, tile: Tile) -> None:
    tile_map, _ = map_of(mask, tile)
    order = visited(tile_map)
    assert order == sorted(set(order))
    assert all(0 <= t < tile.num_tiles for t in order)
    needed = {key // tile.tile_keys for keys in tile.seen(mask).values() for key in keys}
    assert needed <= set(order)


@settings(deadline=None)
@given(masks, tiles)
def test_no_other_tile_is_visited(mask: Mask, tile: Tile) -> None:
    """Exact, as long as every row sees something through every term."""
    tile_map, found = map_of(mask, tile)
    for term in found:
        for row in range(tile.first, tile.first + tile.count):
            span = term.interval(row, tile.num_keys, tile.valid, HOST)
            assume(span.start < span.stop)
    needed = {key // tile.tile_keys for keys in tile.seen(mask).values() for key in keys}
    assert visited(tile_map) == sorted(needed)


@settings(deadline=None)
@given(leaf_masks, tiles)
def test_a_single_mask_visits_exactly_what_it_shows(mask: Mask, tile: Tile) -> None:
    # The last query stands at the last key, so no query tile begins behind it.
    assume(tile.first < tile.num_keys)
    tile_map, _ = map_of(mask, tile)
    needed = {key // tile.tile_keys for keys in tile.seen(mask).values() for key in keys}
    assert visited(tile_map) == sorted(needed)


@settings(deadline=None)
@given(masks, tiles)
def test_what_lies_after_the_end_is_hidden_from_every_row(mask: Mask, tile: Tile) -> None:
    tile_map, _ = map_of(mask, tile)
    seen = set().union(*tile.seen(mask).values())
    assert all(key // tile.tile_keys < tile_map.end for key in seen)
    assert all(t < tile_map.end for t in visited(tile_map))


@settings(deadline=None)
@given(masks, tiles)
def test_what_lies_before_the_start_is_hidden_from_every_row(mask: Mask, tile: Tile) -> None:
    tile_map, _ = map_of(mask, tile)
    seen = set().union(*tile.seen(mask).values())
    assert all(key // tile.tile_keys >= tile_map.start for key in seen)
    assert all(t >= tile_map.start for t in visited(tile_map))


@settings(deadline=None)
@given(masks, tiles)
def test_ranges_are_disjoint_and_ascending(mask: Mask, tile: Tile) -> None:
    tile_map, found = map_of(mask, tile)
    assert len(tile_map.ranges) == len(found)
    end = 0
    for part in tile_map.ranges:
        if part.start < part.stop:
            assert part.start >= end
            end = part.stop
    assert tile_map.count == sum(max(0, r.stop - r.start) for r in tile_map.ranges)


@settings(deadline=None)
@given(masks, tiles)
def test_status_agrees_with_visibility(mask: Mask, tile: Tile) -> None:
    tile_map, found = map_of(mask, tile)
    order = set(visited(tile_map))
    seen = list(tile.seen(mask).values())
    for t in range(tile.num_tiles):
        status = tile_status(mask, tile.rows, t, tile.tile_keys)
        keys = tile.keys_of(t)
        assert (status is TileStatus.SKIPPED) == (t not in order)
        everything = all(keys <= row for row in seen)
        if status is TileStatus.FULL:
            assert everything
        elif status is TileStatus.SKIPPED:
            assert not any(keys & row for row in seen)
        elif len(found) == 1:
            assert not everything


@settings(deadline=None)
@given(trees(with_bias), tiles)
def test_a_biased_tile_is_never_full(mask: Mask, tile: Tile) -> None:
    """Even where another term shows everything: a bias above 0 counts there."""
    _, found = map_of(mask, tile)
    for t in range(tile.num_tiles):
        if tile_status(mask, tile.rows, t, tile.tile_keys) is not TileStatus.FULL:
            continue
        for term in found:
            if not term.biases:
                continue
            for row in range(tile.first, tile.first + tile.count):
                span = term.interval(row, tile.num_keys, tile.valid, HOST)
                assert not set(range(span.start, span.stop)) & tile.keys_of(t)


@settings(deadline=None)
@given(masks, tiles)
def test_visible_to_all_is_the_intersection_of_rows(mask: Mask, tile: Tile) -> None:
    for term in map_of(mask, tile)[1]:
        common = visible_to_all(term, tile.rows, HOST)
        spans = [
            term.interval(row, tile.num_keys, tile.valid, HOST)
            for row in range(tile.first, tile.first + tile.count)
        ]
        rows = [set(range(span.start, span.stop)) for span in spans]
        assert set(range(common.start, common.stop)) == set.intersection(*rows)


def statuses(mask: Mask, first: int, count: int, num_keys: int, tile_keys: int) -> str:
    """One letter a tile."""
    rows = Rows(first, first + count - 1, num_keys)
    letters = {TileStatus.SKIPPED: ".", TileStatus.MASKED: "m", TileStatus.FULL: "F"}
    tiles_ = range(-(-num_keys // tile_keys))
    return "".join(letters[tile_status(mask, rows, t, tile_keys)] for t in tiles_)


def test_pictures_known_by_hand() -> None:
    assert statuses(NULL, 0, 8, 20, 4) == "FFFFF"
    assert statuses(NULL, 0, 8, 18, 4) == "FFFFm"
    assert statuses(CAUSAL, 8, 8, 24, 4) == "FFmm.."
    assert statuses(CAUSAL, 7, 8, 24, 4) == "FFmm.."
    assert statuses(CAUSAL, -8, 8, 24, 4) == "......"
    assert statuses(SlidingWindowMask(3, 0), 8, 8, 24, 4) == ".mmm.."
    assert statuses(SlidingWindowMask(11, 0), 12, 4, 24, 4) == "mFFm.."
    assert statuses(SlidingWindowMask(2, 2), 8, 4, 24, 4) == ".mmm.."
    assert statuses(ChunkedMask(8), 8, 8, 24, 4) == "..FF.."
    assert statuses(ChunkedMask(8), 4, 8, 24, 4) == "mmmm.."
    assert statuses(ChunkedMask(8) & CAUSAL, 8, 8, 24, 4) == "..mm.."
    assert statuses(SlidingWindowMask(0, 0) | ChunkedMask(4), 8, 4, 24, 4) == "..F..."
    assert statuses(DenseBiasMask(0), 8, 4, 12, 4) == "mmm"
    assert statuses(CAUSAL & DenseBiasMask(0), 4, 4, 12, 4) == "mm."
    assert statuses(DenseBiasMask(0) | NULL, 4, 4, 12, 4) == "mmm"


def test_two_windows_leave_a_gap() -> None:
    """The picture of the module's documentation: tiles 1, 2 and 5, 6, 7 of 10."""
    near = SlidingWindowMask(4, 0)
    far = SlidingWindowMask(None, None) & ChunkedMask(3)
    tile_map = KeyTileMap.of(terms(near | far), Rows(20, 21, 40), 4)
    assert visited(tile_map) == [4, 5]
    first, last = ChunkedMask(100) & SlidingWindowMask(None, 0), SlidingWindowMask(1, 0)
    tile_map = KeyTileMap.of(terms(first | last), Rows(99, 101, 120), 10)
    assert visited(tile_map) == list(range(11))


def test_start_and_end_are_those_of_the_first_and_of_the_last_range() -> None:
    tile_map = KeyTileMap((Interval(1, 3), Interval(3, 3), Interval(5, 8)))
    assert visited(tile_map) == [1, 2, 5, 6, 7]
    assert (tile_map.start, tile_map.end) == (1, 8)


def test_rows_before_every_key_visit_no_tile_instead_of_fewer() -> None:
    """With more queries than keys the first rows see none: a count below 0 would shorten rings."""
    for first in (-8, -9, -40):
        assert KeyTileMap.of(terms(CAUSAL), Rows(first, first + 7, 24), 4).count == 0

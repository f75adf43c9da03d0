"""In which order persistent CTAs are handed query tiles: what the device says of numbers."""

from __future__ import annotations

from itertools import groupby
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import pytest
from cutlass import Int32

from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.launch import launch
from fa4_cute.plan.launch.turns import Section
from fa4_cute.plan.masks.masks import HOST
from fa4_cute.plan.spec.variant import KEPT
from fa4_cute.work import tile
from fa4_cute.work.tile import place_of_work
from testing.cases import FP8, Case
from testing.launches import Described

LENGTHS = ((600, 700), (600, 700), (600, 700))
CHUNKS = ((300, 500), (200, 20), (257, 257), (280, 640), (300, 90))
"""About as many query tiles each, so that these are not counted by rows."""


def case(features: str, head_dim: int = 128, **more: Any) -> Case:
    """Return a case with more query tiles than CTAs."""
    given = {"heads": 4, "kv_heads": 4, "lengths": LENGTHS, "num_splits": 1, **more}
    if head_dim <= 192:
        given.setdefault("num_qo", 2)
    return Case(frozenset(features.split()), head_dim, **given)


class Place(NamedTuple):
    """A query tile, counted from the one that a head's CTAs take first."""

    tile: int
    head: int
    sequence: int


def order(tried: Case) -> tuple[list[Place], dict[str, Any]]:
    """Return the places of all works, and the scalars of the launch."""
    described = Described(tried)
    scalars = described.packed.plan.scalars
    counts: Any = SimpleNamespace(**scalars)
    args: Any = SimpleNamespace(
        seqlen_q=counts.seqlen_q, num_q_heads=counts.num_q_heads, extras=counts
    )
    found = []
    for work in range(counts.num_work):
        with mock.patch.object(tile, "UNSIGNED", HOST):
            place = place_of_work(described.spec, args, work)
        found.append(tuple(int(p.value) if isinstance(p, Int32) else int(p) for p in place))
    tiles = {count for *_, count in found}
    assert tiles == {counts.num_work // (counts.num_q_heads * len(tried.lengths))}
    places = [Place(*place[:3]) for place in found]
    assert len(set(places)) == counts.num_work  # each once
    return places, scalars


def runs(places: list[Place], *names: str) -> list[tuple[int, ...]]:
    """Return the values of some fields, as they follow one another."""
    found = [tuple(getattr(place, name) for name in names) for place in places]
    return [key for key, _ in groupby(found)]


@pytest.mark.parametrize(
    "tried",
    [
        case("persistent"),
        case("persistent causal sink"),
        case("persistent causal modifier", 64),
        case("persistent bias causal", 256),
        case("persistent padding causal", dtype=FP8),
    ],
    ids=str,
)
def test_a_head_s_query_tiles_follow_one_another_whatever_else_a_kernel_has(tried: Case) -> None:
    places, scalars = order(tried)
    heads = runs(places, "sequence", "head")
    assert len(heads) == len(set(heads)) == 12
    assert runs(places, "tile") == [(t,) for t in range(scalars["num_work"] // 12)] * 12


@pytest.mark.parametrize("section", [1, 2, 4, 6, 12])
@pytest.mark.parametrize(
    "tried",
    [
        case("persistent window"),
        case("persistent window sink", 256),
        case("persistent window", arch=SM90A),
        case("persistent window", 64, arch=SM90A),
    ],
    ids=str,
)
def test_windows_go_by_sections_of_the_heads_of_all_sequences(
    tried: Case, section: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "choose_section", lambda *_: Section(section, 1.0))
    places, scalars = order(tried)
    assert (scalars["num_heads"], scalars["num_sequences"]) == (section, 12 // section)
    check_sections(places, section, len(places) // 12)


def check_sections(places: list[Place], section: int, tiles: int) -> None:
    """Check that all heads of a query tile of a section come before those of the next."""
    each = section * tiles
    for first in range(0, len(places), each):
        of_section = places[first : first + each]
        assert runs(of_section, "tile") == [(t,) for t in range(tiles)]
        number = first // each * section
        heads = [divmod(n, 4) for n in range(number, number + section)]
        assert runs(of_section, "sequence", "head") == heads * tiles or section == 1


@pytest.mark.parametrize(("section", "kept"), [(1, 0), (2, 1), (4, 2), (6, 1), (12, 0)])
@pytest.mark.parametrize(
    "tried",
    [
        case("dynamic causal"),
        case("dynamic causal sink", 256),
        case("dynamic window modifier", 64),
        case("dynamic ragged causal"),
        case("dynamic ragged causal sink", dtype=FP8),
        case("dynamic ragged window", 256),
    ],
    ids=str,
)
def test_dynamic_ctas_keep_the_shortest_of_all_heads_for_the_end(
    tried: Case, section: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "heads_of_section", lambda *_: section)
    monkeypatch.setattr(launch, "kept_tiles", lambda *_: kept)
    places, scalars = order(tried)
    assert (scalars["num_heads"], scalars[KEPT]) == (section, kept)
    front = len(places) // 12 - kept
    check_sections(places[: 12 * front], section, front)
    assert runs(places[12 * front :], "tile") == [(front + t,) for t in range(kept)]


def test_packed_prompts_have_sections_by_the_keys_of_their_mean() -> None:
    """32 MiB hold 65,536, of 512 bytes: those of 12 heads with 4,667 keys each, not with 6,000."""
    for lengths, section in (((6000, 4000, 4000), 12), ((6000, 6000, 6000), 6)):
        tried = case("dynamic ragged causal", lengths=tuple((n, n) for n in lengths))
        scalars = Described(tried).packed.plan.scalars
        assert (scalars["num_heads"], scalars["num_sequences"]) == (section, 12 // section)


@pytest.mark.parametrize(
    ("tried", "by_sequence"),
    [
        (case("dynamic ragged page64 causal", lengths=CHUNKS), True),
        (case("dynamic ragged page64 window", lengths=CHUNKS), False),
    ],
    ids=str,
)
def test_chunks_over_a_cache_are_taken_a_sequence_after_the_other(
    tried: Case, by_sequence: bool
) -> None:
    """With a causal mask; others by the place of their query tiles."""
    assert Described(tried).spec.sequence_by_sequence is by_sequence
    places, scalars = order(tried)
    sequences = len(tried.lengths)
    assert (scalars["num_heads"], scalars["num_sequences"]) == (4, sequences)
    tiles = scalars["num_work"] // (4 * sequences)
    walked = [
        Place(tile, head, sequence)
        for sequence in range(sequences) for tile in range(tiles) for head in range(4)
    ]  # fmt: skip
    # The sort keeps the order of those of one tile.
    assert places == (walked if by_sequence else sorted(walked, key=lambda place: place.tile))

"""Probes are calls of the kernels, and of the parts of these, that faults are planted in.

Choices move: a prompt that was whole is split, heads come to lie in the rows of a query tile. Then
a call may have no more key tiles than slots, or no chain that leads, and finds nothing any more.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.masks.key_tiles import KeyTileMap, Rows
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.probes import PROBES, Call
from testing.runner import spec_of


def seen_by(spec: KernelSpec, first: int, keys: int) -> KeyTileMap:
    """Key tiles of a Q tile whose first row is `first`, counted as keys are."""
    rows = Rows(first, first + spec.tile_positions - 1, keys)
    return KeyTileMap.of(spec.variant.terms, rows, spec.config.BN)


def leads(spec: KernelSpec, call: Call) -> bool:
    """Whether chain 1 leads in some query tile of a call, aligned to the bottom right."""
    size = spec.tile_positions
    for queries, keys in call.lengths:
        for first in range(keys - queries, keys, 2 * size):
            one, two = (seen_by(spec, at, keys) for at in (first, first + size))
            if one.start < two.start and one.end < two.end:
                return True
    return False


@pytest.mark.parametrize("name", ["2q-lead", "2q-lead-plain"])
def test_chains_lead_in_probes_that_are_called_so(name: str) -> None:
    probe = PROBES[name]
    calls = [c for c in probe.calls if c.lengths and max(q for q, _ in c.lengths) > 256]
    spec = spec_of(replace(probe.case, lengths=calls[0].lengths))
    assert isinstance(spec, KernelSpec)
    assert spec.second_starts_late
    assert any(leads(spec, call) for call in calls)


@pytest.mark.parametrize("name", ["d256", "d512"])
def test_pairs_of_probes_have_more_key_tiles_than_slots(name: str) -> None:
    probe = PROBES[name]
    call = max(probe.calls, key=lambda c: max(keys for _, keys in c.lengths))
    spec = spec_of(replace(probe.case, lengths=call.lengths))
    assert isinstance(spec.config, Depth512Config)
    assert not spec.variant.splits_keys
    tiles = max(keys for _, keys in call.lengths) // spec.config.BN
    assert tiles * spec.config.slots_per_tile > spec.config.num_kv_stages


@pytest.mark.parametrize("name", [name for name in PROBES if name.startswith(("1q", "few"))])
def test_lanes_hold_copies_of_few_rows_in_probes_that_are_called_so(name: str) -> None:
    probe = PROBES[name]
    for call in probe.calls:
        spec = spec_of(replace(probe.case, lengths=call.lengths))
        expected = 1 if name.startswith("1q") else 2 if name.endswith("-two") else 4
        assert spec.config.row_copies == expected
        assert isinstance(spec, Depth512Spec) == ("d256" in name)
        assert not isinstance(spec, KernelSpec) or spec.config.num_qo == 1


def test_a_warp_holds_the_pages_of_fewer_tiles_than_probes_have() -> None:
    for name in ("few-page", "few-pages", "few-stream-k"):
        probe = PROBES[name]
        keys = max(keys for call in probe.calls for _, keys in call.lengths)
        spec = spec_of(replace(probe.case, lengths=probe.calls[0].lengths))
        assert 1 < spec.tiles_of_pages < keys // spec.config.BN


@pytest.mark.parametrize("name", ["1q-wide-tile", "2q-wide-tile"])
def test_wide_tiles_are_read_twice(name: str) -> None:
    spec = spec_of(replace(PROBES[name].case, lengths=PROBES[name].calls[0].lengths))
    assert isinstance(spec, KernelSpec)
    assert (spec.config.crosses, spec.config.BN) == (False, 192)
    assert spec.column_plan.resident < spec.config.BN

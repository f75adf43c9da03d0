"""Packed sequences with lengths of tile +- 1, warp +- 1, whole pages, and empty ones, drawn."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from testing.cases import KERNELS, is_possible
from testing.probes import check, tight
from tests.audit.residues import (
    EXAMPLES,
    HEAD_DIMS,
    UNITS,
    around_units,
    calls,
    features,
    sequences,
)
from tests.kernel.random_cases import searched

CALLS = 2
"""Per kernel and set of features; a set is a kernel to compile."""
SETS = 2
FEW = ("two Q tiles", "CTA pair")
"""What every run draws for; the others have the arithmetic of lengths in common with them."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "kernel",
    [pytest.param(k, marks=() if k in FEW else pytest.mark.exhaustive) for k in KERNELS],
)
@searched(SETS, EXAMPLES)
@given(st.data())
def test_drawn_lengths(kernel: str, data: st.DataObject) -> None:
    of = KERNELS[kernel]
    head_dim = data.draw(st.sampled_from(HEAD_DIMS.get(kernel, (of.head_dim,))))

    def fit(names: frozenset[str]) -> bool:
        return is_possible(names, head_dim, *of[1:])

    asked = data.draw(features().filter(fit))
    for seed in range(CALLS):
        case = data.draw(calls(kernel, head_dim, asked))
        event(str(case))
        check(case, seed, **(tight(case, seed) if case.page_size else {}))


def test_what_is_drawn() -> None:
    """Every unit and its neighbours, and each kind of empty sequence at each place."""
    lengths: set[int] = set()
    places: set[tuple[str, str]] = set()

    @searched(600, EXAMPLES)
    @given(around_units(1), sequences())
    def collect(length: int, found: tuple[tuple[int, int], ...]) -> None:
        lengths.add(length)
        for name, (queries, keys) in zip(("first", "last"), (found[0], found[-1]), strict=True):
            places.update({(name, "no query")} if queries == 0 else set())
            places.update({(name, "no key")} if keys == 0 else set())
        places.update(("inner", "no query") for queries, _ in found[1:-1] if queries == 0)
        assert any(queries and keys for queries, keys in found)

    collect()
    assert lengths >= {unit + by for unit in UNITS for by in (-1, 0, 1)} - {0}
    assert places == {
        ("first", "no query"), ("first", "no key"), ("inner", "no query"), ("last", "no query"),
        ("last", "no key"),
    }  # fmt: skip

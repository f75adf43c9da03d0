"""The first P of chain 1, where P crosses, comes after the first S0 has been read.

It waits for the second reading of S0. A wait tells phases apart by one bit, so that it would pass
at once while the first reading is under way. Score changes make that reading long: S0 is then
loaded part by part.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from testing.arguments import arguments
from testing.cases import FP8, Case
from testing.watchers import objections
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

SLOW_READERS = Case(
    frozenset({"causal", "softcap", "alibi"}), 128,
    heads=2, kv_heads=1, lengths=((600, 900),), num_qo=2,
)  # fmt: skip
ONE_BY_ONE = replace(SLOW_READERS, features=SLOW_READERS.features | {"dynamic"})
"""A CTA takes over all query tiles: each begins as the first did."""
FP8_READERS = tuple(
    replace(SLOW_READERS, head_dim=depth, head_dim_v=ov_depth, dtype=FP8)
    for depth, ov_depth in ((96, 0), (192, 128))
)
PLAIN = replace(SLOW_READERS, features=frozenset({"causal", "dynamic"}), head_dim=96)


@pytest.mark.parametrize(
    ("case", "orders"),
    [
        (SLOW_READERS, 8),
        (ONE_BY_ONE, 6),
        (PLAIN, 4),
        (FP8_READERS[0], 6),
        (FP8_READERS[1], 6),
        *also(
            *((replace(PLAIN, head_dim=depth, dtype=FP8), 4) for depth in (96, 128)),
            (replace(PLAIN, head_dim=192, head_dim_v=128, dtype=FP8), 4),
            *((replace(case, features=ONE_BY_ONE.features), 4) for case in FP8_READERS),
        ),
    ],
    ids=str,
)
def test_the_first_p_of_the_second_chain_waits_for_the_first_reading(
    case: Case, orders: int
) -> None:
    given = arguments(case)
    found = {seed: objections(given, mode="random", seed=seed) for seed in range(orders)}
    assert not any(found.values()), next(filter(None, found.values()))[0]

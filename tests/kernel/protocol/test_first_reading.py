"""The first P of chain 1, where P crosses, comes after the first S0 has been read.

It waits for the second reading of S0. A wait tells phases apart by one bit, so that it would pass
at once while the first reading is under way. Score changes make that reading long: S0 is then
loaded part by part.
"""

from __future__ import annotations

import pytest

from testing.arguments import arguments
from testing.cases import Case
from testing.watchers import objections

pytestmark = pytest.mark.slow

SLOW_READERS = Case(
    frozenset({"causal", "softcap", "alibi"}), 128,
    heads=2, kv_heads=1, lengths=((600, 900),), num_qo=2,
)  # fmt: skip


def test_the_first_p_of_the_second_chain_waits_for_the_first_reading() -> None:
    given = arguments(SLOW_READERS)
    found = {seed: objections(given, mode="random", seed=seed) for seed in range(8)}
    assert not any(found.values()), next(filter(None, found.values()))[0]

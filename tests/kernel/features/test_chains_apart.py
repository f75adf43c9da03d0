"""Chains that end apart: where the first Q tile leaves out its hidden last key tile.

The usual cases have head dim 64, whose chains end together; here are masks, lengths and schedulers
beside the deeper heads.
"""

from __future__ import annotations

from typing import Any

import pytest

from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.arguments import arguments
from testing.cases import FP16, Case
from testing.runner import checked, spec_of
from testing.watchers import ONE_RANDOM, check_schedules
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

LENGTHS = ((300, 500), (0, 20), (40, 90), (257, 640))


def apart(features: str, head_dim: int = 128, **more: Any) -> Case:
    """Return a case of two Q tiles; the second has rows in most of its sequences."""
    given = {"heads": 2, "kv_heads": 1, "lengths": LENGTHS, "sharpness": 2.0, "num_qo": 2, **more}
    return Case(frozenset(features.split()), head_dim, **given)


def square(features: str, queries: int, keys: int, **more: Any) -> Case:
    """Return a case with one sequence of one head."""
    return apart(features, heads=1, lengths=((queries, keys),), **more)


CASES = (
    apart("causal ragged persistent"),
    apart("window ragged", 96),
    apart("union ragged", 192, head_dim_v=128),
    apart("causal page64 split", dtype=FP16),
)
MORE = (
    apart("causal ragged split"),
    apart("causal ragged dynamic", dtype=FP16),
    apart("chunked ragged"),
    apart("union ragged persistent"),
    apart("window page16 persistent"),
    apart("causal window ragged"),
    apart("causal cache sink"),
    apart("causal ragged softcap"),
    apart("causal ragged function persistent"),
    apart("causal ragged padding alibi"),
    apart("causal page256", 192, head_dim_v=128),
    apart("causal ragged persistent", 192, head_dim_v=128),
    apart("window ragged split", 192, head_dim_v=128, dtype=FP16),
    apart("causal rope ragged", 128, kv_heads=1, heads=4),
    apart("causal ragged", 96, heads=6, kv_heads=2),
    # a lone key tile; the last one a key longer, a key shorter; blind rows; hidden from no one
    *(square("causal", 256, keys) for keys in (100, 128, 129, 255, 256, 257, 384, 1000)),
    *(square("causal", queries, 300) for queries in (1, 128, 129, 255, 400, 700)),
    *(square("window", 512, keys) for keys in (383, 512, 700)),
)


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_results_are_right_in_every_schedule(case: Case) -> None:
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    assert spec.first_ends_early
    schedules = ({"mode": "late"}, ONE_RANDOM)
    checked(check_schedules(arguments(case), schedules=schedules))

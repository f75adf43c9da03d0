"""Chunks of prompts over a cache, whose keys are split without being asked."""

from __future__ import annotations

from typing import Any

import pytest

from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.cases import BF16, Case, Lengths
from testing.runner import check, spec_of
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

MIXED: Lengths = ((60, 2300), (5, 70), (0, 20), (33, 33), (9, 0))
"""The host counts with the longest: of some sequences most splits have no keys."""


def chunks(features: str, head_dim: int = 128, lengths: Lengths = MIXED, **more: Any) -> Case:
    given: dict[str, Any] = {"heads": 8, "kv_heads": 1, "dtype": BF16, **more}
    return Case(frozenset(features.split()), head_dim, lengths=lengths, **given)


CASES = (
    chunks("page16 causal ragged"),
    chunks("page64 causal softcap sink cache", lengths=((70, 2200), (70, 130), (70, 70))),
    chunks("fp8 page64 ragged", 64),
)
MORE = (
    chunks("page16 causal ragged", 256),
    chunks("fp8 page64 causal ragged", 192, head_dim_v=128),
    chunks("tokens page16 causal ragged", 96),
    chunks("cache causal", 512, lengths=((33, 2100), (33, 60)), heads=4),
)


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_output_and_lse(case: Case) -> None:
    assert spec_of(case).variant.splits_keys
    check(case)


def test_two_q_tiles_share_many_keys() -> None:
    spec = spec_of(chunks("page64 causal ragged", lengths=((1152, 32768),)))
    assert isinstance(spec, KernelSpec)
    assert (spec.config.num_qo, spec.variant.is_split) == (2, True)
    check(chunks("page64 causal ragged", lengths=((70, 2100), (20, 40)), num_qo=2, num_splits=9))

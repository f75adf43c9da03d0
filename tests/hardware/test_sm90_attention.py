"""The Hopper kernel on a GPU of compute capability 9.0, every feature against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fa4_cute.host.choose.kernels import SM90_FEATURES
from testing.arguments import arguments
from testing.cases import Case
from testing.hardware.sm90_sweep import AGAIN, CASES, computed, judged
from tests.hardware.hopper import on_hopper


@pytest.mark.slow
def test_the_sweep_has_every_feature_and_head_dims_of_every_tile() -> None:
    # Lengths of 1 make the same options, without the operands of a chip's sizes.
    short = [replace(case, lengths=((1, 1),) * len(case.lengths)) for case in CASES]
    options = [arguments(case).options for case in short]
    for feature in {*SM90_FEATURES, "causal", "window_size", "softcap"} - {"score_mod"}:
        name, _, value = feature.partition("=")
        assert any(name in given for given in options)
        assert not value or any(repr(given.get(name)) == value for given in options)
    for low, high in ((8, 64), (65, 128), (129, 192), (193, 256)):
        assert any(low <= case.head_dim <= high for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)


@on_hopper
@pytest.mark.parametrize("case", CASES, ids=str)
def test_output_and_lse(case: Case) -> None:
    judged(case).check()


@on_hopper
def test_the_same_bits_every_time() -> None:
    given = arguments(AGAIN)
    first = computed(given)
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(first, computed(given), strict=True))

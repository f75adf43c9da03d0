"""The profiler on this package's own d128 kernel: it changes nothing, and what holds of a profile.

How long it takes is shown by ``benchmarks.simulator``.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import fa4_cute
import sm100sim
from sm100sim.timing.profile import KernelProfile
from testing.arguments import arguments
from testing.cases import dense

TILES = 32
"""Key tiles of one CTA."""


@pytest.fixture(scope="module")
def measured() -> tuple[KernelProfile, torch.Tensor, torch.Tensor]:
    """The profile of a CTA, and O without and with it."""
    given = arguments(dense(256, 128 * TILES, 128))
    outputs: list[torch.Tensor] = []

    def call() -> None:
        outputs.append(fa4_cute.flash_attn(*given.inputs, **given.options))

    call()
    (found,) = sm100sim.profile(call, "b200")
    return found, *outputs


@pytest.mark.slow
def test_a_profile_changes_no_bit_and_doubts_nothing(
    measured: tuple[KernelProfile, torch.Tensor, torch.Tensor],
) -> None:
    found, without, profiled = measured
    assert torch.equal(without.view(torch.int16), profiled.view(torch.int16))
    assert found.doubts == ()


@pytest.mark.slow
def test_what_holds_of_its_profile(
    measured: tuple[KernelProfile, torch.Tensor, torch.Tensor],
) -> None:
    found = measured[0]
    detail = found.detail
    assert np.allclose(detail.waited.sum(axis=1), detail.ends)
    assert all(use.share <= use.fullest + 1e-9 for use in found.uses)
    assert found.uses[0].fullest <= 1
    assert all(a.end == b.start for a, b in pairwise(found.path))
    assert found.path[-1].end - found.path[0].start == found.cycles
    assert found.limit == "tensor"
    assert [role.warps for role in found.roles[2:5]] == [(8, 9, 10, 11), (12,), (13,)]
    # The softmax groups and the MMA warp wait for one another. The MMAs are the limit, so most of
    # the path is theirs, and little besides is not of a group or both.
    roles = [range(8), [12]]
    shares = [sum(p.end - p.start for p in found.path if p.warp in own) for own in roles]
    assert shares[1] >= 0.4 * found.cycles
    assert sum(shares) >= 0.95 * found.cycles
    ways = {(one.giver, one.through) for one in found.handovers}
    assert {("warp 12", "tensor core"), ("warp 13", "TMA load")} <= ways

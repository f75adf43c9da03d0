"""Reports of calls on the virtual SM100."""

from __future__ import annotations

import pytest
import torch

import fa4_cute
import sm100sim


@pytest.mark.slow
def test_no_report_of_a_call_with_two_kernels_is_lost() -> None:
    q = torch.randn(1, 8, 1, 128).bfloat16()
    kv = torch.randn(1, 256, 1, 128).bfloat16()
    with sm100sim.record() as reports, fa4_cute.simulator_options(checks="uninitialised"):
        fa4_cute.flash_attn(q, kv, kv, num_splits=2, split="workspace")
    attention, combine = reports
    assert combine is fa4_cute.last_report()
    assert attention.kernel != combine.kernel
    assert {r.verdict for r in reports} == {"clean"}


def test_options_are_checked_before_the_launch() -> None:
    with (
        pytest.raises(ValueError, match="did you mean 'races'"),
        fa4_cute.simulator_options(checks="race"),
    ):
        pytest.fail("the block is not entered")

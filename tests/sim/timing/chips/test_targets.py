"""Which chip PTX is for, and which chips run it."""

from __future__ import annotations

import pytest

from sm100sim.timing.chips.targets import chip_of, refuse_other


@pytest.mark.parametrize(
    ("target", "chip"),
    [("sm_90a", "h100"), ("sm_100f", "b200"), ("sm_103a", "b300"), ("sm_80", "b200")],
)
def test_the_chip_is_the_one_that_ptx_is_for(target: str, chip: str) -> None:
    assert chip_of(f".version 8.6\n.target {target}\n") == chip


@pytest.mark.parametrize(
    ("target", "chip", "runs"),
    [
        ("sm_90a", "b200", "h100 or h200"),
        ("sm_100a", "h200", "b200 or gb200"),
        ("sm_120", "b200", "PTX for a chip among b200"),
    ],
)
def test_a_chip_that_does_not_run_it_is_refused(target: str, chip: str, runs: str) -> None:
    with pytest.raises(ValueError, match=rf"chip: {chip} is .*; nearest supported choice: {runs}"):
        refuse_other(f".version 8.6\n.target {target}\n", chip)


def test_chips_that_run_it_are_not() -> None:
    for target, chip in (("sm_90", "b200"), ("sm_90a", "h200"), ("sm_100a", "gb200")):
        refuse_other(f".version 8.6\n.target {target}\n", chip)
    refuse_other("no target", "b200")

"""What is said beside bands: the model's own error, where chips were asked."""

from __future__ import annotations

import pytest

from sm100sim.timing.predict import Band
from sm100sim.timing.profile.held import (
    OF_BAND,
    Held,
    HeldRatios,
    held,
    held_ratios,
    ratio_with_error,
    with_error,
)

FOUND = Held("a chip", 10, 2, 0.05, 0.1, 5, 9)


@pytest.mark.parametrize(
    ("band", "expected"),
    [
        (Band(99, 100, 101), (100 / 1.1, 100 / 0.9)),
        (Band(80, 100, 130), (80, 130)),
        (Band(120, 130, 150), (100 / 1.1, 150)),
    ],
)
def test_a_band_reaches_as_far_as_nine_of_ten_and_never_less(
    band: Band, expected: tuple[float, float]
) -> None:
    """Also around a prediction that lies outside its own band."""
    low, high = FOUND.widened(100, band)
    assert (low, high) == pytest.approx(expected)
    for measured in (low, high):
        assert abs(100 / measured - 1) >= 0.1 - 1e-9


def test_fewer_lie_in_a_band_of_draws_than_its_name_says() -> None:
    """And with the error as many as should; 80 of 100 would not be."""
    found = held()
    assert found.in_band < 0.6 * found.kernels
    assert found.in_both >= OF_BAND * found.kernels
    assert 0 < found.mean < found.nine < 0.12


@pytest.mark.parametrize(("chip", "known"), [("h200", True), ("h100", True), ("b300", False)])
def test_it_says_where_no_kernel_was_measured(chip: str, known: bool) -> None:
    first, second = with_error(100, Band(99, 100, 101), chip)
    found = held()
    low, high = 100 / (1 + found.nine), 100 / (1 - found.nine)
    assert f"{low:,.0f} to {high:,.0f}" in first
    assert f"{found.nine:.1%}" in first
    assert f"{found.in_band / found.kernels:.0%} of them lay in the band of draws" in second
    assert ("no kernel's cycles on a B300 are known" in second) is not known


def test_kernels_without_mmas_have_an_error_of_their_own() -> None:
    """Loads by lanes are less certain, and a band of draws says less of them."""
    lanes = held(multiplies=False)
    assert lanes.nine > 2 * held().nine
    first, _ = with_error(100, Band(99, 100, 101), "h200", multiplies=False)
    said = f"of {lanes.kernels} launches without MMAs on an H200 were within {lanes.nine:.1%}"
    assert said in first
    assert "without MMAs" not in with_error(100, Band(99, 100, 101), "h200")[0]


def test_a_lead_within_the_error_is_doubted() -> None:
    found = HeldRatios("", 10, 0.05, 0.1, 0.02, 8)
    assert [found.doubted(ratio) for ratio in (0.85, 0.95, 1, 1.09, 1.11)] == [0, 1, 1, 1, 0]
    assert "less than that: doubt it" in ratio_with_error(1.05, "b200")
    assert "more than that" in ratio_with_error(1.5, "b200")


def test_ratios_are_those_of_a_chip_s_generation() -> None:
    assert held_ratios("h100") == held_ratios("h200") != held_ratios("b200")
    assert held_ratios("gb200") == held_ratios("b300") == held_ratios("b200")
    with pytest.raises(ValueError, match="chip: 'a100'"):
        held_ratios("a100")

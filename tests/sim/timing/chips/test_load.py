"""Chips: every value says where it is from; draws are paired and stay in their ranges."""

from __future__ import annotations

import re

import pytest

from sm100sim.timing.chips import chip_names, load_chip
from sm100sim.timing.chips.load import Parameter, place
from testing.site.markdown import ROOT

RESULTS = ROOT / "benchmarks" / "timing"


@pytest.mark.parametrize("name", chip_names())
def test_every_value_has_a_unit_a_status_and_a_source(name: str) -> None:
    chip = load_chip(name)
    assert chip.name == name
    for parameter in chip.parameters.values():
        assert parameter.unit
        assert len(parameter.source) > 10
        assert (parameter.low < parameter.high) or parameter.status != "range"


@pytest.mark.parametrize("name", chip_names())
def test_every_source_can_be_opened(name: str) -> None:
    """It is a file here, a repository as owner/name, a paper by its number, or NVIDIA's manual."""
    for source in {parameter.source for parameter in load_chip(name).parameters.values()}:
        files = re.findall(r"[\w/]+\.json|docs/\w+\.md", source)
        found = [ROOT / file if "/" in file else RESULTS / file for file in files]
        assert all(file.is_file() for file in found), source
        named = re.search(r"\b[\w-]+/[\w-]+, |\barXiv \d{4}\.\d{5}|\bNVIDIA ", source)
        assert files or named or "QuickRunCUDA" in source, source


def test_the_five_chips() -> None:
    assert chip_names() == ("b200", "b300", "gb200", "h100", "h200")
    with pytest.raises(ValueError, match=r"'a100' is none of b200, b300"):
        load_chip("a100")


def test_a_chip_takes_over_what_its_file_does_not_say() -> None:
    h100, h200 = (load_chip(name).parameters for name in ("h100", "h200"))
    assert h200["alu_cycles"] == h100["alu_cycles"]
    assert h200["hbm_gbytes"].value > h100["hbm_gbytes"].value


def test_what_an_h200_says_of_its_sm_holds_for_the_h100() -> None:
    """It is the same SM: there it is inferred. Memory, and the way to it, is the chip's own."""
    h100, h200 = (load_chip(name).parameters for name in ("h100", "h200"))
    probed = {k for k, p in h200.items() if p.status == "measured" and "micro" in p.source}
    assert len(probed) > 10
    for name in probed:
        assert h100[name].value == h200[name].value, name
        assert h100[name].status == "inferred", name
        assert "h200.json" in h100[name].source, name


def test_what_was_measured_on_another_chip_is_inferred() -> None:
    b200, b300 = (load_chip(name).parameters for name in ("b200", "b300"))
    assert b200["tmem_column_cycles"].status == "published"
    assert b300["tmem_column_cycles"].status == "inferred"
    assert b300["mufu_ex2_cycles"].status == "published"
    assert b300["mufu_ex2_cycles"].value == b200["mufu_ex2_cycles"].value / 2
    assert load_chip("gb200").parameters["tmem_column_cycles"].status == "published"


def test_draw_nought_has_the_values_themselves() -> None:
    chip = load_chip("b200")
    assert chip.draw()["mma_front"] == chip.parameters["mma_front"].value
    with pytest.raises(NotImplementedError, match="chip b200 has no wgmma_gap"):
        chip.draw()["wgmma_gap"]


def test_draws_stay_in_their_ranges_and_fill_them() -> None:
    chip = load_chip("h100")
    p = chip.parameters["copy_latency"]
    drawn = [chip.draw(number)["copy_latency"] for number in range(1, 200)]
    assert p.low <= min(drawn) < p.low + 0.05 * (p.high - p.low)
    assert p.high - 0.05 * (p.high - p.low) < max(drawn) <= p.high
    assert chip.draw(7)["alu_cycles"] == chip.parameters["alu_cycles"].value


def test_draws_are_paired_over_chips() -> None:
    """The same number and seed is the same place in the range, so a comparison is one of equals."""
    places = []
    for name in ("h100", "b200"):
        p = load_chip(name).parameters["read_latency"]
        places.append((load_chip(name).draw(5, seed=3)["read_latency"] - p.low) / (p.high - p.low))
    assert places == pytest.approx([place("read_latency", 5, 3)] * 2)
    assert place("read_latency", 5, 3) != place("read_latency", 5, 4)
    assert place("read_latency", 5, 3) != place("wake_latency", 5, 3)


def test_a_value_outside_its_range_or_of_no_status_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x: 3 is not in \[1, 2\]"):
        Parameter("x", 3, 1, 2, "cycle", "range", "a source")
    with pytest.raises(ValueError, match="status 'guessed'"):
        Parameter("x", 1, 1, 2, "cycle", "guessed", "a source")

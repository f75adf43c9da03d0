"""The same PTX by several schedules: where warp groups begin later, and what an H200 said."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from benchmarks.timing.gemms import tau
from benchmarks.timing.judges.page import MEASURED
from benchmarks.timing.judges.predictions import PREDICTED
from benchmarks.timing.waits.schedules import CYCLES, JUDGED, OTHER, joined, late, later, main, show

FOLDER = Path("benchmarks/timing/waits")
CHIP, SAID = FOLDER / "h200_schedules.json", FOLDER / "schedules.json"


def kept() -> tuple[dict[str, Any], dict[str, float]]:
    found = json.loads(CHIP.read_text())
    assert found["card"]["name"] == "NVIDIA H200"
    return found["kernels"], json.loads(SAID.read_text())


def test_warps_that_multiply_begin_later_by_a_parameter() -> None:
    text = ".entry k(\n.param .u32 a\n)\n{\nsetmaxnreg.inc.sync.aligned.u32 160;\nret;\n}"
    found = late(text)
    assert ".param .u32 a,\n\t.param .u32 begins_later\n)" in found
    assert found.index("setmaxnreg") < found.index("BEGINS_LATER:") < found.index("ret;")
    with pytest.raises(ValueError, match="no warps that take more registers"):
        late(text.replace("inc", "dec"))


def test_as_judged_is_what_the_page_predicted() -> None:
    _, said = kept()
    predicted = json.loads(PREDICTED.read_text())
    names = [key.removesuffix(JUDGED) for key in said if key.endswith(JUDGED)]
    assert len(names) == 14
    assert len(said) == 7 * 14
    assert all(said[name + JUDGED] == predicted[f"fa4_cute: {name}"]["cycles"] for name in names)


def test_a_second_measurement_agrees_with_the_page() -> None:
    """Medians of the judged kernels, by another call some hours later."""
    chip, said = kept()
    measured = json.loads(MEASURED.read_text())["rows"]
    rows = {row["name"]: row["cycles"] for row in measured if "cycles" in row}
    for name, both in joined(chip, said).items():
        assert abs(both[0][0] / rows[name] - 1) < 0.0035


def test_where_warp_groups_begin_later_changes_next_to_nothing() -> None:
    """So it is no phase of theirs that turns the order."""
    chip, said = kept()
    for name in joined(chip, said):
        for by in ("", OTHER):
            changes = later(chip, name, by)
            assert len(changes) == len(CYCLES)
            assert max(map(abs, changes)) < (0.005 if "d64" in name else 0.0025)


@pytest.mark.parametrize(
    ("ladder", "taus", "of_means"),
    [("d64-1024", [0.80, 0.80, 0.80, 0.80, 1.00, 0.80, 1.00], 0.80),
     ("d128-2048", [0.67, 0.78, 0.94, 0.67, 0.78, 0.89, 0.72], 0.78)],
)  # fmt: skip
def test_the_order_by_schedule(ladder: str, taus: list[float], of_means: float) -> None:
    rows = [both for name, both in joined(*kept()).items() if ladder in name]
    assert [round(tau([both[k] for both in rows]), 2) for k in range(7)] == taus
    means = [(mean(c for c, _ in both), mean(m for _, m in both)) for both in rows]
    assert round(tau(means), 2) == of_means


def test_two_and_three_consumers_stay_apart_in_the_mean_over_schedules() -> None:
    """So schedules are a part of the reason, and not all of it."""
    errors = {name: [m / c - 1 for c, m in both] for name, both in joined(*kept()).items()}
    three, two = (errors[f"fa4_cute d128-2048 {name}"] for name in ("64 keys", "two consumers"))
    assert three[0] - two[0] == pytest.approx(0.0315, abs=1e-3)
    assert mean(three) - mean(two) == pytest.approx(0.021, abs=1e-3)
    assert stdev(three) > 0.01 > 3 * stdev(two)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(show(*kept()))
    assert len(rows) == 14 + 2
    assert rows[-1] == (
        "fa4_cute d128: tau 0.67, 0.78, 0.94, 0.67, 0.78, 0.89, 0.72; of means 0.78"
    )
    assert main(["show", str(CHIP), str(SAID)]) == 0
    assert capsys.readouterr().out.splitlines() == rows
    assert main([]) == 64

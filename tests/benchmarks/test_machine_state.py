"""Of which state of the clocked machine predictions are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.machine_state import DAYS, model, states
from benchmarks.timing.side_by_side.records import load

FOLDER = Path("benchmarks/timing")


def test_states_are_counted_and_dated_where_a_day_is_known() -> None:
    known = next(iter(DAYS))
    rows = [{"model": known}, {"model": known}, {"model": "00000000"}, {}]
    assert states(rows).endswith(
        f": not kept (1), 00000000 (1), {known} of {DAYS[known]} (2)"
    ), states(rows)
    assert states([{"model": known}]).endswith(f": {known} of {DAYS[known]}")
    assert len(model()) == 8


@pytest.mark.parametrize(
    ("records", "page"),
    [("claims/calls.json", "timing_blackwell"), ("claims/ratios.json", "timing_blackwell"),
     ("pipes.json", "timing_blackwell"), ("fa3/launches.json", "timing_fa3")],
)  # fmt: skip
def test_pages_say_which_states_their_rows_are_of(records: str, page: str) -> None:
    text = " ".join(Path(f"docs/{page}.md").read_text().split())
    assert states(load(FOLDER / records)) in text

"""The table is what the records say, of today's kernels; and how the best is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tune import records as module
from benchmarks.tune.classes import CLASSES, TRACED, ProblemClass
from benchmarks.tune.records import (
    DEFAULT,
    TABLE,
    Record,
    best,
    described,
    load,
    of_class,
    pareto,
    save,
    table_text,
    today,
)
from fa4_cute.plan.config.tuning import RoleRegisters, Tuning

FASTER, SPILLING, UNSURE = Tuning(emulated=20), Tuning(emulated=24), Tuning(emulated=28)
BASE = Record("d128", DEFAULT, {"full": "0"}, 0, 800, 1100, {"a": (100, 100), "b": (100, 100)})
MADE = {
    DEFAULT: BASE,
    FASTER: replace(BASE, tuning=FASTER, cycles={"a": (96, 95), "b": (101, 99)}),
    SPILLING: replace(BASE, tuning=SPILLING, spills=3, cycles={"a": (80, 80), "b": (80, 80)}),
    UNSURE: replace(BASE, tuning=UNSURE, cycles={"a": (70, 120), "b": (70, 140)}),
}


def test_the_table_is_what_the_records_say() -> None:
    _, records = load()
    assert records
    assert table_text(records) == TABLE.read_text()


def test_every_class_whose_p_can_cross_was_searched_with_it() -> None:
    _, records = load()
    can = {of.name for of in CLASSES if "crosses" in dict(of.axes)}
    assert can
    assert can == {record.of for record in records if record.tuning.crosses}


def test_the_records_hold_together() -> None:
    made_with, records = load()
    assert set(made_with) == {record.of for record in records}
    assert all(set(of) == {"dsl", "ptxas", "model"} for of in made_with.values())
    names = {of.name: of for of in CLASSES}
    for record in records:
        of = names[record.of]
        assert list(record.cycles) == [cell.name for cell in of.cells]
        kinds = {cell.kind for cell in of.cells}
        assert set(record.ptx) == kinds | ({"dynamic"} if of.kernel == "2q" else set())
        assert len({len(draws) for draws in record.cycles.values()}) == 1
        assert DEFAULT in of_class(records, record.of)
    for name in {record.of for record in records}:
        assert not best(of_class(records, name), today(names[name])).spills


@pytest.mark.slow
@pytest.mark.parametrize("of", CLASSES, ids=lambda of: of.name)
def test_a_record_is_of_the_kernels_that_calls_get(of: ProblemClass) -> None:
    """The best of a class is what the table gives, and the PTX of all its kernels the judged one.
    `python -m benchmarks.tune --write` makes records that are old anew."""
    from benchmarks.tune.measure import ptx_hashes, spec_of

    record = best(of_class(load()[1], of.name), today(of))
    for kind in {cell.kind for cell in of.cells}:
        spec: Any = spec_of(of.problem(kind, TRACED[0]), of.kernel)
        tuning = getattr(spec, "tuning", None) or spec.config.tuning
        assert tuning == record.tuning
    assert ptx_hashes(of, record.tuning) == record.ptx


def test_the_best_is_the_fastest_that_is_faster_for_sure() -> None:
    assert best(MADE) is MADE[FASTER]
    without = {tuning: record for tuning, record in MADE.items() if tuning is not FASTER}
    assert best(without) is BASE


def test_of_choices_that_change_as_much_that_which_wins_draw_by_draw_is_taken() -> None:
    """Beside the defaults the other one looks faster: they differ in draws in which both are slow.
    """
    base = replace(BASE, cycles={"a": (100, 100, 300)})
    steady = replace(BASE, tuning=FASTER, cycles={"a": (90, 91, 80)})
    other = replace(BASE, tuning=UNSURE, cycles={"a": (89, 99, 99)})
    assert other.score(steady).median > 1
    assert best({DEFAULT: base, UNSURE: other, FASTER: steady}) is steady
    assert best({DEFAULT: base, UNSURE: other}) is other


def test_what_is_taken_stays_until_another_wins_by_its_whole_band() -> None:
    """One that changes as much and does better by the median is no reason to change the table."""
    base = replace(BASE, cycles={"a": (100, 100, 100)})
    taken = replace(BASE, tuning=FASTER, cycles={"a": (90, 91, 90)})
    better = replace(BASE, tuning=UNSURE, cycles={"a": (89, 92, 89)})
    records = {DEFAULT: base, FASTER: taken, UNSURE: better}
    assert best(records) is better
    assert best(records, FASTER) is taken
    assert best(records, SPILLING) is better, "it was not judged"
    surely = replace(better, cycles={"a": (89, 90, 89)})
    assert best({**records, UNSURE: surely}, FASTER) is surely
    spills = replace(taken, spills=6)
    assert best({**records, FASTER: spills}, FASTER) is better
    slow = replace(taken, cycles={"a": (99, 101, 99)})
    assert best({**records, FASTER: slow}, FASTER) is better, "it does not beat the defaults"


def test_a_second_change_has_to_win_by_itself() -> None:
    both = replace(FASTER, parts=(2, 1, 1))
    hardly = replace(BASE, tuning=both, cycles={"a": (94, 96), "b": (101, 99)})
    assert best({**MADE, both: hardly}) is MADE[FASTER]
    surely = replace(hardly, cycles={"a": (94, 93), "b": (100, 98)})
    assert best({**MADE, both: surely}) is surely
    assert best({**MADE, both: replace(surely, spills=1)}) is MADE[FASTER]


def test_the_front_has_what_nothing_beats_and_nothing_that_spills() -> None:
    worse = Tuning(emulated=4)
    slow = replace(BASE, tuning=worse, cycles={"a": (120, 120), "b": (99, 130)})
    front = {record.tuning for record in pareto({**MADE, worse: slow})}
    assert front == {FASTER, UNSURE}


def test_ratios_are_paired() -> None:
    other = replace(BASE, cycles={"a": (50, 200), "b": (10, 10)})
    doubled = replace(BASE, cycles={"a": (100, 400), "b": (20, 20)})
    for band in (*doubled.ratios(other).values(), doubled.score(other)):
        assert (band.low, band.high) == pytest.approx((2, 2))


def test_choices_in_words() -> None:
    assert described(DEFAULT) == "defaults"
    choice = Tuning(20, (2, 1, 1), RoleRegisters(200, 88, 24), 128, 4)
    assert described(choice) == (
        "128 keys, 4 slots, 20/64 emulated, 200/88/24 registers, P in 2+1+1"
    )


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    registers = Tuning(registers=RoleRegisters(200, 88, 24))
    written = [BASE, replace(BASE, tuning=registers, cycles={"a": (90, 90), "b": (90, 90)})]
    made_with = {"d128": {"dsl": "1"}}
    save(made_with, written, path)
    assert load(path) == (made_with, written)
    assert load(tmp_path / "none.json") == ({}, [])
    text = table_text(written)
    assert 'TunedRow("2q", 2, 128, 128,' in text
    assert "Tuning(registers=RoleRegisters(200, 88, 24))" in text
    namespace: dict[str, Any] = {"__package__": "fa4_cute.plan.config"}
    exec(text.replace("from .tuning", "from fa4_cute.plan.config.tuning"), namespace)
    (found,) = namespace["TUNED"]
    assert found.tuning == registers
    assert "RoleRegisters" not in table_text([BASE])
    assert module.HEAD.count("TUNED") == 1

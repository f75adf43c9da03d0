"""The table of predicted costs is what its records say."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tune import costs


def test_the_table_is_that_of_the_records() -> None:
    assert costs.TABLE.read_text() == costs.table_text(costs.load())


def test_costs_are_medians_over_the_draws_without_the_chips_own() -> None:
    found = costs.costs_of([(9.0, 9.0, 9.0), (1.0, 10.0, 0.5), (2.0, 20.0, 1.0), (6.0, 30.0, 2.0)])
    assert found == (2, 20, 1024)


def test_a_kind_is_a_row_of_the_table(tmp_path: Path) -> None:
    kind = costs.KINDS[0]
    draws = [(0.0, 1.0, 2.0), (0.0, 10.0, 1.5)]
    record = {"name": kind.name, "tile": draws, "persistent": draws, "launch": [0, 4000]}
    text = costs.table_text({kind.name: record})
    assert "LAUNCH_CYCLES: Final = 4000" in text
    assert 'PredictedRow("2q", 2, 64, 64,\n                 Costs(0, 10, 1536)' in text
    with_all = {**record, "dynamic": draws}
    assert text.count("Costs(0, 10, 1536)") == 2
    assert costs.table_text({kind.name: with_all}).count("Costs(0, 10, 1536)") == 3
    found = {each.kernel: "dynamic" in costs.of_kind(each) for each in costs.KINDS}
    assert found == {"2q": True, "pair": True, "1q": False}
    step = costs.DECODING[0]
    parts = {"combine": draws, "last": draws, "exchange": [9.0, 1632.4], "memory": [1.0, 4400.4]}
    text = costs.table_text({step.name: {**record, "name": step.name, **parts}})
    assert "MEMORY_BYTES_PER_CYCLE: Final = 4400" in text
    assert 'DecodingRow("1q", 2, 64, 64,\n                Costs(0, 10, 1536)' in text
    assert " 1632,\n                Costs(0, 10, 1536)),\n" in text
    costs.save({kind.name: record}, tmp_path / "costs.json")
    assert list(costs.load(tmp_path / "costs.json")) == [kind.name]
    assert costs.load(tmp_path / "none.json") == {}

"""The table of predicted costs is what its records say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.tune import costs
from fa4_cute.plan.spec.kernel_spec import KernelSpec

RECORDS = costs.load()
KNOWN = [
    kind for kind in (*costs.KINDS, *costs.SHORT, *costs.CHUNKS)
    if "ptx" in RECORDS.get(kind.name, {})
]  # fmt: skip
"""Kinds whose records say of which PTX they are."""


def test_the_table_is_that_of_the_records() -> None:
    assert costs.TABLE.read_text() == costs.table_text(costs.load())


def test_a_kind_is_a_row_of_the_table(tmp_path: Path) -> None:
    kind = next(kind for kind in costs.KINDS if not kind.causal)
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
    step = next(each for each in costs.DECODING if each.kernel == "1q")
    # The chip's own values come first; with more CTAs an exchange is taken for no sooner.
    exchange = [[9.0, 1632.4], [9.0, 1700.2], [9.0, -30.0]]
    parts = {"combine": draws, "last": draws, "exchange": exchange, "memory": [1.0, 4400.4]}
    text = costs.table_text({step.name: {**record, "name": step.name, **parts}})
    assert "MEMORY_BYTES_PER_CYCLE: Final = 4400" in text
    assert 'DecodingRow("1q", 2, 64, 64,\n                Costs(0, 10, 1536)' in text
    assert " (1632, 1700, 1700),\n                Costs(0, 10, 1536)),\n" in text
    pair = next(each for each in costs.DECODING if each.kernel == "pair")
    text = costs.table_text({pair.name: {**record, "name": pair.name, "combine": draws}})
    row = "Costs(0, 10, 1536), Costs(0, 10, 1536)),"
    assert f'    DecodingRow("pair", 2, 256, 256,\n                {row}\n' in text
    costs.save({kind.name: record}, tmp_path / "costs.json")
    assert list(costs.load(tmp_path / "costs.json")) == [kind.name]
    assert costs.load(tmp_path / "none.json") == {}


def test_kernels_whose_scheduler_is_chosen_among_three_have_a_row_for_causal_launches() -> None:
    for kind in costs.KINDS:
        if kind.kernel != "1q":
            assert replace(kind, causal=True) in costs.KINDS, kind.name
            assert replace(kind, causal=False) in costs.KINDS, kind.name


def test_one_q_tile_has_a_row_for_causal_launches_where_its_loop_is_another() -> None:
    for kind in costs.KINDS:
        if kind.kernel == "1q":
            two = costs.spec_of(replace(kind, kernel="2q", causal=False), "tile")
            assert isinstance(two, KernelSpec)
            apart = two.masks_apart
            assert (replace(kind, causal=True) in costs.KINDS) == apart, kind.name


def test_a_causal_row_stands_before_that_of_both() -> None:
    assert costs.KINDS[0].name == "2q bf16 64/64, causal"
    for masked in costs.KINDS:
        if masked.causal:
            plain = replace(masked, causal=False)
            assert masked.name == f"{plain.name}, causal"
            assert costs.KINDS.index(masked) < costs.KINDS.index(plain)
    masked = costs.KINDS[0]
    plain = replace(masked, causal=False)
    record = {"tile": [(0.0, 1.0, 2.0)] * 2, "launch": [0, 4000]}
    text = costs.table_text({k.name: {"name": k.name, **record} for k in (masked, plain)})
    row = 'PredictedRow("2q", 2, 64, 64,\n                 Costs(0, 1, 2048)'
    assert text.index(f"{row},\n                 causal=True),") < text.index(f"{row}),")


def test_a_record_is_of_the_ptx_that_it_names() -> None:
    kind = costs.KINDS[0]
    record = {"tile": [], "persistent": [], "ptx": {"tile": "tile of now", "persistent": "old"}}
    assert costs.stale(kind, record, lambda _, scheduler: f"{scheduler} of now") == ["persistent"]
    assert costs.stale(kind, {"tile": []}, lambda _, scheduler: scheduler) == ["tile"]
    again = costs.merged(record, {"persistent": [1], "ptx": {"persistent": "persistent of now"}})
    assert (again["tile"], again["persistent"]) == ([], [1])
    assert costs.stale(kind, again, lambda _, scheduler: f"{scheduler} of now") == []


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_records_are_of_the_kernels_of_now(kind: costs.Kind) -> None:
    assert costs.stale(kind, RECORDS[kind.name]) == []

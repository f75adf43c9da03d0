"""The page of combinations: which cases it has, in which order, and where a table goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import combinations
from benchmarks.combinations import ALL_KERNELS, NAMES, ROWS, TITLES, Cell, possible_pairs, rows_of
from testing.cases import is_possible

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"


def test_pairs_are_those_that_a_kernel_has() -> None:
    for kernel, form in ALL_KERNELS.items():
        pairs = possible_pairs(kernel)
        named = set(ROWS.get(kernel, NAMES))
        assert len(pairs) == len(set(pairs)) > (100 if len(named) == len(NAMES) else 30)
        assert all(pair & named for pair in pairs)
        assert all(is_possible(pair, *form) and pair <= set(NAMES) for pair in pairs)
        alone = {name for name in named if is_possible({name}, *form)}
        assert {next(iter(pair)) for pair in pairs if len(pair) == 1} == alone


def test_a_dynamic_scheduler_is_asked_for_beside_all_but_another_one() -> None:
    beside = [pair for pair in possible_pairs("two Q tiles") if "dynamic" in pair]
    others = {name for pair in beside for name in pair} - {"dynamic"}
    assert others == set(NAMES) - {"dynamic", "persistent", "stream_k", "cluster", "last"}
    assert not any("dynamic" in pair for pair in possible_pairs("Hopper"))


@pytest.mark.parametrize("kernel", ALL_KERNELS)
def test_the_page_has_every_pair_that_the_kernel_has(kernel: str) -> None:
    """A feature that came later has its column, and no case is left out."""
    _, found, after = PAGE.read_text().partition(f"## {TITLES[kernel]}\n")
    assert found
    section = after.partition("\n## ")[0]
    assert section.startswith(f"\n{len(possible_pairs(kernel))} cases, 0 of them failing.")
    assert f"| | {' | '.join(NAMES)} |" in section
    for row, name in rows_of(kernel):
        cells = [cell.strip() for cell in _row(section, name).split("|")[2:-1]]
        shown = {frozenset({name, NAMES[i]}) for i in range(row + 1) if cells[i] not in ("", "–")}
        assert shown == {pair for pair in possible_pairs(kernel) if name == _last(pair)}


def _row(section: str, name: str) -> str:
    return next(line for line in section.splitlines() if line.startswith(f"| **{name}** |"))


def _last(pair: frozenset[str]) -> str:
    return max(pair, key=NAMES.index)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def few(kernel: str) -> list[frozenset[str]]:
        return [frozenset({"causal"}), frozenset({"causal", "bias"})]

    def here(function: Any, calls: Sequence[Any], processes: int) -> Iterator[Any]:
        assert processes == 3
        for pair, _ in calls:
            yield Cell(0.0015, 0.25, 1e-6, "" if len(pair) == 1 else "NaN"), 0.1

    monkeypatch.setattr(combinations, "possible_pairs", few)
    monkeypatch.setattr(combinations, "each", here)
    path = tmp_path / "page.md"
    path.write_text("# Features\n\nWords.\n")
    return path


def test_only_the_kernels_that_are_named_are_run(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert combinations.main([str(page), "Hopper", "--processes", "3"]) == 1
    assert combinations.main([str(page), "--processes", "3", "one Q tile"]) == 1
    text = page.read_text()
    assert text.startswith("# Features\n\nWords.\n\n## " + TITLES["one Q tile"])
    assert text.index(TITLES["one Q tile"]) < text.index(TITLES["Hopper"])
    assert text.count("2 cases, 1 of them failing. The worst error is 25% of what") == 2
    assert "| **causal** | 1.5 |" in text
    assert "* bias+causal: NaN" in text
    assert "one Q tile: bias+causal: **fails** 0.1 s" in capsys.readouterr().out


def test_cells_beside_others_stay(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(_: str) -> list[frozenset[str]]:
        return [frozenset(p) for p in ({"causal"}, {"last"}, {"causal", "last"})]

    cell = Cell(0.0012, 0.31, 1e-5)
    with monkeypatch.context() as before:
        before.setattr(combinations, "NAMES", tuple(name for name in NAMES if name != "last"))
        section = combinations.table("one Q tile", {frozenset({"causal"}): cell})
    page.write_text(page.read_text() + "\n" + section + "\n")
    monkeypatch.setattr(combinations, "possible_pairs", pairs)
    given = [str(page), "one Q tile", "--processes", "3", "--beside", "last"]
    assert combinations.main(given) == 1
    text = page.read_text()
    assert "3 cases, 1 of them failing. The worst error is 31% of what" in text
    assert "log-sum-exp 1.0e-05" in text
    assert "| **causal** | 1.2 |" in text
    assert re.search(r"\| \*\*last\*\* \| \*\*fails\*\* \|.* \| 1\.5 \|", text)


def test_an_unknown_kernel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        combinations.main(["page.md", "warp"])
    assert "warp: choose from two Q tiles; one Q tile" in capsys.readouterr().err

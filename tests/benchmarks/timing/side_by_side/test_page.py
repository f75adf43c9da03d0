"""The side-by-side page: ratios, states of the machine, limits, and the file of rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.machine_state import CHIP, DRAWS
from benchmarks.timing.side_by_side import __main__ as program
from benchmarks.timing.side_by_side import limits
from benchmarks.timing.side_by_side import page as side_page
from benchmarks.timing.side_by_side import records as side_by_side
from fa4_cute.host.ask.problem import Problem as Posed
from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.compile.cache import compiled
from sm100sim.timing.chips import load_chip
from sm100sim.timing.profile.held import held_ratios


def test_the_page_is_that_of_the_rows() -> None:
    found = side_by_side.load()
    assert Path("docs/side_by_side.md").read_text() == program.drawn()
    keys = [side_by_side.key(row) for row in found]
    assert len(set(keys)) == len(keys)
    assert len(found) > 50


def test_each_row_of_the_file_is_on_the_page() -> None:
    text = Path("docs/side_by_side.md").read_text()
    for row in side_by_side.load():
        if "cycles" in row:
            assert re.search(rf"\| {row['column']}( \*)? \| {row['cycles'][0]:,} \|", text)
        else:
            column, name = re.escape(row["column"]), re.escape(row["name"])
            assert re.search(rf"(?m)^\* {column}: .*{name}", text)


def test_the_page_says_how_far_fp8_is_off() -> None:
    """As the page of published figures has it, which is made from the runs."""
    published = Path("docs/timing_blackwell.md").read_text()
    row = re.search(r"FA4 fp8 ([\d,]+) of at most ([\d,]+)", published)
    assert row is not None
    cycles, period = (int(figure.replace(",", "")) for figure in row.groups())
    off = round(100 * (1 - cycles / period))
    said = f"predicted {off} % too short ({row[1]} of {row[2]} cycles"
    assert said in " ".join(Path("docs/side_by_side.md").read_text().split())


def test_the_head_doubts_what_published_ratios_do_not_show() -> None:
    doubted = held_ratios("b200")
    said = f"doubt a ratio between {1 - doubted.nine:.2f} and {1 + doubted.nine:.2f}"
    assert said in " ".join(Path("docs/side_by_side.md").read_text().split())


@pytest.mark.parametrize("program", ["mla_fwd", "fmha_gen", "attention/fmha"])
def test_what_could_run_and_has_no_row_is_named(program: str) -> None:
    """A refusal speaks of one program of CUTLASS; it has others for problems of the page."""
    assert program in Path("docs/side_by_side.md").read_text()


def test_fp16_differs_in_names_of_types_and_descriptors() -> None:
    """So the page has no rows of it."""
    made = []
    for dtype in ("bf16", "fp16"):
        posed = Posed(dtype, 2, 1024, 1024, 16, 16, 128, 128)
        artifact = compiled(require(choose(posed)).spec)
        text = artifact.ptx.replace(artifact.kernel_name, "KERNEL")
        made.append(re.sub(r"\b(bf16|f16)(x2)?\b", r"type\2", text).splitlines())
    other = [pair for pair in zip(*made, strict=True) if pair[0] != pair[1]]
    assert len(other) == 3
    for pair in other:  # the formats of A and B, 1 and 0, at bits 7 and 10
        found = [[int(word) for word in re.findall(r"(?<=, )\d+(?=[,;])", line)] for line in pair]
        assert found[0]
        assert [a - b for a, b in zip(*found, strict=True)] == [0x480] * len(found[0])


def row(column: str, cycles: list[int], compiler: str = "12.9", **more: Any) -> dict[str, Any]:
    return {"family": "bf16 d64 all", "length": 1024, "column": column, "cycles": cycles,
            "compiler": compiler, "busy": {"mufu": 0.5, "tensor": 0.3}, "taken": 0.96, "local": 0,
            "model": "now", "star": False, **more}  # fmt: skip


def test_ratios_are_of_the_same_assembler_draw_by_draw() -> None:
    rows = [
        row("fa4_cute, CUDA 12", [100, 100, 200]), row("fa4_cute, CUDA 13", [50, 50, 50], "13.4"),
        row("FA4, CUDA 12", [110, 120, 300]),
    ]  # fmt: skip
    base = side_page.base_of(rows[2], rows)
    assert base is rows[0]
    found = side_page.ratio(rows[2], base)
    assert (found.median, side_page.own(rows[2], base)) == (1.35, 1.1)
    assert side_page.verdict(found) == "ahead"
    assert side_page.verdict(side_page.ratio(rows[0], rows[2])) == "behind"
    assert side_page.verdict(side_page.ratio(rows[0], rows[0])) == "open"
    refused = {"family": "x", "name": "y", "column": "FA4", "refused": "no"}
    text = side_page.page([*rows, refused], [])
    assert "| FA4, CUDA 12 | 1 | 1 | 0 | 0 | 0 | 1.100 | 1.350 | 1.10: " in text
    assert "* FA4: y: refuses it: no" in text


def test_rows_of_another_state_are_marked_where_no_repeated_row_says_that_it_is_the_same() -> None:
    rows = [row("fa4_cute", [1, 1]), row("FA4, a", [1, 1]), row("FA4, b", [1, 1], model="old")]
    marked = side_page.of_one_state(rows, [])
    assert [side_page.named(one) for one in marked] == ["fa4_cute", "FA4, a", "FA4, b *"]
    assert side_page.base_of(marked[1], marked) is marked[0]
    assert side_page.base_of(marked[2], marked) is None
    text = side_page.page(rows, [])
    assert "**1 of 3 rows are of other states" in text
    pairs = [{"states": ["old", "between"], "repeated": ["x", "y"]},
             {"states": ["between", "now"], "repeated": ["z"]}]  # fmt: skip
    assert side_by_side.same_state("old", pairs) == {"old", "between", "now"}
    assert side_by_side.same_state("old", pairs[:1]) == {"old", "between"}
    assert not any(one["star"] for one in side_page.of_one_state(rows, pairs))
    text = side_page.page(rows, pairs)
    assert "other states" not in text
    assert "old counts as between: repeated, rows are equal (x; y)." in text


def test_states_are_one_where_repeated_rows_are_equal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows that fail now are left out; of a state with no others nothing is noted."""
    rows = [row("FA4", [1, 2], model="old"), row("FA4", [3, 4], model="old", length=4096),
            row("fa4_cute", [5, 6], model="other"), row("Gluon", [7, 8]),
            row("TIRx", [9, 9], model="old"), row("CUTLASS", [9, 9], model="gone")]  # fmt: skip
    asked = list[str]()

    def again(one: dict[str, Any]) -> dict[str, Any]:
        if one["column"] in ("TIRx", "CUTLASS"):
            return {"family": one["family"], "name": one["family"], "column": one["column"],
                    "failed": "FileNotFoundError: not here", "model": "now"}  # fmt: skip
        return {**one, "cycles": [5, 5]} if one["model"] == "other" else one

    def made(only: str, known: set[Any]) -> Iterator[list[dict[str, Any]]]:
        asked.append(only)
        found = [one for one in rows if re.search(only, f"{one['column']}: {one['family']}")]
        yield list(map(again, found))

    monkeypatch.setattr(program, "STATES", tmp_path / "states.json")
    monkeypatch.setattr(program, "load", lambda path=None: [] if path else rows)
    monkeypatch.setattr(program, "model", lambda: "now")
    monkeypatch.setattr(program, "made", made)
    program.repeat("")
    assert [re.sub(r"\\", "", only) for only in asked] == [
        "^(CUTLASS: bf16 d64 all)$", "^(FA4: bf16 d64 all|TIRx: bf16 d64 all)$",
        "^(fa4_cute: bf16 d64 all)$",
    ]  # fmt: skip
    assert side_by_side.load(tmp_path / "states.json") == [
        {"states": ["old", "now"], "repeated": ["FA4: bf16 d64 all"]}
    ]


LONG = 10**6
"""Cycles with which a launch takes next to nothing, for a hundredth."""


def short(family: str, cycles: list[int], busy: dict[str, float]) -> list[dict[str, Any]]:
    ours = row("fa4_cute, CUDA 12", [100 * LONG] * 3, family=family, busy=busy)
    theirs = [count * LONG for count in cycles]
    return [ours, row("FA4, CUDA 12", theirs, family=family, busy={"mufu": 0.9, "tensor": 0.5})]


def limits_of(*rows: list[dict[str, Any]]) -> str:
    text = side_page.page([one for pair in rows for one in pair], [])
    return text.partition("## Where a row is below")[2].partition("## Every row")[0]


def test_a_limit_is_reached_where_more_is_needed_than_the_mmas_leave() -> None:
    text = limits_of(
        short("bf16 d128 all", [101, 101, 101], {"tensor": 0.98}),
        short("bf16 d64 all", [102, 102, 102], {"issue": 0.7, "tensor": 0.4}),
        short("bf16 d96 all", [110, 110, 110], {"tensor": 0.99}),
        short("bf16 d256 all", [120, 80, 130], {"tensor": 0.5}),
    )
    assert "Of 4 problems 3 are short: at 1 the limit is reached, at 2 there is room." in text
    assert (
        "* bf16 d128 all, 1,024: 1.010 beside FA4, CUDA 12. The MMAs take 98 % of the time and "
        "the launch 0.0 %, so 1.02 is the most that could be gained; 1.040 is needed: "
        "**1.05 cannot be reached with these tiles.**"
    ) in text
    assert "d64 all, 1,024: 1.020" in text
    assert (
        "1.029 is needed: **there is room.** The busiest unit of this code: issue 70 %; for 4 % of "
        "the time an SM has no CTA."
    ) in text
    assert "d96" not in text  # ahead by enough
    assert "| 1.200 |" in text  # open: its band crosses 1
    assert "| MMAs 50.0% | at most 2.000 |" in text


def test_bytes_are_a_limit_and_the_nearest_column_is_the_one_that_counts() -> None:
    ours = row("fa4_cute, CUDA 12", [100 * LONG] * 2, busy={"HBM": 0.99, "tensor": 0.4})
    far, near = (row(name, [count * LONG] * 2, busy={"HBM": 0.5})
                 for name, count in (("far", 104), ("near", 100)))  # fmt: skip
    text = limits_of([ours, far, near])
    assert "1.000 beside near. The bytes take 99 % of the time" in text
    assert "**1.05 cannot be reached.**" in text
    assert "far" not in text
    ours["busy"]["HBM"] = 0.9
    text = limits_of([ours, near])
    assert "**there is room.** The busiest unit of this code: HBM 90 %.\n" in text


def test_query_tiles_are_whole_on_both_sides() -> None:
    ours, theirs = short("bf16 d192/128 all", [101, 101, 101], {"tensor": 0.95})
    text = limits_of([ours, theirs])
    assert "take 95 % of the time and the launch 0.0 %, so 1.05 is the most that could" in text
    assert "**there is room.**" in text
    ours["uneven"], theirs["uneven"] = 1.02, 1.2
    text = limits_of([ours, theirs])
    assert "take 97 % of the time and the launch 0.0 %, so 1.03 is the most that could" in text
    assert "**1.05 cannot be reached with these tiles.**" in text
    assert "| MMAs 96.9% | at most 1.032 | MMAs 60.0% | at most 1.667 |" in text


def test_no_kernel_is_spared_the_launch() -> None:
    """Without it 1.042 could be gained, more than the 1.029 that are needed."""
    ours = row("fa4_cute, CUDA 12", [150_000, 150_000], busy={"HBM": 0.96})
    theirs = row("FA4, CUDA 12", [153_000, 153_000], busy={"HBM": 0.9})
    text = limits_of([ours, theirs])
    told = "The bytes take 96 % of the time and the launch 2.7 %, so 1.01 is the most that could be"
    assert told in text
    assert "**1.05 cannot be reached.**" in text
    long = {**ours, "cycles": [150_000_000] * 2}, {**theirs, "cycles": [153_000_000] * 2}
    assert "**there is room.**" in limits_of(list(long))


def test_a_row_with_room_says_where_it_is() -> None:
    ours, theirs = short("bf16 d64 all", [102, 102, 102], {"issue": 0.7, "tensor": 0.4})
    ours["beyond"] = {"waiting": 0.012, "tiles": 0.03, "keys": 0.558}
    assert (
        "The busiest unit of this code: issue 70 %. Lost are 1.2 % where an SM has no CTA, 3.0 % "
        "at starts and ends of CTAs and query tiles, 55.8 % between key tiles."
    ) in limits_of([ours, theirs])


def test_a_row_says_which_value_of_the_chip_its_ratio_follows() -> None:
    chip = load_chip(CHIP)
    ours, theirs = short("bf16 d64 all", [102, 102, 102], {"tensor": 0.4})
    ours["cycles"] = [100 * LONG] * (DRAWS + 1)
    drawn = [chip.draw(number)["icache_next"] for number in range(1, DRAWS + 1)]
    theirs["cycles"] = [102 * LONG, *(round(LONG * (110 - each)) for each in drawn)]
    assert "| `icache_next` -1.00 | " in limits_of([ours, theirs])
    theirs["cycles"] = [102 * LONG] * (DRAWS + 1)
    text = limits_of([ours, theirs])
    assert "| 1.02 (1.02–1.02) |  | 1.029 |" in text


def test_bytes_do_not_come_in_whole_tiles() -> None:
    ours, theirs = short("bf16 d64 all", [101, 101, 101], {"HBM": 0.9, "tensor": 0.8})
    ours["uneven"] = 1.1
    assert "The bytes take 90 %" in limits_of([ours, theirs])
    ours["uneven"] = 1.2
    assert "The MMAs take 96 %" in limits_of([ours, theirs])


def test_short_rows_say_how_uneven_their_mmas_are() -> None:
    found = side_page.of_one_state(
        [one for one in side_by_side.load() if "cycles" in one],
        side_by_side.load(side_by_side.STATES),
    )
    cells = limits.nearest(list(side_page.cells(found)))
    of_tiles = [one for cell in cells for one in (cell.base, cell.row) if one["family"] != "other"]
    assert of_tiles
    for one in of_tiles:
        assert one["uneven"] >= 1, one
        assert limits.share(one, "tensor") <= 1, one


def test_new_rows_take_the_place_of_old_ones(tmp_path: Path) -> None:
    failed = {"family": "bf16 d64 all", "name": "bf16 d64 all", "column": "FA4", "failed": "x"}
    old = [failed, row("FA4", [1, 1]), row("FA4", [2, 2], length=4096), row("fa4_cute", [5, 5])]
    new = [row("FA4", [4, 4], length=4096), row("FA4", [3, 3])]
    path = tmp_path / "rows.json"
    side_by_side.save(side_by_side.merged(old, new), path)
    assert [r["cycles"][0] for r in side_by_side.load(path)] == [3, 4, 5]
    assert side_by_side.load(tmp_path / "none.json") == []

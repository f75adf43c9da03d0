"""The file of records: several runs may write it at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.programs.__main__ import known, update
from benchmarks.programs.catalogue import projects
from benchmarks.programs.judge import Record


def row(index: int, state: str = "right") -> Record:
    project = projects()[0]
    program = project.programs[index]
    return Record(project.name, project.language, program.name, program.file, state)


def test_readers_see_a_whole_file_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    count = 8
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(update, path, row(index)) for index in range(count)]
        while not all(one.done() for one in done):
            if path.is_file():
                json.loads(path.read_text())
    assert [one.exception() for one in done] == [None] * count
    assert {one.name for one in known(path)} == {row(index).name for index in range(count)}
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]


def test_a_control_changes_nothing_but_whether_it_was_noticed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    update(path, row(0))
    update(path, row(0, "wrong"), False)
    (found,) = known(path)
    assert (found.state, found.unjudged, found.result) == ("right", True, "runs")
    update(path, row(0))
    assert known(path)[0].unjudged
    update(path, row(0, "wrong"), True)
    assert not known(path)[0].unjudged
    with pytest.raises(ValueError, match="has no record"):
        update(path, row(1), True)

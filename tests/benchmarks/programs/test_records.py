"""The file of records: several runs may write it at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.programs.__main__ import ALL, EACH, UNNOTICED, known, update
from benchmarks.programs.attempt import EVERY
from benchmarks.programs.blank import without
from benchmarks.programs.catalogue import projects
from benchmarks.programs.judge import Record
from sm100sim.launch_request import LaunchRequest


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
    update(path, row(0, "wrong"), UNNOTICED)
    (found,) = known(path)
    assert (found.state, found.unjudged, found.result) == ("right", True, "runs")
    update(path, row(0))
    assert known(path)[0].unjudged
    update(path, row(0, "wrong"), EACH)
    (found,) = known(path)
    assert (found.unjudged, found.compared, found.result) == (False, True, "right")
    update(path, row(0, "wrong"), ALL)
    (found,) = known(path)
    assert (found.unjudged, found.compared) == (False, False)
    with pytest.raises(ValueError, match="has no record"):
        update(path, row(1), ALL)


def test_a_kernel_is_left_out() -> None:
    ran = []
    for kernel in ("a", EVERY):
        call = without(kernel, lambda request: ran.append(request.kernel))
        for name in ("a", "b"):
            call(LaunchRequest("", name, (1, 1, 1), (1, 1, 1)))
    assert ran == ["b"]

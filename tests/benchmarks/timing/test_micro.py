"""The questions run to their end, and the arithmetic on their answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing import micro
from benchmarks.timing.beside import BESIDE_QUESTIONS
from benchmarks.timing.more_questions import gap_case, gaps_of
from benchmarks.timing.questions import QUESTIONS, ROUNDS, Question
from testing.hardware.case import Case
from testing.hardware.simulate import simulate

SIMULATED = [
    q
    for q in micro.ALL
    if ("wgmma" not in q.name or "additions of 1" in q.name) and "KB" not in q.name and q.grid == 1
    and "beside n" not in q.name
]


@pytest.mark.parametrize("question", SIMULATED, ids=lambda q: q.name)
def test_a_question_ends_and_writes_all_its_cycles(question: Question) -> None:
    """The simulator's clock counts otherwise; it shows that waits end and everything is written."""
    case = question.case(question.counts[0])
    (cycles,) = simulate(case)
    assert cycles.shape == (ROUNDS * question.block,)
    assert not (cycles == case.outputs[0]).any()
    assert (cycles < 1 << 24).all()


def test_names_are_unique() -> None:
    assert len({q.name for q in micro.ALL}) == len(micro.ALL)


def fake(case: Case) -> list[np.ndarray]:
    """Seven cycles a step and 30 more for the slowest thread; the first round is cold."""
    count = int(case.name.rsplit(" ", 1)[1])
    cycles = np.full((ROUNDS, case.grid * case.block), 7 * count, np.uint32)
    cycles[0] += 1000
    cycles[:, -1] += 30
    cycles[1] += 5
    return [cycles.ravel()]


def test_one_and_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = micro.answer(QUESTIONS[0], fake)
    assert (got["one"], got["rest"]) == (7, 30)
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"answers": [got, {"name": "x", "failed": "DeviceError: y"}]}))
    assert micro.main(["show", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[2:] == [
        f"| {QUESTIONS[0].name} | 7.0 | 30 | {QUESTIONS[0].tells} |",
        "| x | DeviceError: y | | |",
    ]
    assert micro.main([]) == 64


def test_the_page_has_the_answers_of_the_chip() -> None:
    recorded = json.loads(Path("benchmarks/timing/h200.json").read_text())
    page = Path("docs/timing_probes.md").read_text()
    assert micro.table(recorded) + "\n" in page
    names = {question.name for question in QUESTIONS}
    assert {entry["name"] for entry in recorded["answers"]} == names
    for name in ("more", "beside"):
        later = json.loads(Path(f"benchmarks/timing/h200_{name}.json").read_text())
        further = [entry for entry in later["answers"] if entry["name"] not in names]
        assert len(further) > 40
        assert micro.table(later | {"answers": further}) + "\n" in page
    asked = {entry["name"] for entry in later["answers"]}
    assert asked == {question.name for question in BESIDE_QUESTIONS}


def test_gaps_between_ctas_of_one_sm() -> None:
    """Two places an SM; the clock wraps in between."""
    first = 2**32 - 100
    rows = [(first + begin, first + begin + 50, 7) for begin in (0, 10, 350, 365)]
    times = np.array(rows, np.int64).astype(np.uint32).ravel()
    assert gaps_of(times, 2).tolist() == [300, 305]
    (written,) = simulate(gap_case(64, 8, (100, 0)))
    begin, end, _ = written.reshape(-1, 3).T
    assert ((end - begin).astype(np.int32) >= 100).all()

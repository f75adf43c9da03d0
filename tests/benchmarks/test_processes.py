"""Long programs make their calls in several processes, and show them in order."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.processes import each, processor_seconds


def waited(seconds: float, name: str) -> tuple[str, int]:
    time.sleep(seconds)
    return name, os.getpid()


def refused(number: int) -> int:
    raise ValueError(f"{number} is refused")


def test_one_process_is_this_one_and_calls_when_asked() -> None:
    made: list[int] = []
    results = each(made.append, [(1,), (2,)], 1)
    assert made == []
    next(results)
    assert made == [1]
    assert list(each(waited, [(0.0, "a")], 1)) == [("a", os.getpid())]


@pytest.mark.slow
def test_results_keep_the_order_of_the_calls() -> None:
    found = list(each(waited, [(0.3, "slow"), (0.0, "quick"), (0.0, "last")], 2))
    assert [name for name, _ in found] == ["slow", "quick", "last"]
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.slow
def test_an_error_arrives_where_its_result_would() -> None:
    with pytest.raises(ValueError, match="7 is refused"):
        next(each(refused, [(7,)], 2))


def test_processor_time_grows_with_work() -> None:
    before = processor_seconds()
    while processor_seconds() == before:
        sum(range(100_000))

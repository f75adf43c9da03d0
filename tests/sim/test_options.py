"""Options: checked, restored after their block, and of one thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check, RunOptions, current_options, run_options


def test_a_block_changes_and_restores() -> None:
    before = current_options()
    with run_options(mode="late", seed=3) as options:
        assert current_options() is options
        with run_options(seed=4):
            assert (current_options().mode, current_options().seed) == ("late", 4)
        assert current_options() is options
    assert current_options() is before


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode: 'slow' is not one of fast, random, late"):
        RunOptions(mode="slow")  # type: ignore[arg-type]  # refused


def test_two_threads_do_not_see_each_other_s_options() -> None:
    """The blocks overlap and end in the order in which they began."""
    inside, first_left = threading.Barrier(2, timeout=20), threading.Event()
    seen: dict[str, list[int]] = {}

    def work(name: str, seed: int, leaves_first: bool) -> None:
        with run_options(seed=seed):
            inside.wait()
            during = current_options().seed
            if not leaves_first:
                assert first_left.wait(20)
            after_other = current_options().seed
        if leaves_first:
            first_left.set()
        seen[name] = [during, after_other, current_options().seed]

    threads = [
        threading.Thread(target=work, args=("first", 11, True)),
        threading.Thread(target=work, args=("second", 22, False)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"first": [11, 11, 0], "second": [22, 22, 0]}
    assert current_options().seed == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("all", Check.ALL),
        ("races", Check.RACES),
        ("Races, strict-lanes", Check.RACES | Check.STRICT_LANES),
        (["registers", Check.TMEM, 2], Check.UNINITIALISED),
        (31, Check.ALL),
        ("", Check.NONE),
        (Check.TO_THE_LETTER, Check.TO_THE_LETTER),
    ],
)
def test_checks_may_be_named(given: object, meant: Check) -> None:
    with run_options(checks=given) as options:
        assert options.checks is meant


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"checks": "race"}, "checks: 'race' is no check; did you mean 'races'"),
        ({"checks": "everything"}, "checks: 'everything' is no check; choose from none, registers"),
        ({"checks": 1 << 40}, "checks: 0x10000000000 has bits that are no Check"),
        ({"checks": -1}, "checks: -0x1 has bits"),
        ({"mode": "lates"}, "mode: 'lates' .*did you mean 'late'"),
        ({"max_findings": -1}, r"max_findings: -1 is not in 0 \.\.\. 65536"),
        ({"max_findings": -2}, "max_findings: -2"),
        ({"max_findings": 2**32 - 1}, "max_findings: 4294967295"),
        ({"max_findings": 2**31}, "max_findings: 2147483648"),
        ({"max_idle_instructions": 0}, "max_idle_instructions: 0"),
        ({"max_instructions": 0}, "max_instructions: 0"),
        ({"trace_cluster": -1}, "trace_cluster: -1"),
        ({"trace_cluster": 2**40}, "trace_cluster: 1099511627776"),
        ({"seed": 2**70}, "seed: "),
    ],
)
def test_values_are_checked_where_they_are_set(changes: dict[str, Any], message: str) -> None:
    before = current_options()
    with pytest.raises(ValueError, match=message), run_options(**changes):
        pytest.fail("the block is not entered")
    assert current_options() is before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chekcs": "all"}, "chekcs: no such option; did you mean 'checks'"),
        ({"seed": "x"}, "seed: 'x' is no whole number"),
        ({"seed": 1.5}, "seed: 1.5 is no whole number"),
        ({"max_findings": True}, "max_findings: True is no whole number"),
        ({"checks": 1.5}, "checks: 1.5 is no whole number or names such as 'all'"),
        ({"checks": None}, "checks: None"),
        ({"poison": "yes"}, "poison: 'yes' is neither True nor False"),
        ({"max_findings": None}, "max_findings: None"),
    ],
)
def test_values_of_another_kind_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message), run_options(**changes):
        pytest.fail("the block is not entered")


def test_numbers_of_other_libraries_are_whole_numbers() -> None:
    options = RunOptions(seed=np.int32(7), trace_cluster=np.uint8(0))  # type: ignore[arg-type]  # refused
    assert (options.seed, options.trace_cluster) == (7, 0)
    assert type(options.seed) is int


def test_a_task_does_not_see_the_options_of_another_one() -> None:
    async def task(seed: int, pauses: int) -> tuple[int, int]:
        with run_options(seed=seed):
            for _ in range(pauses):
                await asyncio.sleep(0)
            during = current_options().seed
        return during, current_options().seed

    async def both() -> tuple[tuple[int, int], ...]:
        return tuple(await asyncio.gather(task(1, 2), task(2, 4)))

    assert asyncio.run(both()) == ((1, 0), (2, 0))

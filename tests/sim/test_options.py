"""Options: checked, restored after their block, and of one thread."""

from __future__ import annotations

import threading

import pytest

from sm100sim.options import RunOptions, current_options, run_options


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
        RunOptions(mode="slow")  # type: ignore[arg-type]


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

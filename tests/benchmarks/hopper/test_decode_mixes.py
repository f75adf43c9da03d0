"""Decoding steps that are timed: what is set beside what, and lengths that stay the same."""

from __future__ import annotations

from benchmarks.hopper.decode_mixes import CHOSEN, MIXES, SPLITS, TRIALS, chosen, lognormal
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.spec.variant import Scheduler


def test_each_call_has_the_kernel_that_it_is_named_after() -> None:
    for mix in MIXES:
        found = {name: choice for name, choice, _ in chosen(mix)}
        assert list(found) == list(TRIALS)
        schedulers = {name: choice.spec.variant.scheduler for name, choice in found.items()}
        assert schedulers.pop("stream-K") is Scheduler.STREAM_K
        assert Scheduler.STREAM_K not in schedulers.values()
        assert [found[f"{n} splits"].num_splits for n in SPLITS] == list(SPLITS)
        config = found[CHOSEN].spec.config
        assert isinstance(config, SM90Config)
        assert config.few_rows


def test_mixes_have_names_and_lengths_of_their_own() -> None:
    assert len({mix.name for mix in MIXES}) == len(MIXES)
    assert lognormal(8, 1) == MIXES[0].keys
    assert any(len(set(mix.keys)) == 1 for mix in MIXES)
    assert all(64 <= keys <= 65536 for mix in MIXES for keys in mix.keys)

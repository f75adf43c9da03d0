"""Numbers of splits that are worth a try."""

from __future__ import annotations

from fa4_cute.plan.launch.key_splits import KeySplits, split_candidates


def test_every_sm_gets_as_many_ctas() -> None:
    assert split_candidates(8, 16, 100) == (1, 2, 4, 6, 8)
    assert split_candidates(8, 16, 5) == (1, 2, 4, 5)
    assert split_candidates(100, 16, 9) == (1,)


def test_the_decision_in_words() -> None:
    assert KeySplits(1, "why").text == "1 split of the keys: why"
    assert KeySplits(3, "why").text == "3 splits of the keys: why"

"""CTAs that share rows: who asks while they are under way waits for the rest, who is late not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.timing.judges.asked_first import Shared, run

TWO = Shared(groups=1, sharers=2, near=100, far=140, longer=20, places=2, gap=3)


def test_who_asks_together_waits_together() -> None:
    found = run(TWO)
    assert TWO.waits == 2
    assert [*found.ctas] == [140, 140]
    assert [found.cycles, found.wait] == [143, 20]


def test_who_comes_later_finds_rows_in_the_l2() -> None:
    found = run(Shared(1, 2, 100, 140, 20, places=1, gap=3))
    assert [*found.ctas] == [140, 100]
    assert [found.cycles, found.wait] == [3 + 140 + 3 + 100, 10]


def test_groups_share_nothing() -> None:
    assert [*run(Shared(2, 1, 100, 140, 20, places=1, gap=0)).ctas] == [140, 140]


def test_who_is_between_waits_for_the_rest() -> None:
    """Three in two places: the third begins as the first ends, in step with nobody."""
    found = run(Shared(3, 2, 100, 140, 20, places=3, gap=0))
    # CTAs 0 and 1 share, 2 and 3: 3 begins when 0 ends, all of whose rows have come with 2.
    assert sorted(found.ctas) == [100, 140, 140, 140, 140, 140]


def test_tritons_attention_of_eight_warps() -> None:
    """What was said before an H200 was asked: a wait 300 to 400 cycles beyond the L2, 321 then."""
    found = run(Shared(256, 16, 50120, 61561, 673, 132, 312))
    assert found.cycles + 4083 == pytest.approx(1_798_399, abs=1)
    assert 300 < found.wait < 410
    assert min(found.ctas) == pytest.approx(50120)
    assert max(found.ctas) == pytest.approx(61561)

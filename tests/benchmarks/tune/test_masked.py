"""What a masked key tile costs more: the rows, and what they are made of."""

from __future__ import annotations

import pytest

from benchmarks.tune import masked
from benchmarks.tune.classes import CLASSES
from benchmarks.tune.masked import Masked


def test_a_row_has_cycles_and_shares() -> None:
    one = Masked("d8", (1000, 2000, 4000), (-10, 0, 40), (100, 200, 1200), (500, 500, 500))
    assert one.shares(one.causal) == [0.1, 0.1, 0.3]
    assert one.row() == (
        "| d8 | 2,000 | +0 (-9 to +36): +0% | +200 (+110 to +1,100): +10% "
        "| +500 (+500 to +500): +25% |"
    )


def test_what_is_kept_has_every_class_that_is_named() -> None:
    found = masked.kept()
    assert [one.name for one in found] == [of.name for of in CLASSES if of.name in masked.NAMES]
    assert len(found) == len(masked.NAMES)
    for one in found:
        assert len({len(getattr(one, name)) for name in masked.FIELDS}) == 1
        assert all(cycles > 0 for cycles in one.tile)
        assert one.machine


@pytest.mark.slow
@pytest.mark.parametrize("name", masked.NAMES)
def test_what_is_kept_is_of_the_kernels_of_now(name: str) -> None:
    """`python -m benchmarks.tune.masked --write` predicts them anew."""
    (found,) = (one for one in masked.kept() if one.name == name)
    (of,) = (of for of in CLASSES if of.name == name)
    assert masked.ptx_of(of) == found.ptx


def test_words_that_are_no_option_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        masked.main(["d64"])
    assert ended.value.code == 2
    assert "unrecognized arguments: d64" in capsys.readouterr().err

"""The order of kernels."""

from __future__ import annotations

import pytest

from benchmarks.timing import gemms


def test_rank_correlation_counts_pairs() -> None:
    assert gemms.tau([(1, 10), (2, 20), (3, 30)]) == 1
    assert gemms.tau([(1, 30), (2, 20), (3, 10)]) == -1
    assert gemms.tau([(1, 10), (2, 30), (3, 20)]) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="1 kernels"):
        gemms.tau([(1, 1)])

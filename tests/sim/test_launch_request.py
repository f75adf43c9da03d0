from __future__ import annotations

from typing import Any

import pytest

from sm100sim.launch_request import LaunchRequest


def request(**changes: Any) -> LaunchRequest:
    fields = {"ptx": "", "kernel": "k", "grid": (4, 2, 1), "block": (128, 1, 1)} | changes
    return LaunchRequest(**fields)


def test_defaults_are_a_launch_without_clusters_shared_memory_or_arguments() -> None:
    made = request()
    assert made.cluster == (1, 1, 1)
    assert made.smem_bytes == 0
    assert made.params == ()


@pytest.mark.parametrize("field", ["grid", "block", "cluster"])
@pytest.mark.parametrize("value", [(0, 1, 1), (1, 1), (1, 1, -3), (1.0, 1, 1)])
def test_dimensions_are_three_positive_integers(field: str, value: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=field):
        request(**{field: value})


def test_grid_must_be_a_multiple_of_the_cluster_and_the_error_says_which_is() -> None:
    assert request(cluster=(2, 2, 1)).cluster == (2, 2, 1)
    with pytest.raises(ValueError, match=r"dimension y; nearest grid: 4"):
        request(cluster=(2, 4, 1))


def test_negative_shared_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="smem_bytes=-1"):
        request(smem_bytes=-1)

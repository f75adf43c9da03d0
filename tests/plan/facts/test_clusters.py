"""Clusters that run at once: the published counts follow from the published GPCs."""

from __future__ import annotations

import pytest

from fa4_cute.plan.config.reduce_scatter import MAX_CLUSTER
from fa4_cute.plan.facts.clusters import (
    EXCHANGE_BYTES_PER_CYCLE,
    FEWEST_CLUSTERS,
    GPC_SMS,
    clusters_at_once,
)
from fa4_cute.plan.facts.hardware import SM_COUNT

KNOWN = [(sms, *row) for sms, rows in FEWEST_CLUSTERS.items() for row in rows.items()]


def test_the_counts_of_a_b200_follow_from_its_gpcs() -> None:
    assert sum(GPC_SMS) == SM_COUNT
    for size, fewest in FEWEST_CLUSTERS[SM_COUNT].items():
        assert fewest == sum(sms // size for sms in GPC_SMS)
    assert [clusters_at_once(SM_COUNT, size) for size in (1, 2, 4, 8)] == [148, 74, 33, 15]


@pytest.mark.parametrize("sms", FEWEST_CLUSTERS)
def test_every_size_that_a_kernel_takes_is_known(sms: int) -> None:
    sizes = list(FEWEST_CLUSTERS[sms])
    assert sizes == list(range(2, MAX_CLUSTER + 1))
    fewest = [clusters_at_once(sms, size) for size in sizes]
    assert fewest == sorted(fewest, reverse=True)


@pytest.mark.parametrize(("sms", "size", "fewest"), KNOWN)
def test_a_count_fits_the_device(sms: int, size: int, fewest: int) -> None:
    assert 0 < fewest <= sms // size
    assert clusters_at_once(sms, size) == fewest


def test_of_other_devices_only_pairs_are_known() -> None:
    assert clusters_at_once(132, 2) == 66
    assert clusters_at_once(132, 4) == clusters_at_once(SM_COUNT, 9) == 0


def test_the_worse_end_of_the_rate_comes_first() -> None:
    low, high = EXCHANGE_BYTES_PER_CYCLE
    assert 0 < low <= high

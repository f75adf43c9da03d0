"""Clusters that run at once: the published counts follow from the published GPCs."""

from __future__ import annotations

import pytest

from fa4_cute.plan.config.reduce_scatter import MAX_CLUSTER
from fa4_cute.plan.facts.clusters import (
    ACTIVE_CLUSTERS,
    EXCHANGE_BYTES_PER_CYCLE,
    GPC_SMS,
    ActiveClusters,
    Status,
    clusters_at_once,
)
from fa4_cute.plan.facts.hardware import SM_COUNT

KNOWN = [(sms, row) for sms, rows in ACTIVE_CLUSTERS.items() for row in rows]


def test_the_counts_of_a_b200_follow_from_its_gpcs() -> None:
    assert sum(GPC_SMS) == SM_COUNT
    for row in ACTIVE_CLUSTERS[SM_COUNT]:
        assert row.fewest == sum(sms // row.size for sms in GPC_SMS)
    assert [clusters_at_once(SM_COUNT, size) for size in (1, 2, 4, 8)] == [148, 74, 33, 15]


@pytest.mark.parametrize("sms", ACTIVE_CLUSTERS)
def test_every_size_that_a_kernel_takes_is_known(sms: int) -> None:
    sizes = [row.size for row in ACTIVE_CLUSTERS[sms]]
    assert sizes == list(range(2, MAX_CLUSTER + 1))
    fewest = [clusters_at_once(sms, size) for size in sizes]
    assert fewest == sorted(fewest, reverse=True)


@pytest.mark.parametrize(("sms", "row"), KNOWN)
def test_a_count_fits_the_device_and_says_how_far_it_is_known(
    sms: int, row: ActiveClusters
) -> None:
    assert 0 < row.fewest <= row.most <= sms // row.size
    assert (row.fewest == row.most) == (row.status is Status.PUBLISHED)
    assert clusters_at_once(sms, row.size) == row.fewest
    assert row.source


def test_of_other_devices_only_pairs_are_known() -> None:
    assert clusters_at_once(132, 2) == 66
    assert clusters_at_once(132, 4) == clusters_at_once(SM_COUNT, 9) == 0


def test_the_worse_end_of_the_rate_comes_first() -> None:
    low, high = EXCHANGE_BYTES_PER_CYCLE
    assert 0 < low <= high

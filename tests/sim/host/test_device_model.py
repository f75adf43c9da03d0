from __future__ import annotations

import pytest

from sm100sim.host.device_model import DeviceModel


def test_attributes_describe_a_b200() -> None:
    known = DeviceModel().attributes
    assert (known[75], known[76]) == (10, 0)
    assert known[16] == 148
    assert known[97] == 232_448
    assert known[97] + known[111] == known[81]


def test_the_number_of_sms_can_be_chosen() -> None:
    device = DeviceModel(sm_count=6)
    assert device.attributes[16] == 6
    assert [device.max_active_clusters(n) for n in (1, 2, 4, 8)] == [6, 3, 1, 1]


@pytest.mark.parametrize("size", [0, 17])
def test_cluster_sizes_end_at_sixteen(size: int) -> None:
    with pytest.raises(ValueError, match=f"cluster_size={size}"):
        DeviceModel().max_active_clusters(size)


def test_a_device_has_an_sm() -> None:
    with pytest.raises(ValueError, match="sm_count=0"):
        DeviceModel(sm_count=0)

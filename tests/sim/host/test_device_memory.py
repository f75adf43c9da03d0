from __future__ import annotations

import numpy as np
import pytest

from sm100sim.host.device_memory import label_as_device_memory

torch = pytest.importorskip("torch")


def test_a_labelled_tensor_is_no_longer_host_memory() -> None:
    plain = torch.arange(4.0).__dlpack__()
    assert torch.utils.dlpack.from_dlpack(plain).device.type == "cpu"
    capsule = torch.arange(4.0).__dlpack__()
    label_as_device_memory(capsule)
    with pytest.raises(Exception, match=r"(?i)cuda|device"):
        torch.utils.dlpack.from_dlpack(capsule)


def test_numpys_versioned_capsule_is_labelled_too() -> None:
    capsule = np.arange(4.0).__dlpack__(max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    label_as_device_memory(capsule)
    with pytest.raises(Exception, match=r"(?i)cuda|device"):
        torch.utils.dlpack.from_dlpack(capsule)


@pytest.mark.parametrize("other", [None, (1, 0), "dltensor"])
def test_other_objects_are_left_alone(other: object) -> None:
    label_as_device_memory(other)

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from sm100sim.host.device_memory import DLPACK_CPU, label_as_device_memory

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


@pytest.mark.parametrize("name", [b"used_dltensor", b"another kind of capsule"])
def test_other_capsules_are_left_alone(name: bytes) -> None:
    """A consumer renames its capsule: what it points to is not a tensor of ours any more."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    words = (ctypes.c_int32 * 64)(*[DLPACK_CPU] * 64)  # a tensor in host memory, wherever one looks
    label_as_device_memory(new(ctypes.addressof(words), name, None))
    assert list(words) == [DLPACK_CPU] * 64


def test_what_is_no_capsule_is_left_alone() -> None:
    array = np.arange(4.0)
    label_as_device_memory(array)
    assert torch.utils.dlpack.from_dlpack(array).tolist() == [0.0, 1.0, 2.0, 3.0]

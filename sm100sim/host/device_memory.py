"""Host tensors as device memory.

The DSL compiles a different kernel for a tensor in host memory (generic instead of global
pointers, which some copies refuse).  While the simulator is active the host's memory *is* the
device's, so a tensor handed over through DLPack is labelled as CUDA memory of device 0 and the
kernel compiled is the one a GPU would get.

Layout used: DLPack's ``DLManagedTensor`` begins with ``DLTensor``, whose first fields are
``void *data; struct { int32_t device_type; int32_t device_id; } device``; the versioned form has
``DLPackVersion`` (8 bytes), two pointers and ``uint64_t flags`` before it.
"""

from __future__ import annotations

import ctypes
from typing import Any

DLPACK_CPU = 1
DLPACK_CUDA = 2
CAPSULE_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}
DEVICE_OFFSET = 8

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def label_as_device_memory(capsule: Any) -> None:
    """Make a DLPack capsule of host memory say "CUDA device 0"; others stay as they are."""
    if type(capsule).__name__ != "PyCapsule":
        return
    name = _capsule_name(capsule)
    offset = CAPSULE_OFFSETS.get(name)
    if offset is None:
        return
    device = _capsule_pointer(capsule, name) + offset + DEVICE_OFFSET
    kind, identifier = (ctypes.c_int32.from_address(device + at) for at in (0, 4))
    if kind.value == DLPACK_CPU:
        kind.value, identifier.value = DLPACK_CUDA, 0

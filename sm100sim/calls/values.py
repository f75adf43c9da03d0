"""What a program returned, as a checksum: equal only when every bit is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def checksum(value: Any) -> str:
    """A checksum of the numbers, text, bytes, arrays and CPU tensors in a value; "" without any.

    Tuples, lists and mappings are looked into. Other objects say nothing about values and are left
    out.
    """
    parts = list(_parts(value))
    if not parts:
        return ""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray | np.generic):
        yield f"{value.dtype}{value.shape}".encode()
        yield value.tobytes()
    elif hasattr(value, "untyped_storage"):
        raw = value.detach().cpu().contiguous().reshape(-1).view(_torch_bytes())
        yield f"{value.dtype}{tuple(value.shape)}".encode()
        yield raw.numpy().tobytes()
    elif isinstance(value, bytes | bytearray | memoryview):
        yield bytes(value)
    elif isinstance(value, bool | int | float | complex | str):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(key)
            yield from _parts(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item)


def _torch_bytes() -> Any:
    import torch

    return torch.uint8

"""Every torch function that is asked for device "cuda" takes host memory instead.

Storage that was asked for there is remembered: its tensors say that they are on "cuda", and so do
those that are made from them until they are copied to the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from ..memory import on_device as _on_cuda
from ..run import captures

ALIGNMENT = 256
"""Bytes, of what cudaMalloc gives; torch's host allocator gives 64."""
_CLAIMS = {torch.Tensor.is_cuda: True, torch.Tensor.device: torch.device("cuda", 0)}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_NAMING = (torch.device, torch._C._nn._parse_to)
"""To name a device is not to use it; the second is how modules read the arguments of `to`."""
_COPIES = (torch.Tensor.cuda, torch.Tensor.cpu)
_EMPTY = (torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty)
"""All that a graph can capture of torch: memory whose content nobody has written yet."""


def says_cuda(tensor: Any) -> bool:
    """Whether a tensor's storage was asked for on "cuda"."""
    return type(tensor) in _PLAIN and tensor.untyped_storage() in _on_cuda


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """Tensors among arguments or results, and in their lists and tuples."""
    if type(values) in _PLAIN:
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)


def _names_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return str(value.type) == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _names_cpu(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value) == "cpu"


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, moved to storage of the same size that is aligned as a device's is."""
    storage = tensor.untyped_storage()
    if storage.data_ptr() % ALIGNMENT == 0 or not storage.nbytes():
        return tensor
    usable = storage.nbytes() // tensor.element_size() * tensor.element_size()
    raw = np.empty(usable + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    flat = torch.from_numpy(raw[start : start + usable]).view(tensor.dtype)
    offset = tensor.storage_offset()
    return flat.as_strided(tensor.shape, tensor.stride(), offset).copy_(tensor)


def _storages(values: Any) -> set[int]:
    """The identities of storages: a storage is one Python object for as long as it lives."""
    return {id(tensor.untyped_storage()) for tensor in _tensors(values)}


def _versions(values: Any) -> list[int]:
    """How often each tensor on "cuda" was changed in place."""
    return [tensor._version for tensor in _tensors(values) if says_cuda(tensor)]


def _wrote(given: Any, versions: list[int], result: Any, before: set[int], on_cuda: bool) -> bool:
    """Whether a call changed a tensor on "cuda", or made one."""
    return versions != _versions(given) or (on_cuda and not _storages(result) <= before)


class HostGenerator(torch.Generator):  # type: ignore[misc]  # torch is not typed here
    """A generator of random numbers on any device: the CPU's."""

    def __new__(cls, device: Any = "cpu") -> HostGenerator:
        """Make one, of the CPU."""
        return super().__new__(cls, "cpu")  # type: ignore[no-any-return]  # the same


class HostDevice(TorchFunctionMode):  # type: ignore[misc]  # torch is not typed here
    """Rewrites the device argument of every torch function.

    Args:
        all_tensors: every tensor says that it is on "cuda", those from before too.
    """

    def __init__(self, all_tensors: bool) -> None:
        super().__init__()
        self._all = all_tensors
        self._set_default = torch.set_default_device
        self._default_is_cuda = False

    def set_default_device(self, device: Any) -> None:
        """Stand for torch's function: its own way to "cuda" would pass this mode by."""
        self._default_is_cuda = _names_cuda(device)
        self._set_default("cpu" if self._default_is_cuda else device)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What torch calls in the place of each of its functions."""
        kwargs = dict(kwargs or {})
        of = getattr(func, "__self__", None)
        if of in _CLAIMS and (self._all or says_cuda(args[0])):
            return _CLAIMS[of]
        if func is torch.Tensor.get_device and (self._all or says_cuda(args[0])):
            return 0
        if func in _NAMING:
            return func(*args, **kwargs)
        if func in _COPIES:
            copy = args[0].clone()
            return self._moved(copy) if func is torch.Tensor.cuda or self._all else copy
        given = [*args, *kwargs.values()]
        on_cuda = (
            self._all
            or any(map(_names_cuda, given))
            or (any(map(says_cuda, _tensors(given))) and not any(map(_names_cpu, given)))
        )
        if self._default_is_cuda and kwargs.get("device") is None:
            on_cuda = on_cuda or func in _device_constructors()
        before = _storages(given)  # a view stays where it is, and what is changed in place
        kept = captures() and func not in _EMPTY
        versions = _versions(given) if kept else []
        result = self._on_host(func, args, kwargs)
        if kept and _wrote(given, versions, result, before, on_cuda):
            raise NotImplementedError(
                f"torch.cuda.graph: {func.__name__} inside it; only launches are captured"
            )
        if not on_cuda or _storages(result) <= before:
            return result
        if type(result) is torch.Tensor and not result.requires_grad:
            return self._moved(result)
        for tensor in _tensors(result):
            if id(tensor.untyped_storage()) not in before:
                _on_cuda.add(tensor.untyped_storage())
        return result

    @staticmethod
    def _moved(tensor: torch.Tensor) -> torch.Tensor:
        """A new tensor, on "cuda"."""
        tensor = _aligned(tensor)
        _on_cuda.add(tensor.untyped_storage())
        return tensor

    def _on_host(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The function's result, in memory of the host; a copy where it would have moved."""
        given = [*args, *kwargs.values()]
        to_cuda = any(map(_names_cuda, given))
        if to_cuda:
            args = tuple("cpu" if _names_cuda(value) else value for value in args)
            kwargs = {name: "cpu" if _names_cuda(v) else v for name, v in kwargs.items()}
        to_cpu = says_cuda(given[0] if given else None) and any(map(_names_cpu, given))
        if func is torch.Tensor.to and (to_cuda or to_cpu):
            kwargs["copy"] = True
        return func(*args, **kwargs)

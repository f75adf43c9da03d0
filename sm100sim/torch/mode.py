"""Every torch function that is asked for device "cuda" takes host memory instead.

A tensor that was asked for there says so: ``is_cuda``, ``device``, and so does what is made from it
until it is copied to the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

ALIGNMENT = 256
"""Bytes, of what cudaMalloc gives; torch's host allocator gives 64."""
_MARK = "_sm100sim_cuda"
_CLAIMS = {torch.Tensor.is_cuda: True, torch.Tensor.device: torch.device("cuda", 0)}
_NAMING = (torch.device, torch._C._nn._parse_to)
"""To name a device is not to use it; the second is how modules read the arguments of `to`."""
_COPIES = (torch.Tensor.cuda, torch.Tensor.cpu)


def is_marked(tensor: Any) -> bool:
    """Whether a tensor was asked for on "cuda"."""
    return isinstance(tensor, torch.Tensor) and _MARK in tensor.__dict__


def _mark(tensor: torch.Tensor, on_cuda: bool) -> None:
    if on_cuda:
        tensor.__dict__[_MARK] = True
    else:
        tensor.__dict__.pop(_MARK, None)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """Tensors among arguments or results, and in their lists and tuples."""
    if isinstance(values, torch.Tensor):
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
    """The tensor, moved to storage that is aligned as a device's is."""
    storage = tensor.untyped_storage()
    if storage.data_ptr() % ALIGNMENT == 0 or not storage.nbytes():
        return tensor
    raw = torch.empty(storage.nbytes() + ALIGNMENT, dtype=torch.uint8)
    start = -raw.data_ptr() % ALIGNMENT
    usable = storage.nbytes() // tensor.element_size() * tensor.element_size()
    flat = raw[start : start + usable].view(tensor.dtype)
    offset = flat.storage_offset() + tensor.storage_offset()
    return flat.as_strided(tensor.shape, tensor.stride(), offset).copy_(tensor)


def _storages(values: Iterable[Any]) -> set[int]:
    return {v.untyped_storage().data_ptr() for v in values if type(v) is torch.Tensor}


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
        if of in _CLAIMS and (self._all or is_marked(args[0])):
            return _CLAIMS[of]
        if func in _NAMING:
            return func(*args, **kwargs)
        if func in _COPIES:
            copy = _aligned(args[0].clone())
            _mark(copy, func is torch.Tensor.cuda)
            return copy
        given = [*args, *kwargs.values()]
        on_cuda = any(map(_names_cuda, given)) or (
            any(map(is_marked, _tensors(given))) and not any(map(_names_cpu, given))
        )
        if self._default_is_cuda and kwargs.get("device") is None:
            on_cuda = on_cuda or func in _device_constructors()
        result = self._on_host(func, args, kwargs)
        stay = {id(tensor) for tensor in _tensors(given)}  # what is changed in place
        for tensor in _tensors(result):
            if id(tensor) not in stay:
                _mark(tensor, on_cuda)
        if func == torch.Tensor.data.__set__:  # a module's parameters move like this
            _mark(args[0], is_marked(args[1]))
        return result

    def _on_host(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The function's result, in memory of the host; a copy where it would have moved."""
        given = [*args, *kwargs.values()]
        to_cuda = any(map(_names_cuda, given))
        if to_cuda:
            args = tuple("cpu" if _names_cuda(value) else value for value in args)
            kwargs = {name: "cpu" if _names_cuda(v) else v for name, v in kwargs.items()}
        to_cpu = is_marked(given[0] if given else None) and any(map(_names_cpu, given))
        if func is torch.Tensor.to and (to_cuda or to_cpu):
            kwargs["copy"] = True
        result = func(*args, **kwargs)
        if type(result) is not torch.Tensor or result.requires_grad:
            return result
        is_view = result.untyped_storage().data_ptr() in _storages([*args, *kwargs.values()])
        return result if is_view else _aligned(result)

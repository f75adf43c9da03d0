"""Let a program written for CUDA tensors allocate on the host, where the virtual SM100 runs.

Inside :func:`cuda_tensors_on_host` every torch call which asks for device "cuda" gets host memory,
copies between the two stay copies, and ``torch.cuda`` describes the virtual device.  Only meant for
running published examples unmodified; it changes what this process's torch says about itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from cuda.bindings import driver
from torch.overrides import TorchFunctionMode

NULL_STREAM = SimpleNamespace(
    cuda_stream=0, synchronize=lambda: None, wait_stream=lambda _other: None
)
COPIES = (torch.Tensor.cuda, torch.Tensor.cpu)
CLAIMS = {torch.Tensor.is_cuda: True, torch.Tensor.device: torch.device("cuda", 0)}
ALIGNMENT = 256  # of cudaMalloc; torch's host allocator gives 64
CAPABILITIES = {"sm_100a": (10, 0), "sm_90a": (9, 0)}
"""Target of the DSL -> compute capability of the device that `cuda_tensors_on_host` pretends."""


def target() -> str:
    """The architecture that the DSL compiles for: ``CUTE_DSL_ARCH``, or sm_100a.

    Raises:
        ValueError: the simulator runs no such code.
    """
    name = os.environ.get("CUTE_DSL_ARCH", "sm_100a")
    if name not in CAPABILITIES:
        raise ValueError(f"CUTE_DSL_ARCH={name!r}: expected one of {', '.join(CAPABILITIES)}")
    return name


class _Event:
    """Stands for ``torch.cuda.Event``; nothing is timed."""

    def __init__(self, **_options: Any) -> None: ...

    def record(self, *_stream: Any) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, _end: Any) -> float:
        return 1.0


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, moved to storage aligned as a device allocation is."""
    storage = tensor.untyped_storage()
    if storage.data_ptr() % ALIGNMENT == 0 or not storage.nbytes():
        return tensor
    raw = torch.empty(storage.nbytes() + ALIGNMENT, dtype=torch.uint8)
    start = -raw.data_ptr() % ALIGNMENT
    usable = storage.nbytes() // tensor.element_size() * tensor.element_size()
    flat = raw[start : start + usable].view(tensor.dtype)
    offset = flat.storage_offset() + tensor.storage_offset()
    return flat.as_strided(tensor.shape, tensor.stride(), offset).copy_(tensor)


def _storages(values: Any) -> set[int]:
    return {v.untyped_storage().data_ptr() for v in values if type(v) is torch.Tensor}


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return str(value.type) == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class _HostDevice(TorchFunctionMode):
    """Rewrites the device argument of every torch function.

    With ``claim_cuda`` every tensor says that it is a CUDA tensor, for programs that insist.
    """

    def __init__(self, claim_cuda: bool) -> None:
        super().__init__()
        self.claim_cuda = claim_cuda

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        of = getattr(func, "__self__", None)
        if self.claim_cuda and of in CLAIMS:
            return CLAIMS[of]
        if func is torch.device:  # naming a device is not using it
            return func(*args, **kwargs)
        if func in COPIES:
            return _aligned(args[0].clone())
        moved = any(map(_is_cuda, args)) or _is_cuda(kwargs.get("device"))
        if moved:
            args = tuple("cpu" if _is_cuda(value) else value for value in args)
            if "device" in kwargs:
                kwargs["device"] = "cpu"
            if func is torch.Tensor.to:
                kwargs["copy"] = True
        result = func(*args, **kwargs)
        if type(result) is not torch.Tensor or result.requires_grad:
            return result
        is_view = result.untyped_storage().data_ptr() in _storages([*args, *kwargs.values()])
        return result if is_view else _aligned(result)


@contextlib.contextmanager
def cuda_tensors_on_host(sm_count: int, *, claim_cuda: bool = False) -> Iterator[None]:
    """Run the body with CUDA tensors on the host and the ``torch.cuda`` of a GPU of `target`."""
    capability = CAPABILITIES[target()]
    properties = SimpleNamespace(
        major=capability[0], minor=capability[1], multi_processor_count=sm_count,
        name=f"virtual {target()}", L2_cache_size=2**27,
    )  # fmt: skip
    answers = {
        "is_available": lambda: True,
        "synchronize": lambda *_: None,
        "current_stream": lambda *_: NULL_STREAM,
        "default_stream": lambda *_: NULL_STREAM,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "set_device": lambda *_: None,
        "empty_cache": lambda: None,
        "manual_seed": lambda *_: None,
        "get_device_capability": lambda *_: capability,
        "get_device_properties": lambda *_: properties,
        "get_device_name": lambda *_: properties.name,
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        stack.enter_context(mock.patch.object(torch.cuda, "Event", _Event))
        stack.enter_context(mock.patch.object(torch.cuda, "Stream", return_value=NULL_STREAM))
        no_error = driver.CUresult.CUDA_SUCCESS
        for name, result in {"cuInit": (no_error,), "cuDeviceGetCount": (no_error, 1)}.items():
            stack.enter_context(mock.patch.object(driver, name, return_value=result))
        stack.enter_context(_HostDevice(claim_cuda))
        yield

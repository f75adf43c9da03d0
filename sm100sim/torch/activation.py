"""What ``torch.cuda`` answers while tensors on "cuda" are in host memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ..host.device_model import DEFAULT_SM_COUNT, DeviceModel

CAPABILITIES = (90, 100)
"""Compute capabilities that the device may have, times ten."""
TOOLKIT = "13.0"
"""What `torch.version.cuda` says; programs ask it which vendor's device there is."""
_active: list[AbstractContextManager[None]] = []


class _Event:
    """Stands for `torch.cuda.Event`; nothing is timed."""

    def __init__(self, **_options: Any) -> None: ...

    @property
    def cuda_event(self) -> int:
        """A handle; what waits for it waits for nothing, since work is done when asked for."""
        return id(self)

    def query(self) -> bool:
        return True

    def record(self, *_stream: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait(self, *_stream: Any) -> None: ...

    def elapsed_time(self, _end: Any) -> float:
        return 1.0


class _Stream:
    """Stands for `torch.cuda.Stream`, which annotations name; work is done when asked for."""

    cuda_stream = 0

    def __init__(self, *_where: Any, **_options: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, _other: Any) -> None: ...

    def wait_event(self, _event: Any) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()


class _Device(nullcontext[None]):
    """Stands for `torch.cuda.device`: there is one."""

    def __init__(self, _device: Any = None) -> None:
        super().__init__()


NULL_STREAM = _Stream()


def _answers(capability: tuple[int, int], sm_count: int) -> dict[str, Any]:
    """Functions of `torch.cuda`: one device, one stream, nothing to wait for."""
    from ..run import captures
    from .graphs import Graph, capturing

    name = f"virtual sm_{capability[0]}{capability[1]}a"
    facts = DeviceModel(sm_count=sm_count).attributes
    properties = SimpleNamespace(
        major=capability[0], minor=capability[1], multi_processor_count=sm_count, name=name,
        L2_cache_size=2**27, warp_size=facts[10], max_threads_per_multi_processor=facts[39],
        regs_per_multiprocessor=facts[82], shared_memory_per_block=facts[8],
        shared_memory_per_block_optin=facts[97], shared_memory_per_multiprocessor=facts[81],
    )  # fmt: skip

    def always(value: Any = None) -> Callable[..., Any]:
        return lambda *_args, **_kwargs: value

    return {
        "is_available": always(True),
        "is_initialized": always(True),
        "init": always(),
        "synchronize": always(),
        "current_stream": always(NULL_STREAM),
        "default_stream": always(NULL_STREAM),
        "current_device": always(0),
        "device_count": always(1),
        "set_device": always(),
        "empty_cache": always(),
        "manual_seed": always(),
        "manual_seed_all": always(),
        "get_device_capability": always(capability),
        "get_device_properties": always(properties),
        "get_device_name": always(name),
        "Event": _Event,
        "Stream": _Stream,
        "stream": always(nullcontext()),
        "device": _Device,
        "CUDAGraph": Graph,
        "graph": capturing,
        "graph_pool_handle": always((0, 0)),
        "is_current_stream_capturing": captures,
    }


@contextmanager
def on_host(
    *, capability: int = 100, sm_count: int = DEFAULT_SM_COUNT, all_tensors: bool = False
) -> Iterator[None]:
    """Inside the block tensors on "cuda" are in host memory, and there is a virtual device.

    What is asked for on "cuda" by any torch function of this thread gets memory of the CPU,
    aligned as a device's is; copies between the two stay copies.

    Args:
        capability: compute capability of the device, times ten: 100 or 90.
        sm_count: its streaming multiprocessors.
        all_tensors: every tensor says that it is on "cuda", not only those that were asked for
            there; for functions that insist, given tensors of the CPU.

    Raises:
        ValueError: another capability.
    """
    if capability not in CAPABILITIES:
        raise ValueError(f"capability: {capability} is not one of {CAPABILITIES}; nearest: 100")
    import torch

    from .mode import HostDevice, HostGenerator

    with ExitStack() as stack:
        for name, answer in _answers(divmod(capability, 10), sm_count).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        stack.enter_context(mock.patch.object(torch.version, "cuda", TOOLKIT))
        mode = stack.enter_context(HostDevice(all_tensors))
        default = mock.patch.object(torch, "set_default_device", mode.set_default_device)
        stack.enter_context(default)
        stack.enter_context(mock.patch.object(torch, "Generator", HostGenerator))
        yield


def activate(*, capability: int = 100, sm_count: int = DEFAULT_SM_COUNT) -> None:
    """Put this thread's tensors on "cuda" into host memory from now on; see `on_host`.

    Raises:
        ValueError: another capability.
    """
    if not _active:
        block = on_host(capability=capability, sm_count=sm_count)
        block.__enter__()
        _active.append(block)


def deactivate() -> None:
    """Give torch its own answers back."""
    if _active:
        _active.pop().__exit__(None, None, None)

"""CUDA tensors of published programs on the host, for the architecture that the DSL compiles for.

:func:`sm100sim.torch.on_host` does it; here the device follows ``CUTE_DSL_ARCH``, and programs that
ask cuda-python for a device are told that there is one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from unittest import mock

from cuda.bindings import driver

from sm100sim.torch import on_host

CAPABILITIES = {"sm_100a": 100, "sm_90a": 90}
"""Target of the DSL -> compute capability of the device, times ten."""


def target() -> str:
    """The architecture that the DSL compiles for: ``CUTE_DSL_ARCH``, or sm_100a.

    Raises:
        ValueError: the simulator runs no such code.
    """
    name = os.environ.get("CUTE_DSL_ARCH", "sm_100a")
    if name not in CAPABILITIES:
        raise ValueError(f"CUTE_DSL_ARCH={name!r}: expected one of {', '.join(CAPABILITIES)}")
    return name


@contextlib.contextmanager
def cuda_tensors_on_host(sm_count: int, *, claim_cuda: bool = False) -> Iterator[None]:
    """Run the body with CUDA tensors on the host and the ``torch.cuda`` of a GPU of `target`.

    Args:
        claim_cuda: every tensor says that it is a CUDA tensor, for programs that insist.
    """
    no_error = driver.CUresult.CUDA_SUCCESS
    answers = {"cuInit": (no_error,), "cuDeviceGetCount": (no_error, 1)}
    with contextlib.ExitStack() as stack:
        for name, result in answers.items():
            stack.enter_context(mock.patch.object(driver, name, return_value=result))
        capability = CAPABILITIES[target()]
        stack.enter_context(
            on_host(capability=capability, sm_count=sm_count, all_tensors=claim_cuda)
        )
        yield

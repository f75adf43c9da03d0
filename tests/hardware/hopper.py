"""What tests need that run on Hopper GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
import torch

from fa4_cute.host.ask import request
from fa4_cute.plan.facts.hardware import SM90A

SMS = 132
"""Of an H100 SXM and an H200."""


def needs_hopper(count: int = 1) -> pytest.MarkDecorator:
    """Skip where there are fewer than ``count`` CUDA devices of compute capability 9.0."""
    return pytest.mark.skipif(
        torch.cuda.device_count() < count or torch.cuda.get_device_capability() != (9, 0),
        reason=f"CUDA devices of compute capability 9.0 that it needs: {count}",
    )


on_hopper = needs_hopper()


@contextmanager
def as_on_hopper() -> Iterator[None]:
    """Have calls on any tensors take the kernels that an H100 would run."""
    with (
        mock.patch.object(request, "arch_for", return_value=SM90A),
        mock.patch.object(request, "num_sms_of", return_value=SMS),
    ):
        yield

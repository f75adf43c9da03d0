"""What tests need that run on Hopper GPUs."""

from __future__ import annotations

import pytest
import torch


def needs_hopper(count: int = 1) -> pytest.MarkDecorator:
    """Skip where there are fewer than ``count`` CUDA devices of compute capability 9.0."""
    return pytest.mark.skipif(
        torch.cuda.device_count() < count or torch.cuda.get_device_capability() != (9, 0),
        reason=f"CUDA devices of compute capability 9.0 that it needs: {count}",
    )


on_hopper = needs_hopper()

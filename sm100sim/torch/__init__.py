"""PyTorch tensors on "cuda" without a GPU: in host memory, where CuTe DSL and Triton kernels run.

``sm100sim.torch.activate()``, or ``with sm100sim.torch.on_host():`` for a while.
"""

from __future__ import annotations

from .activation import activate, deactivate, on_host

__all__ = ["activate", "deactivate", "on_host"]

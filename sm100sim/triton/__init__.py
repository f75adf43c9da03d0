"""Triton and Gluon kernels on the virtual SM100.

``sm100sim.triton.activate()`` puts it in the place of Triton's CUDA driver, so that
``kernel[grid]`` with CPU tensors runs here. Triton compiles as for a B200, with its own ptxas.
"""

from __future__ import annotations

from .activation import activate, deactivate, last_report

__all__ = ["activate", "deactivate", "last_report"]

"""Shared memory of the attention kernels: ``SM100AttentionSMem`` (seed 000).

The layout is pure arithmetic, so that hosts, tests and pictures use it without the DSL; the device
adds the base address and nothing else.
"""

from __future__ import annotations

from .plan.memory.smem_layout import SM100AttentionSMem

__all__ = ["SM100AttentionSMem"]

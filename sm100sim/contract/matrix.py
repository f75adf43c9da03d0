"""What the lowering and the engine call the parts of mma.sync."""

from __future__ import annotations

from enum import IntFlag

from .codes import WGMMA_ELEMENTS


class SyncFlag(IntFlag):
    """Optional parts of mma.sync.  ORDERED: metadata; EXCLUSIVE: .xor of single bits, not .and."""

    SATURATE = 1
    SPARSE = 2
    ORDERED = 4
    EXCLUSIVE = 8


SYNC_ELEMENTS = (*WGMMA_ELEMENTS, "u4", "s4", "f64", "b1")
"""Types of A and B of mma.sync."""

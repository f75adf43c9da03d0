"""How often an access goes through shared memory, and how many pieces of global memory it touches.

Shared memory serves 32 banks of four bytes a pass. Lanes that move 8 or 16 bytes are served in
halves or quarters of the warp, each at least one pass; lanes that read one word share it (CUDA C++
programming guide, "Shared Memory", and published measurements, docs/sources.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BANKS, BANK_BYTES, SECTOR = 32, 4, 32
PASS_BYTES = BANKS * BANK_BYTES
Addresses = npt.NDArray[np.uint64]


def wavefronts(addresses: Addresses, lanes: int, width: int) -> int:
    """Return the passes of one access to shared memory.

    Args:
        addresses: byte addresses of the active lanes.
        lanes: the active lanes, a bit each. width: bytes of a lane.
    """
    each = max(1, min(BANKS, PASS_BYTES // max(width, BANK_BYTES)))
    numbers = np.flatnonzero([lanes >> k & 1 for k in range(BANKS)])
    total = 0
    for group in np.unique(numbers // each):
        first = addresses[numbers // each == group] // BANK_BYTES
        words = np.unique(first[:, None] + np.arange(max(1, width // BANK_BYTES), dtype=np.uint64))
        total += int(np.bincount((words % BANKS).astype(np.int64)).max())
    return total


def pieces(addresses: Addresses, width: int) -> tuple[int, ...]:
    """Return the 32-byte pieces of global memory that lanes touch, each with `width` bytes."""
    first, last = addresses // SECTOR, (addresses + np.uint64(width - 1)) // SECTOR
    reach = int((last - first).max()) + 1
    spans = first[:, None] + np.arange(reach, dtype=np.uint64)
    return tuple(np.unique(spans[spans <= last[:, None]]).tolist())

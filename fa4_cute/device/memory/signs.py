"""Change the sign of 16-bit floats in shared memory, in place."""

from cutlass import Int32

from ...plan.facts.hardware import UNIT_BYTES, WARP_GROUP_THREADS
from ..lanes import row_in_group
from . import shared

_BOTH_SIGNS = -0x7FFF8000
"""The sign bits of two 16-bit floats, as a signed number."""


def flip_signs(start: Int32, num_bytes: int) -> None:
    """Negate ``num_bytes`` of 16-bit floats from the 16-byte aligned ``start`` on. A warp group."""
    first = start + row_in_group() * UNIT_BYTES
    for offset in range(0, num_bytes, WARP_GROUP_THREADS * UNIT_BYTES):
        words = shared.load_f32x4(first + offset)
        shared.store_v4(first + offset, [word.bitcast(Int32) ^ _BOTH_SIGNS for word in words])

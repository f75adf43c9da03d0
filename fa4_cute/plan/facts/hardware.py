"""Facts of one SM100 (B200) streaming multiprocessor that the plans rest on.

Sources: CUDA programming guide (shared memory, registers), PTX ISA sections "Tensor Memory",
"tcgen05 matrix descriptors" and "mbarrier", and ``docs/sources.md`` section 1.
All sizes are bytes unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

SM100A: Final = "sm_100a"
SM90A: Final = "sm_90a"
"""Architectures that kernels are compiled for, as the compiler names them."""

SM_COUNT: Final = 148
"""Multiprocessors of a B200; a launch on the simulator plans for as many. A GPU is asked."""

SMEM_PER_SM: Final = 228 * 1024
SMEM_RESERVED_PER_CTA: Final = 1024
SMEM_CAPACITY: Final = SMEM_PER_SM - SMEM_RESERVED_PER_CTA
"""Dynamic shared memory that one CTA may ask for: 232,448 bytes."""

TMEM_COLUMNS: Final = 512
TMEM_LANES: Final = 128
TMEM_COLUMN_BYTES: Final = 4
TMEM_LANE_SHIFT: Final = 16
"""A Tensor Memory address is ``lane << 16 | column``."""

REGISTERS_PER_SM: Final = 65536
SETMAXNREG_STEP: Final = 8
SETMAXNREG_RANGE: Final = (24, 256)

WARP_THREADS: Final = 32
WARP_GROUP_THREADS: Final = 128
WARPS_PER_GROUP: Final = WARP_GROUP_THREADS // WARP_THREADS

MBARRIER_BYTES: Final = 8
CTA_GROUP: Final = 2
"""CTAs of a pair, which share an MMA: `cta_group::2`."""
MAX_MBARRIERS: Final = 2 * WARP_THREADS
"""One warp initialises the barriers, one per lane, in at most two waves."""

TMEM_ADDRESS_BYTES: Final = 4
"""``tcgen05.alloc`` writes its 32-bit result to shared memory."""

MMA_K_BYTES: Final = 32
"""Bytes of K that one ``tcgen05.mma`` of a dense kind consumes per row."""
UMMA_MAX_N: Final = 256

LOAD_VECTORS: Final = (32, 16)
"""Bytes that a thread loads at once, the most first, each aligned to its size (PTX ISA, "ld"; eight
words need sm_100)."""
ADDRESS_ALIGN: Final = LOAD_VECTORS[0]
"""What addresses of calls are told apart by: no load asks for more."""
TMA_ALIGN: Final = 16
"""Global strides and bases of a tensor map are multiples of 16 bytes."""
TENSOR_MAP_ALIGN: Final = 64
"""A tensor map itself lies at a multiple of 64 bytes."""


class SwizzleMode(Enum):
    """Shared-memory swizzle of a tile; the value is the span in bytes (16 = not swizzled)."""

    NONE = 16
    B32 = 32
    B64 = 64
    B128 = 128

    @property
    def bytes(self) -> int:
        """Width of one column chunk of a tile, in bytes."""
        return self.value

    @property
    def descriptor_code(self) -> int:
        """Bits 61-63 of the matrix descriptor (PTX ISA, "Shared memory descriptor")."""
        return {16: 0, 32: 6, 64: 4, 128: 2}[self.value]

    @property
    def pattern_bytes(self) -> int:
        """Bytes after which the pattern repeats: the alignment a swizzled operand needs."""
        return {16: 128, 32: 256, 64: 512, 128: 1024}[self.value]


OUTPUT_SWIZZLE: Final = SwizzleMode.B128
"""Swizzle of staged O tiles, whatever the operands' is: chunks of 64 columns of 16 bits."""
L2_LINE_BYTES: Final = 128
"""Bytes of a cache line of the L2, of which a part may be fetched alone."""
UNIT_BYTES: Final = 16
"""Bytes of a row that every swizzle moves as a whole."""
VECTOR_COLUMNS: Final = 4
"""Columns of a 16-byte access to float32."""


def align_up(value: int, unit: int) -> int:
    """Return the smallest multiple of ``unit`` that is not below ``value``."""
    return -(-value // unit) * unit


def align_down(value: int, unit: int) -> int:
    """Return the largest multiple of ``unit`` that is not above ``value``."""
    return value // unit * unit


def ceil_div(value: int, unit: int) -> int:
    """Return ``value / unit`` rounded up."""
    return -(-value // unit)


def prev_pow2(value: int) -> int:
    """Return the largest power of two that is not above ``value`` (``value >= 1``)."""
    return 1 << (value.bit_length() - 1)


def are_whole_cache_lines(row_bytes: Iterable[int]) -> bool:
    """Return whether rows of so many bytes are whole cache lines, so that heads share none."""
    return not any(size % L2_LINE_BYTES for size in row_bytes)


def divide_cache_lines(row_bytes: Iterable[int]) -> bool:
    """Return whether rows of so many bytes begin and end where cache lines do, or lie in one."""
    return all(size % L2_LINE_BYTES == 0 or L2_LINE_BYTES % size == 0 for size in row_bytes)

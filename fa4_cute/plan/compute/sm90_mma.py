"""The two products of the Hopper kernel, from its configuration.

P V is one product, or several of neighbouring columns of O, one after the other: see
``plan.config.sm90_tiles``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..config.sm90_config import SM90Config
from ..facts.hardware import align_up, ceil_div
from ..facts.umma import SmemOperand
from ..facts.wgmma import WGMMA_ROWS, WgmmaPlan, column_registers, padded_columns


def qk_plan(config: SM90Config) -> WgmmaPlan:
    """S = Q K': 64 rows of Q and the keys of a tile, both K-major in shared memory."""
    dtype, depth, swizzle = config.qkv_dtype, config.padded_depth, config.swizzle_mode
    q = SmemOperand(dtype, WGMMA_ROWS, depth, swizzle)
    k = SmemOperand(dtype, config.BN, depth, swizzle)
    return WgmmaPlan(dtype, config.BN, align_up(config.depth, dtype.mma_k), k, q)


def pv_plan(config: SM90Config) -> WgmmaPlan:
    """O += P V: P in registers, V in shared memory, MN-major unless it was transposed."""
    in_rows = config.transposes_values
    swizzle = config.transposed_swizzle if in_rows else config.value_swizzle
    columns = config.padded_ov_depth
    v = SmemOperand(config.qkv_dtype, columns, config.BN, swizzle, mn_major=not in_rows)
    return WgmmaPlan(config.qkv_dtype, padded_columns(config.ov_depth), config.BN, v)


@dataclass(frozen=True)
class ColumnBlock:
    """Columns of O that are multiplied together.

    Attributes:
        first: the first of them.
        columns: how many are columns of O.
        plan: their product; its B starts ``first_byte`` into the slot. All blocks have as many
            columns: where sums of two sizes share registers, ptxas waits after each product. What
            the last one has beyond O comes from the padding of V.
    """

    first: int
    columns: int
    plan: WgmmaPlan

    @property
    def first_byte(self) -> int:
        """Where their V starts in a slot of transposed V, whose rows are columns."""
        return self.first * self.plan.b.swizzle.bytes

    @property
    def registers(self) -> slice:
        """Their registers among those of O."""
        return column_registers(self.first, self.first + self.columns)

    @property
    def added(self) -> slice:
        """Those of the product's registers that are added to O."""
        return column_registers(0, self.columns)


def column_blocks(config: SM90Config) -> tuple[ColumnBlock, ...]:
    """Return the blocks of columns of O that are multiplied one after the other."""
    whole, depth = pv_plan(config), config.ov_depth
    num_blocks = ceil_div(depth, config.tile.columns or depth)
    width = padded_columns(ceil_div(depth, num_blocks))
    return tuple(
        ColumnBlock(first, min(width, whole.n - first), replace(whole, n=width))
        for first in range(0, whole.n, width)
    )

"""Scores of one row per thread: from Tensor Memory to masked registers and their maximum."""

from dataclasses import dataclass

from cutlass import Float32, Int32

from .device import softmax as rows
from .device import tmem
from .device.mask import mask_columns
from .plan.column_plan import ColumnPlan


def load_columns(line, columns: range) -> list[Float32]:
    """Start loading ``columns`` of S; ``line.scores`` is its address in the warp's lanes."""
    return tmem.load(line.scores + columns.start, len(columns))


@dataclass(frozen=True)
class TileLimits:
    """Visible columns of one key tile: for the thread's row, and for the first row of its warp."""

    row: Int32
    warp: Int32


def masked(values: list[Float32], columns: range, limits: TileLimits) -> list[Float32]:
    """Wait for ``values`` and mask those of ``columns`` that the row does not see."""
    return mask_columns(tmem.wait_loads(values), columns.start, limits.row, limits.warp)


def scores_and_max(
    line, columns: ColumnPlan, row_max: Float32, limits: TileLimits
) -> tuple[list[Float32], Float32]:
    """Return the resident scores and the maximum of the row and ``row_max``."""
    loads = columns.loads
    resident: list[Float32] = []
    pending = load_columns(line, loads[0])
    for i, span in enumerate(loads):
        values = masked(pending, span, limits)
        if i + 1 < len(loads):
            pending = load_columns(line, loads[i + 1])
        row_max = rows.tile_max(values, row_max)
        if span.start < columns.resident:
            resident += values
    return resident, row_max

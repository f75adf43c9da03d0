"""Rescaling of an accumulator row in Tensor Memory."""

from cutlass import Float32, Int32

from ..memory import tmem
from .arith import mul2

RESCALE_COLUMNS = 16
"""Columns of O in flight: two batches fit the correction role's register budget."""


def rescale_columns(start: Int32, columns: int, factor: Float32) -> None:
    """Multiply ``columns`` columns of the calling thread's lane by ``factor``.

    Loads run one batch of columns ahead of the multiplications.
    """
    width = min(RESCALE_COLUMNS, columns)
    batches = range(0, columns, width)
    pending = tmem.load(start, width)
    for column in batches:
        values = tmem.wait_loads(pending)
        if column + width < batches.stop:
            next_width = min(width, batches.stop - column - width)
            pending = tmem.load(start + (column + width), next_width)
        scaled = [
            half
            for i in range(0, len(values), 2)
            for half in mul2((values[i], values[i + 1]), (factor, factor))
        ]
        tmem.store(start + column, scaled)
    tmem.wait_stores()

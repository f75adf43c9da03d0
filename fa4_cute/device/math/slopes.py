"""Scores less a slope times the distance of the key (ALiBi), in registers.

Distances are differences of whole numbers below 2**24, exact in float32, so that a key at distance
0 loses nothing whatever the slope.
"""

from collections.abc import Sequence

from cutlass import Float32, Int32

from ...plan.facts.wgmma import Columns
from ..ptx import emit, f32
from .arith import F32x2, add2, fma, fma2

_STEP = 2
"""Columns from one packed pair to the next."""


def with_distances(
    scores: Sequence[Float32], columns: Columns, first: Float32, slope: Float32, *, packed: bool
) -> list[Float32]:
    """Return ``scores + slope * (first - column)``.

    Args:
        scores: one for each of ``columns``.
        columns: their columns; neighbours, and an even number of them, where ``packed``.
        first: keys from column 0 of the tile to the row's own.
        slope: what is added for each key of distance.
        packed: the device has packed floats.
    """
    if not packed:
        return [
            fma(first + Float32(-float(columns[i])), slope, score)
            for i, score in enumerate(scores)
        ]
    found: list[Float32] = []
    # From pair to pair: constants of each pair would be a move each.
    away = _pair_at(first, columns[0])
    for i in range(0, len(scores), _STEP):
        if i:
            away = add2(away, (Float32(-_STEP), Float32(-_STEP)))
        found += fma2(away, (slope, slope), (scores[i], scores[i + 1]))
    return found


def _pair_at(first: Float32, column: int) -> F32x2:
    low, high = (Float32(-float(column + i)) for i in range(_STEP))
    return first + low, first + high


def turned_behind(
    scores: Sequence[Float32], columns: Columns, first: Float32, slope: Float32, is_past: Int32
) -> list[Float32]:
    """Return what :func:`with_distances` gave, with ``slope * |first - column|`` in every column.

    It counted keys after the row's own as nearer than that. A branch skips what puts them right.

    Args:
        scores, columns, first, slope: as there.
        is_past: 0 where no row of the warp has keys of the tile after its own; the same in all
            threads of the warp.

    DSL: as for ``mask.mask_columns``.
    """
    count = len(scores)
    at, twice, past = (f"${2 * count + i}" for i in range(3))
    lines = [f"setp.eq.s32 skip, {past}, 0;", "@skip bra BEFORE;"]
    for i in range(count):
        lines += [
            f"add.rn.f32 away, {at}, {f32(-float(columns[i]))};",
            f"min.f32 away, away, {f32(0.0)};",
            f"fma.rn.ftz.f32 ${i}, away, {twice}, ${count + i};",
        ]
    text = "{\n\t.reg .pred skip;\n\t.reg .f32 away;\n\t"
    text += "\n\t".join(lines) + "\nBEFORE:\n\t}"
    operands = (*scores, first, slope * Float32(-2.0), is_past)
    return emit(text, (Float32,) * count, operands, tied=count)

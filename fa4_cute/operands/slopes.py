"""ALiBi: raw scores less a slope for each key of distance, where nothing else changes scores.

The softmax scale enters with the exponential, as it does of scores that nothing changes: slopes are
divided by it, once for each row.
"""

import cutlass
from cutlass import Boolean, Float32, Int32

from ..device.math.slopes import turned_behind, with_distances
from ..plan.facts.wgmma import Columns
from ..work.context import AttentionContext
from ..work.row import ThreadRow


def sloped(
    ctx: AttentionContext,
    row: ThreadRow,
    values: list[Float32],
    columns: Columns,
    keys: tuple[Int32, Int32],
) -> list[Float32]:
    """Return the raw scores ``values`` of ``columns`` less the row's slope times the distance.

    Args:
        ctx, row: the CTA and the row.
        values: one score for each of ``columns``, of one key tile.
        columns: counted from the thread's first.
        keys: that of its first column, and that of the tile's, which the warp's threads share.
    """
    own_key, tile_key = keys
    first, slope = Float32(row.place - own_key), row.slope
    packed = ctx.spec.packs_floats
    if ctx.spec.variant.changes.look_back:
        return with_distances(values, columns, first, slope, packed=packed)
    # The sign of a distance is that of the warp's tile: behind all its rows, or not.
    lowest, highest = row.places
    is_behind = tile_key > highest
    slope = Float32(cutlass.select_(is_behind, -slope, slope))
    values = with_distances(values, columns, first, slope, packed=packed)
    reaches = cutlass.select_(tile_key + (ctx.spec.config.BN - 1) > lowest, Int32(1), Int32(0))
    is_past = Int32(cutlass.select_(Boolean(is_behind), Int32(0), reaches))
    return turned_behind(values, columns, first, slope, is_past)

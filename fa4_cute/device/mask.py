"""Masking of scores in registers: columns at or past a limit become minus infinity."""

from cutlass import Float32, Int32

from .ptx import emit

_MINUS_INF = "0fFF800000"


def mask_columns(
    values: list[Float32], first_column: int, limit: Int32, warp_limit: Int32
) -> list[Float32]:
    """Return the scores of columns ``first_column ..`` with those >= ``limit`` set to -inf.

    Minus infinity, not a large finite number: no finite score can then fall below the mask.

    Args:
        values: one score per column, in place.
        first_column: column of the first score within its key tile.
        limit: number of visible columns of the tile for this thread's row; may be <= 0.
        warp_limit: the smallest ``limit`` of the warp, the same in all its threads, so that the
            branch around the selects never diverges.
    """
    count = len(values)
    lines = [
        f"setp.ge.s32 skip, ${2 * count + 1}, {first_column + count};",
        "@skip bra UNMASKED;",
    ]
    for i in range(count):
        lines.append(f"setp.gt.s32 visible, ${2 * count}, {first_column + i};")
        lines.append(f"selp.f32 ${i}, ${count + i}, {_MINUS_INF}, visible;")
    text = "{\n\t.reg .pred skip, visible;\n\t" + "\n\t".join(lines) + "\nUNMASKED:\n\t}"
    return emit(text, (Float32,) * count, (*values, limit, warp_limit), tied=count)

"""Where the keys of a tile lie in the maps of K and V: one box, or one per page.

Pages of a cache are the batch entries of its maps. A page past the sequence's last key is asked for
at a coordinate outside the map: TMA fills its rows with zeros and counts its bytes, so the number
of bytes of a tile is always the same.
"""

from cutlass import Int32

from .device import gmem
from .plan.tensor_maps import key_box
from .sequence import DEVICE
from .work import KernelContext

OUTSIDE_PAGE = 2**31 - 1
"""A page index that no cache has."""


def key_boxes(
    ctx: KernelContext, first: Int32, num_rows: int
) -> list[tuple[int, tuple[Int32, Int32, Int32]]]:
    """Return (row in the tile, (row, head, batch) in the map) of each box of a tile.

    Args:
        ctx: the CTA.
        first: first key of the tile in its sequence.
        num_rows: keys of the tile.
    """
    sequence, head = ctx.work.sequence, ctx.work.kv_head
    page_size = ctx.spec.variant.page_size
    if not page_size:
        return [(0, (first + sequence.first_key, head, sequence.key_batch))]
    boxes = []
    for row in range(0, num_rows, key_box(ctx.spec)[1]):
        key = first + row if row else first
        boxes.append((row, (key % page_size, head, page_of_key(ctx, key))))
    return boxes


def page_of_key(ctx: KernelContext, key: Int32) -> Int32:
    """Return the page that holds ``key``, or one outside the cache when it does not count."""
    seqlen_k, extras = ctx.work.sequence.seqlen_k, ctx.problem.extras
    # Entries of the table past the last key need not exist.
    known = DEVICE.minimum(key, seqlen_k - 1) // ctx.spec.variant.page_size
    row = gmem.word_address(extras["page_table"], ctx.work.batch * extras["pages_per_row"])
    page = gmem.load_i32(gmem.word_address(row, known))
    return DEVICE.select(key < seqlen_k, page, OUTSIDE_PAGE)

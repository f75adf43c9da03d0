"""Causal chunks of prompts over pages: whether CTAs that run take over those that do not yet.

The host does not know the lengths. So they do where that is predicted to cost no query tile more
that has rows, not even one of as many keys as there is room for, and where empty ones, of which
there may be as many as the rows of all sequences allow, do not cost what the others gain. Both
orders go by sequences, so that what ends last is alike.
"""

from __future__ import annotations

from dataclasses import replace

from ..config.predicted import CHUNKS
from ..config.prediction import ChunkRow, predicted_of
from ..masks.masks import Mask, SlidingWindowMask
from ..spec.depth512_spec import Depth512Spec
from ..spec.kernel_spec import KernelSpec
from ..spec.register_tuning import is_plain
from ..spec.variant import Variant
from .loads import kernel_of


def is_in_chunks(variant: Variant) -> bool:
    """Return whether a kernel is plain but for packed queries over pages, with a mask that is
    causal and may be a window."""
    dense = replace(variant, ragged_q=False, by_rows=False, used_k=False, page_size=0)
    in_pages = variant.is_over_cache and variant.page_size > 0
    return in_pages and ends_at_row(variant.mask) and is_plain(dense)


def ends_at_row(mask: Mask) -> bool:
    """Return whether every row sees keys up to its own, all of them or the last ones."""
    return isinstance(mask, SlidingWindowMask) and mask.right == 0


def row_of_chunks(spec: KernelSpec | Depth512Spec) -> ChunkRow | None:
    """Return the predictions for a kernel of such chunks, or None."""
    config, kernel = spec.config, kernel_of(spec)
    if kernel is None:
        return None
    return predicted_of(CHUNKS, kernel, config.qkv_dtype, config.depth, spec.output_depth)


def are_handed_out(row: ChunkRow, longest: int, full: int, empty: int) -> bool:
    """Return whether no query tile with rows takes more, and all together less.

    What a key takes differs between the kernels, and so adds up.

    Args:
        row: the costs. longest: keys that a query tile may have. full: query tiles that have rows
            at least. empty: those that have none, at most.
    """
    least = min(_gain(row, keys) for keys in (0, longest))
    without, handed = row.empty
    return least > 0 and empty * (handed - without) < full * least


def _gain(row: ChunkRow, keys: int) -> int:
    """Return what a query tile of so many keys takes less if it is handed out."""
    alone, handed = (costs.query_tile(keys) for costs in (row.tile, row.dynamic))
    return alone - handed

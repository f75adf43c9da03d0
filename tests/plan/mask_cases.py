"""Random masks, and what they show, written down per row and key without any interval."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from fa4_cute.plan.masks.masks import (
    CAUSAL,
    NULL,
    AndMask,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    NullMask,
    OrMask,
    PaddingMask,
    SlidingWindowMask,
)

SLOTS = 2
MOST_KEYS = 70

sides = st.none() | st.integers(0, 40)
leaf_masks = st.one_of(
    st.just(NULL),
    st.just(CAUSAL),
    st.builds(SlidingWindowMask, sides, sides),
    st.builds(ChunkedMask, st.integers(1, 30)),
    st.builds(PaddingMask, st.integers(0, SLOTS - 1)),
)
with_bias = leaf_masks | st.builds(DenseBiasMask, st.integers(0, SLOTS - 1))


def trees(leaves: st.SearchStrategy[Mask]) -> st.SearchStrategy[Mask]:
    """Masks of up to six leaves."""
    return st.recursive(
        leaves,
        lambda m: st.builds(AndMask, m, m) | st.builds(OrMask, m, m),
        max_leaves=6,
    )


masks = trees(leaf_masks)
lengths = st.tuples(*[st.integers(0, MOST_KEYS + 10)] * SLOTS)


def shows(mask: Mask, row: int, key: int, valid: Sequence[int]) -> bool:
    """Whether ``row`` sees ``key``, an existing key; both are counted from the first key."""
    if isinstance(mask, AndMask):
        return shows(mask.first, row, key, valid) and shows(mask.second, row, key, valid)
    if isinstance(mask, OrMask):
        return shows(mask.first, row, key, valid) or shows(mask.second, row, key, valid)
    if isinstance(mask, SlidingWindowMask):
        near_left = mask.left is None or row - key <= mask.left
        return near_left and (mask.right is None or key - row <= mask.right)
    if isinstance(mask, ChunkedMask):
        return row // mask.size == key // mask.size
    if isinstance(mask, PaddingMask):
        return key < valid[mask.slot]
    assert isinstance(mask, NullMask | DenseBiasMask)
    return True


def added(
    mask: Mask, row: int, key: int, valid: Sequence[int], biases: Sequence[float]
) -> float | None:
    """What the mask adds to a score: the definition of a mask as a score; None hides."""
    if isinstance(mask, AndMask | OrMask):
        a, b = (added(m, row, key, valid, biases) for m in (mask.first, mask.second))
        if isinstance(mask, AndMask):
            return None if a is None or b is None else a + b
        return b if a is None else a if b is None else max(a, b)
    if isinstance(mask, DenseBiasMask):
        return biases[mask.slot]
    return 0.0 if shows(mask, row, key, valid) else None

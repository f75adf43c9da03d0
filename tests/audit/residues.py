"""Lengths that end where the kernels' arithmetic changes its mind, and calls that have them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from testing.cases import KERNELS, Case

EXAMPLES = "FA4_CUTE_RESIDUES"
"""Environment variable with the number of calls per kernel; with it, other calls every time."""
UNITS = (1, 8, 16, 32, 64, 128, 256)
"""Swizzle atoms, pages, warps, tiles of two heads, tiles, and what a CTA or a pair computes."""
MOST = 300
PLACES = ("", "page16", "page64", "cache")
MASKS = ("", "causal", "window", "padding")
HEAD_DIMS = {"two Q tiles": (64, 72), "one Q tile": (64, 128), "CTA pair": (256, 512)}
"""Where a kernel serves several in different ways; others run with that of ``KERNELS``."""
WAYS = ("", "persistent", "split")
"""Few features: every set of them is a kernel of its own, compiled in seconds."""


def around_units(least: int) -> st.SearchStrategy[int]:
    """Multiples of a unit, one less, and one more; and what is smaller than any."""
    near = {n * unit + by for unit in UNITS for n in (1, 2) for by in (-1, 0, 1)}
    return st.sampled_from(sorted(n for n in near | {0, 1} if least <= n <= MOST))


def sequences() -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """Two to five sequences; the first, the last, or one between is often empty."""
    one = st.tuples(around_units(1), around_units(1))
    empty = st.tuples(st.just(0), around_units(0)) | st.tuples(around_units(1), st.just(0))
    ends = one | empty
    inner = st.lists(st.one_of(one, one, empty), min_size=0, max_size=2)
    return st.builds(lambda a, m, z, w: (a, *m, z, w), ends, inner, one, ends)


@st.composite
def features(draw: st.DrawFn) -> frozenset[str]:
    """Packed queries; where keys lie, a mask, how the work is dealt out, and fp8 with scales."""
    names = {"ragged", *(draw(st.sampled_from(few)) for few in (PLACES, MASKS, WAYS))}
    return frozenset(names - {""} | draw(st.sampled_from((set(), set(), {"tokens"}))))


@st.composite
def calls(draw: st.DrawFn, kernel: str, head_dim: int, asked: frozenset[str]) -> Case:
    """Calls of one of ``KERNELS`` with given features."""
    _, num_qo, pair_cta, _ = KERNELS[kernel]
    heads, kv_heads = draw(st.sampled_from([(1, 1), (2, 1), (3, 1)]))
    return Case(
        asked, head_dim, draw(st.sampled_from([torch.bfloat16, torch.float16])), heads, kv_heads,
        draw(sequences()), num_qo, pair_cta,
    )  # fmt: skip

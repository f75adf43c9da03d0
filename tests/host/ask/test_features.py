"""What of a mask a kernel is compiled for, where sequences are too short for the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.host.ask.features import Features, in_sight
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import choose, require
from fa4_cute.plan.masks.masks import CAUSAL, NULL, ChunkedMask, Mask, SlidingWindowMask, leaves
from testing.kernels import BIAS
from tests.plan.mask_cases import lengths, masks, shows

PROMPT = Problem("bf16", 2, 1024, 1024, 16, 16, 128, 128)


@settings(deadline=None)
@given(masks, st.integers(1, 30), st.integers(1, 30), lengths, st.data())
def test_what_hides_nothing_is_left_out_and_nothing_else(
    mask: Mask, seqlen_q: int, seqlen_k: int, valid: tuple[int, ...], data: st.DataObject
) -> None:
    """Of a sequence that is no longer, whose last row has the place of its last key."""
    found = in_sight(mask, seqlen_q, seqlen_k)
    assert len(leaves(found)) <= len(leaves(mask))
    queries, keys = data.draw(st.integers(1, seqlen_q)), data.draw(st.integers(1, seqlen_k))
    for row in range(keys - queries, keys):
        for key in range(keys):
            assert shows(found, row, key, valid) == shows(mask, row, key, valid)


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        (SlidingWindowMask(1023, 0), CAUSAL),
        (SlidingWindowMask(1022, 0), SlidingWindowMask(1022, 0)),
        (SlidingWindowMask(4095, 1023), NULL),
        (SlidingWindowMask(4095, 1022), SlidingWindowMask(None, 1022)),
        (ChunkedMask(1024) & CAUSAL, CAUSAL),
        (ChunkedMask(1023) & CAUSAL, ChunkedMask(1023) & CAUSAL),
        # Rows before the first key see nothing of their chunk.
        (ChunkedMask(1024), ChunkedMask(1024)),
        (ChunkedMask(1024) & SlidingWindowMask(None, 3),) * 2,
        (BIAS & SlidingWindowMask(4095, 0), BIAS & CAUSAL),
        (SlidingWindowMask(4095, 0) | SlidingWindowMask(4095, 3),) * 2,
    ],
)
def test_a_kernel_is_that_of_what_is_left(mask: Mask, found: Mask) -> None:
    problem = replace(PROMPT, features=Features(mask=mask))
    assert problem.variant.mask == found
    assert require(choose(problem)).spec.variant.mask == found
    assert replace(problem, num_qo=2).variant.mask == mask  # whatever other sequences have


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_a_window_that_hides_nothing_is_as_fast_as_none(arch: str) -> None:
    options: dict[str, Any] = {"arch": arch, "causal": True}
    plain = replace(PROMPT, **options)
    window = replace(plain, features=Features(mask=SlidingWindowMask(4095, 0)))
    assert require(choose(window)).spec == require(choose(plain)).spec
    longer = replace(window, seqlen_q=8192, seqlen_k=8192)
    assert require(choose(longer)).spec.variant.mask == SlidingWindowMask(4095, 0)

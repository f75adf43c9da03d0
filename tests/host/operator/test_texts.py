"""Masks and modifiers survive as text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute import score_mods
from fa4_cute.host.operator import texts
from fa4_cute.plan.masks.masks import (
    NULL,
    AndMask,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    OrMask,
    PaddingMask,
    SlidingWindowMask,
)

SIDES = st.none() | st.integers(0, 2**31 - 1)
LEAVES = st.one_of(
    st.just(NULL),
    st.builds(SlidingWindowMask, SIDES, SIDES),
    st.builds(ChunkedMask, st.integers(1, 2**31 - 1)),
    st.builds(PaddingMask, st.integers(0, 9)),
    st.builds(DenseBiasMask, st.integers(0, 9)),
)
MASKS = st.recursive(
    LEAVES, lambda inner: st.builds(AndMask, inner, inner) | st.builds(OrMask, inner, inner)
)
SLOPES = torch.tensor([0.5, 0.25])


def tripled(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score * 3 + aux[0][head]


@settings(max_examples=50, deadline=None)
@given(MASKS)
def test_masks_come_back(mask: Mask) -> None:
    assert texts.mask_of(texts.mask_text(mask)) == mask


@pytest.mark.parametrize(
    "text", ["", "[]", '["diagonal"]', '["and", ["full"]]', '["padding", "0"]']
)
def test_other_text_is_no_mask(text: str) -> None:
    with pytest.raises(ValueError, match="no text of a mask"):
        texts.mask_of(text)


class UnknownMask(Mask):
    name = "unknown"


def test_an_unknown_kind_of_mask_has_no_text() -> None:
    with pytest.raises(TypeError, match=r"expected a mask of fa4_cute\.masks"):
        texts.mask_text(UnknownMask())


@given(st.floats(2.0**-60, 2.0**60))
def test_caps_come_back_to_the_last_bit(cap: float) -> None:
    modifier = score_mods.softcap(cap)
    (step,) = texts.modifier_of(texts.modifier_text(modifier), []).steps
    assert step.constants == (cap,)


def test_a_chain_comes_back_with_its_tensors() -> None:
    modifier = score_mods.chain(
        score_mods.function(tripled, (SLOPES,)), score_mods.alibi(SLOPES + 1), score_mods.softcap(4)
    )
    tensors = [*modifier.tensors]
    found = texts.modifier_of(texts.modifier_text(modifier), tensors)
    assert found.plan == modifier.plan
    assert found.steps[0].function is tripled
    assert [*found.tensors] == tensors
    assert len(tensors) == 2


def test_functions_are_told_from_the_rest() -> None:
    chain = score_mods.chain(score_mods.softcap(2.0), score_mods.function(tripled, (SLOPES,)))
    assert texts.is_of_functions(texts.modifier_text(chain))
    assert not texts.is_of_functions(texts.modifier_text(score_mods.alibi(SLOPES)))


def test_a_function_of_another_process_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"'mod_x'.*fa4_cute\.score_mods\.function before the graph"
    ):
        texts.modifier_of('[["function", "0123[1]", "mod_x", 1]]', [SLOPES])


def test_a_function_has_the_tensors_it_was_given_with() -> None:
    text = texts.modifier_text(score_mods.function(tripled, (SLOPES,)))
    with pytest.raises(ValueError, match=r"ranks \[2\] are not those"):
        texts.modifier_of(text, [SLOPES.reshape(1, 2)])


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ("[", 0, "no text of a score_mod"),
        ('[["alibi"]]', 0, "no text of a modifier with 0 tensors"),
        ('[["softcap", 2.0]]', 1, "1 tensors, but score_mod"),
        ('[["spline"]]', 0, "no text of a modifier"),
    ],
)
def test_other_text_is_no_modifier(text: str, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        texts.modifier_of(text, [SLOPES] * count)


def test_caps_of_equal_names_are_different_kernels() -> None:
    large, small = (score_mods.softcap(cap).plan for cap in (1e16, 1e-16))
    assert large.name == small.name
    assert large != small

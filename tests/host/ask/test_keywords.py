"""The keyword arguments of the public functions: what is shown of them, and what is unknown."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any, assert_type

import pytest
import torch

import fa4_cute
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.keywords import OF_DENSE, OF_VARLEN
from fa4_cute.host.ask.names import HINTS

Q = torch.zeros(1, 8, 1, 64, dtype=torch.float16)


def test_help_names_every_argument_with_its_default() -> None:
    for function, names in (
        (fa4_cute.flash_attn, OF_DENSE),
        (fa4_cute.flash_attn_varlen, OF_VARLEN),
    ):
        parameters = inspect.signature(function).parameters
        assert set(parameters) == names | set("qkv")
        text = pydoc.plain(pydoc.render_doc(function))
        assert "causal: 'bool' = False" in text
        assert "page_table: 'torch.Tensor | None' = None" in text
    lengths = inspect.signature(fa4_cute.flash_attn_varlen).parameters["cu_seqlens_q"]
    assert lengths.default is inspect.Parameter.empty
    assert lengths.annotation == "torch.Tensor"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("is_causal", "causal"),
        ("casual", "causal"),
        ("scale", "softmax_scale"),
        ("sofmax_scale", "softmax_scale"),
        ("attn_mask", "fa4_cute.masks.bias"),
        ("atn_mask", "fa4_cute.masks.bias"),
        ("dropout_p", "there is no dropout"),
        ("window_size_left", "window_size=(left, right)"),
        ("q_descale", "q_scale"),
        ("block_table", "page_table"),
        ("cache_seqlens", "seqused_k"),
        ("cu_seqlens_q", "fa4_cute.flash_attn_varlen"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(TypeError) as caught:
        fa4_cute.flash_attn(Q, Q, Q, **{name: None})  # type: ignore[call-overload]  # refused
    text = str(caught.value)
    assert text.startswith(f"unexpected argument {name!r}; nearest supported choice: ")
    assert nearest in text


def test_a_name_like_no_other_is_refused_with_all_that_exist() -> None:
    with pytest.raises(
        TypeError, match=r"'zzz'; there are arch, aux_tensors, .*cu_seqlens_q.*window_size"
    ):
        fa4_cute.flash_attn_varlen(Q, Q, Q, zzz=1)  # type: ignore[call-overload]  # refused


def test_no_hint_hides_an_argument_or_leads_nowhere() -> None:
    only_packed = OF_VARLEN - OF_DENSE
    assert set(HINTS) & OF_VARLEN == only_packed
    for hint in HINTS.values():
        name = hint.split("=", maxsplit=1)[0]
        assert name in OF_VARLEN or "leave it out" in hint or "fa4_cute." in hint


def test_options_by_position_are_refused() -> None:
    with pytest.raises(TypeError, match=r"got 2 more \(True, ...\).*causal=True"):
        fa4_cute.flash_attn(Q, Q, Q, True, None)  # type: ignore[call-overload]  # refused
    with pytest.raises(TypeError, match="got 1 more"):
        fa4_cute.flash_attn_varlen(Q, Q, Q, Q)  # type: ignore[call-overload]  # refused


def test_packed_queries_need_their_offsets() -> None:
    missing: tuple[dict[str, Any], ...] = ({}, {"cu_seqlens_q": None})
    for given in missing:
        with pytest.raises(TypeError, match=r"cu_seqlens_q=None.*fa4_cute.flash_attn for a dense"):
            fa4_cute.flash_attn_varlen(Q, Q, Q, **given)


def test_names_are_sorted_into_the_records() -> None:
    given: dict[str, Any] = {name: object() for name in OF_VARLEN}
    options, batch = options_and_batch(given)
    for name, value in given.items():
        assert getattr(batch if hasattr(batch, name) else options, name) is value


def test_the_type_of_the_result_follows_return_lse() -> None:
    """As mypy sees it where tests are checked, and as it is."""
    q, starts = Q.to("meta"), torch.zeros(2, dtype=torch.int32, device="meta")
    out = assert_type(fa4_cute.flash_attn(q, q, q), torch.Tensor)
    pair = assert_type(
        fa4_cute.flash_attn(q, q, q, return_lse=True), tuple[torch.Tensor, torch.Tensor]
    )
    assert out.shape == pair[0].shape == q.shape
    more: dict[str, Any] = {"cu_seqlens_k": starts, "max_seqlen_q": 8, "max_seqlen_k": 8}
    rows = fa4_cute.flash_attn_varlen(q[0], q[0], q[0], cu_seqlens_q=starts, **more)
    assert rows.shape == q[0].shape

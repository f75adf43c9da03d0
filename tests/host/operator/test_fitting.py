"""What does not fit the operator is refused in the sentences of a plain call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.host.operator.fitting import check_fits

HUGE = 1 << 70
PADDING = masks.padding(torch.tensor([1, 2], dtype=torch.int32)).plan
WRONG: dict[str, dict[str, Any]] = {
    "k": {"k": [1]},
    "v": {"v": "x"},
    "no v": {"v": None},
    "sink": {"sink": 3},
    "lengths": {"seqused_k": [1, 2]},
    "table": {"page_table": 3, "seqused_k": torch.ones(2, dtype=torch.int32)},
    "rope": {"q_rope": 1, "k_rope": 2},
    "out": {"out": [1]},
    "lse": {"lse": 1, "return_lse": True},
    "aux": {"aux_tensors": 3},
    "aux none": {"aux_tensors": None},
    "padding": {"mask": masks.AttentionMask(PADDING, (3,))},
    "splits float": {"num_splits": 2.5},
    "splits bool": {"num_splits": True},
    "splits name": {"num_splits": "x"},
    "splits object": {"num_splits": torch.bfloat16},
    "splits none": {"num_splits": 0},
    "tiles float": {"num_qo": 2.0},
    "tiles bool": {"num_qo": True},
    "tiles name": {"num_qo": "x"},
    "offsets": {"cu_seqlens_q": [0, 1]},
    "longest float": {"cu_seqlens_q": "right", "max_seqlen_q": 2.0},
    "longest bool": {"cu_seqlens_q": "right", "max_seqlen_q": True},
    "longest name": {"cu_seqlens_q": "right", "max_seqlen_q": "5"},
    "longest negative": {"cu_seqlens_q": "right", "max_seqlen_q": 4, "max_seqlen_k": -HUGE},
}
OTHERWISE: dict[str, dict[str, Any]] = {
    "num_splits": {"num_splits": HUGE},
    "num_qo": {"num_qo": HUGE},
    "max_seqlen_k": {"cu_seqlens_q": "right", "max_seqlen_q": 4, "max_seqlen_k": HUGE},
    "aux_tensors": {"aux_tensors": (1,)},
    "q_scale": {"q_scale": SimpleNamespace(numel=lambda: 1)},
}
"""Refused by other words than those of a plain call."""


def call(device: str, options: dict[str, Any]) -> Any:
    given = dict(options)
    packed = "cu_seqlens_q" in given
    if packed and given["cu_seqlens_q"] == "right":
        given["cu_seqlens_q"] = torch.tensor([0, 2, 4], dtype=torch.int32).to(device)
    shape = (4, 4, 64) if packed else (2, 4, 4, 64)
    q = torch.zeros(shape, dtype=torch.bfloat16, device=device)
    k, v = (given.pop(name, q.new_zeros(2, 8, 2, 64)) for name in "kv")
    function = fa4_cute.flash_attn_varlen if packed else fa4_cute.flash_attn
    return function(q, k, v, **given)


@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG)
def test_tensors_without_memory_are_refused_as_others(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as plain:
        call("cpu", options)
    with pytest.raises(plain.type) as carried:
        call("meta", options)
    if "page_table" not in options:  # the first of several wrong ones is another
        assert str(carried.value) == str(plain.value)


@pytest.mark.parametrize("name", OTHERWISE)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_every_refusal_names_the_argument(device: str, name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=name.removeprefix("max_")):
        call(device, OTHERWISE[name])


def test_what_fits() -> None:
    tensor = torch.zeros(1)
    check_fits({"q": tensor, "mask_biases": [tensor], "num_splits": 2, "sink": None, "out": tensor})
    with pytest.raises(TypeError, match=r"^bias: expected a torch\.Tensor, got int"):
        check_fits({"mask_biases": [tensor, 3]})
    with pytest.raises(TypeError, match=r"^q: expected"):
        check_fits({"q": None})

"""While a CUDA graph is captured nothing is read back: a call says so, or does without."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fa4_cute import masks
from fa4_cute.host.ask import scales, score_changes, sequences
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.checks import check_readable
from fa4_cute.host.ask.request import request
from tests.host.operator.cases import FP8, INPUTS, LENGTHS, PACKED, POOL, SLOPES, STARTS, TABLE

Inputs = tuple[torch.Tensor, ...]
READ: dict[str, tuple[Inputs, dict[str, Any], dict[str, Any]]] = {
    "seqused_k": (INPUTS, {"seqused_k": LENGTHS}, {}),
    "page_table": ((INPUTS[0], *POOL), {"page_table": TABLE, "seqused_k": LENGTHS}, {}),
    "cu_seqlens_q": (
        PACKED,
        {"cu_seqlens_q": STARTS[0], "cu_seqlens_k": STARTS[1]},
        {"max_seqlen_q": 4, "max_seqlen_k": 6},
    ),
    "padding lengths": (INPUTS, {"mask": masks.padding(LENGTHS)}, {}),
    "sink": (INPUTS, {"sink": SLOPES}, {}),
}
"""What is read -> a call that reads it, and what it has to be given besides ``unchecked``."""


def ask(inputs: Inputs, **options: Any) -> None:
    request(inputs, *options_and_batch(options))


@pytest.fixture
def capturing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what would be read; every one is refused as if on a stream being captured."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    names: list[str] = []

    def on_cuda(name: str, tensor: Any, *instead: str) -> None:
        names.append(name)
        check_readable(name, SimpleNamespace(is_cuda=True), *instead)

    for module in (scales, score_changes, sequences):
        monkeypatch.setattr(module, "check_readable", on_cuda)
    return names


def test_only_tensors_of_a_captured_device_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    check_readable("n", SimpleNamespace(is_cuda=True))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    check_readable("n", LENGTHS)
    with pytest.raises(NotImplementedError, match=r"n: its values .* CUDA graph .*unchecked=True"):
        check_readable("n", SimpleNamespace(is_cuda=True))


@pytest.mark.parametrize("name", READ)
def test_a_call_that_would_read_is_refused(name: str, capturing: list[str]) -> None:
    inputs, options, _ = READ[name]
    with pytest.raises(NotImplementedError, match=r"CUDA graph .*unchecked=True"):
        ask(inputs, **options)
    assert len(capturing) == 1


@pytest.mark.parametrize("name", READ)
def test_unchecked_reads_nothing(name: str, capturing: list[str]) -> None:
    inputs, options, besides = READ[name]
    ask(inputs, **options, **besides, unchecked=True)
    assert capturing == []


def test_a_scale_of_one_element_has_to_be_a_number(capturing: list[str]) -> None:
    scale = torch.tensor(2.0)
    with pytest.raises(NotImplementedError, match="nearest supported choice: k_scale as a number"):
        ask(FP8, k_scale=scale, unchecked=True)
    ask(FP8, k_scale=2.0, unchecked=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_capture_on_a_device_goes_on() -> None:
    inputs = tuple(t.cuda() for t in INPUTS)
    lengths, mark = LENGTHS.cuda(), torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(NotImplementedError, match="seqused_k: its values would be read back"):
            ask(inputs, seqused_k=lengths)
        ask(inputs, seqused_k=lengths, unchecked=True)
        mark += 1
    graph.replay()
    torch.cuda.synchronize()
    assert mark.item() == 1

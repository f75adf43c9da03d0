"""``torch.compile``: one graph with every feature, and the results and refusals of a plain call."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.host.operator.define import ATTENTION
from tests.host.operator.cases import CASES, INPUTS, SLOPES, integers, normal, relative
from tests.host.operator.stand_in import StandIn, same

Q, K, V = INPUTS
ONE: Any = 1
"""Of a type that is refused."""
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fresh_compiler")]


def whole(call: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(call, backend="aot_eager", fullgraph=True, **options)


def test_no_argument_is_lost(stand_in: StandIn) -> None:
    """All cases, and so all fields of the records (``test_schema``), in one graph."""

    def every(tensors: list[tuple[torch.Tensor, ...]]) -> list[Any]:
        return [case.call(*own) for case, own in zip(CASES.values(), tensors, strict=True)]

    tensors = [case.tensors for case in CASES.values()]
    want = every(tensors)
    plain = list(stand_in.calls)
    stand_in.calls.clear()
    assert same(torch.compile(every, backend="eager", fullgraph=True)(tensors), want)
    assert len(plain) == len(stand_in.calls) == len(CASES)
    for before, after in zip(plain, stand_in.calls, strict=True):
        assert [name for name in before if not same(before[name], after[name])] == []


def test_features_together_in_one_graph(stand_in: StandIn) -> None:
    def model(q: Any, k: Any, v: Any, lengths: Any, slopes: Any) -> Any:
        mask = (masks.padding(lengths) & masks.causal()) | (
            masks.padding(lengths) & masks.chunked(2)
        )
        mod = score_mods.chain(score_mods.alibi(slopes), score_mods.softcap(3.0))
        out, lse = fa4_cute.flash_attn(
            q * 2, k, v, mask=mask, window_size=(7, 0), score_mod=mod, sink=slopes, return_lse=True
        )
        return out + 1, lse.exp()

    tensors = (*INPUTS, integers(3, 20), SLOPES)
    assert same(whole(model)(*tensors), model(*tensors))


def test_lengths_may_change(stand_in: StandIn) -> None:
    def model(q: Any, k: Any, v: Any, starts: Any) -> Any:
        longest = q.shape[0] - 1
        return fa4_cute.flash_attn_varlen(
            q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest,
            max_seqlen_k=longest, unchecked=True, causal=True,
        )  # fmt: skip

    compiled = whole(model, dynamic=True)
    frames = torch._dynamo.testing.CompileCounter()
    counted = torch.compile(model, backend=frames, fullgraph=True, dynamic=True)
    for n in (5, 6, 9):
        tensors = (normal(n, 4, 16), normal(n, 2, 16), normal(n, 2, 16), integers(0, 2, n))
        assert same(compiled(*tensors), model(*tensors))
        counted(*tensors)
    assert frames.frame_count == 1


def test_masks_and_numbers_may_change(stand_in: StandIn) -> None:
    def model(mask: Any, modifier: Any, left: int, cap: float) -> Any:
        window = (left, None)
        return fa4_cute.flash_attn(
            *INPUTS, mask=mask, score_mod=modifier, window_size=window, softcap=cap
        )

    def scaled(factor: float) -> Any:
        return score_mods.function(lambda s, b, h, i, j, aux: s * factor)

    compiled = whole(model)
    for n in (1, 2, 3):
        mask = masks.chunked(n + 1) | (masks.padding(integers(n, 20)) & masks.sliding_window(n))
        arguments = (mask, scaled(float(n)), n + 4, n + 0.5)
        assert same(compiled(*arguments), model(*arguments))


def test_tensors_of_the_caller(stand_in: StandIn) -> None:
    def model(q: Any, out: Any) -> Any:
        lse = torch.zeros(2, 4, 5)
        found, _ = fa4_cute.flash_attn(q * 2, K, V, return_lse=True, out=out, lse=lse)
        return found is out, lse + 1

    out = torch.zeros_like(Q)
    is_out, lse = whole(model)(Q, out)
    want, want_lse = fa4_cute.flash_attn(Q * 2, K, V, return_lse=True)
    assert is_out
    assert same((out, lse), (want, want_lse + 1))


def test_transforms_within(stand_in: StandIn) -> None:
    def model(q: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.vmap(lambda one: fa4_cute.flash_attn(one, K, V))(q)

    q = torch.stack([Q, Q + 1]).float()
    assert same(whole(model)(q), model(q))


def test_plain_functions_break_the_graph_and_say_what_to_do(stand_in: StandIn) -> None:
    def model(q: Any) -> Any:
        return fa4_cute.flash_attn(q, K, V, score_mod=relative, aux_tensors=(SLOPES,)) + 1

    assert same(torch.compile(model, backend="eager")(Q), model(Q))
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"once and outside of what is compiled"
    ):
        whole(model)(Q)


def test_gradients_are_refused_in_the_words_of_a_plain_call(stand_in: StandIn) -> None:
    sentence = r"q\.requires_grad=True: there is a forward pass only"
    q = Q.clone().requires_grad_()
    with pytest.raises(NotImplementedError, match=sentence):
        torch.compile(fa4_cute.flash_attn, backend="eager")(q, K, V)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=sentence):
        whole(fa4_cute.flash_attn)(q, K, V)
    with torch.no_grad():
        assert same(whole(fa4_cute.flash_attn)(q, K, V), fa4_cute.flash_attn(*INPUTS))


def test_errors_reach_the_caller(stand_in: StandIn) -> None:
    compiled = torch.compile(fa4_cute.flash_attn, backend="eager")
    with pytest.raises(NotImplementedError, match="dtype fp32"):
        compiled(*(t.float() for t in INPUTS))
    with pytest.raises(TypeError, match="causal=1: expected True or False"):
        torch.compile(lambda q: fa4_cute.flash_attn(q, K, V, causal=ONE), backend="eager")(Q)


@pytest.mark.skipif(shutil.which("g++") is None, reason="the default compiler needs one for C++")
def test_the_default_compiler(stand_in: StandIn) -> None:
    def model(q: Any, out: Any) -> Any:
        window, _ = fa4_cute.flash_attn(q * 2, K, V, window_size=(3, 0), return_lse=True)
        return fa4_cute.flash_attn(window, K, V, out=out) + 1

    got, want = torch.zeros_like(Q), torch.zeros_like(Q)
    assert same(torch.compile(model, fullgraph=True)(Q, got), model(Q, want))
    assert same(got, want)


def test_the_kernel_itself() -> None:
    def model(q: Any, k: Any, v: Any) -> Any:
        return fa4_cute.flash_attn(q * 2, k, v, causal=True, return_lse=True)

    tensors = (normal(2, 40, 4, 64), normal(2, 50, 2, 64), normal(2, 50, 2, 64))
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert same(compiled(*tensors), model(*tensors))


def test_the_graph_holds_one_node(stand_in: StandIn) -> None:
    graphs: list[Any] = []

    def keep(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    case = CASES["padding, bias"]
    torch.compile(case.call, backend=keep, fullgraph=True)(*case.tensors)
    (graph,) = graphs
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    assert [node.target for node in calls].count(ATTENTION) == 1

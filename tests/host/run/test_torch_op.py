"""``torch.compile`` sees one opaque operator, and its results are those of a plain call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def inputs(seqlen: int = 40) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seqlen)
    shapes = ((2, seqlen, 4, 64), (2, 50, 2, 64), (2, 50, 2, 64))
    return tuple(torch.randn(shape, generator=generator).half() for shape in shapes)


def test_one_graph_with_equal_results() -> None:
    def model(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = fa4_cute.flash_attn(q * 2, k, v, causal=True, return_lse=True)
        return out + 1, lse.exp()

    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for seqlen in (40, 33, 1):
        for got, want in zip(compiled(*inputs(seqlen)), model(*inputs(seqlen)), strict=True):
            assert torch.equal(got, want)


def test_without_lse() -> None:
    compiled = torch.compile(
        lambda q, k, v: fa4_cute.flash_attn(q, k, v) * 3, backend="eager", fullgraph=True
    )
    q, k, v = inputs()
    assert torch.equal(compiled(q, k, v), fa4_cute.flash_attn(q, k, v) * 3)


def test_the_operator_keeps_the_rules_of_operators() -> None:
    from fa4_cute.host.run.torch_op import attention

    for return_lse in (False, True):
        arguments = (*inputs(), True, None, return_lse)
        torch.library.opcheck(attention, arguments, test_utils=("test_schema", "test_faketensor"))


def test_errors_reach_the_caller() -> None:
    compiled = torch.compile(fa4_cute.flash_attn, backend="eager")
    q, k, v = inputs()
    with pytest.raises(NotImplementedError, match="dtype fp32"):
        compiled(q.float(), k.float(), v.float())


def test_backward_is_refused() -> None:
    compiled = torch.compile(fa4_cute.flash_attn, backend="eager", fullgraph=True)
    q, k, v = inputs()
    out = compiled(q.requires_grad_(), k, v)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        out.float().sum().backward()


def test_features_break_the_graph_and_run() -> None:
    compiled = torch.compile(
        lambda q, k, v: fa4_cute.flash_attn(q, k, v, window_size=(9, 0)) + 1, backend="eager"
    )
    q, k, v = inputs()
    assert torch.equal(compiled(q, k, v), fa4_cute.flash_attn(q, k, v, window_size=(9, 0)) + 1)


def test_features_do_not_fit_a_whole_graph() -> None:
    compiled = torch.compile(
        lambda q, k, v: fa4_cute.flash_attn(q, k, v, softcap=2.0), backend="eager", fullgraph=True
    )
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(*inputs())

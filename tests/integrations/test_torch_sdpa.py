"""``FA4_CUTE`` in torch's registry: who computes, with which values, and what stays with torch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import (
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    restore_flash_attention_impl,
)
from torch.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

from fa4_cute.integrations import torch_sdpa
from tests.integrations.launches import launches

__all__ = ["launches"]

GENERATOR = torch.Generator().manual_seed(0)
DRAWN = torch.rand(24, 40, generator=GENERATOR) > 0.4


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR).to(torch.bfloat16)


Q, K, V = normal(2, 4, 24, 64), normal(2, 2, 40, 64), normal(2, 2, 40, 64)
CASES = {
    "causal": {"is_causal": True},
    "boolean": {"attn_mask": DRAWN},
    "float": {"attn_mask": normal(2, 1, 24, 40), "scale": 0.3},
}


@pytest.fixture
def active() -> Iterator[None]:
    activate_flash_attention_impl(torch_sdpa.NAME)
    yield
    restore_flash_attention_impl(_raise_warn=False)


def attention(q: torch.Tensor = Q, **options: Any) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, K, V, enable_gqa=True, **options)


def test_importing_registers_a_name_and_activates_nothing(launches: list[str]) -> None:
    assert torch_sdpa.NAME in list_flash_attention_impls()
    assert current_flash_attention_impl() is None
    attention()
    assert launches == []


@pytest.mark.parametrize("case", CASES)
def test_sdpa_runs_here_and_agrees_with_torch(case: str, launches: list[str]) -> None:
    exact = attention(**CASES[case])
    activate_flash_attention_impl(torch_sdpa.NAME)
    try:
        assert current_flash_attention_impl() == torch_sdpa.NAME
        ours = attention(**CASES[case])
    finally:
        restore_flash_attention_impl()
    assert len(launches) == 1
    torch.testing.assert_close(ours, exact, atol=0.02, rtol=0.02)
    assert torch.equal(attention(**CASES[case]), exact)
    assert len(launches) == 1, "restored"


@pytest.mark.usefixtures("active")
def test_results_lie_as_compiled_graphs_expect(launches: list[str]) -> None:
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    as_view = Q.transpose(1, 2).contiguous().transpose(1, 2)
    for q in (Q, as_view):
        expected = operator(q.to("meta"), K.to("meta"), V.to("meta"), 0.0, True)
        found = operator(q, K, V, 0.0, True)
        assert [x.shape for x in found] == [x.shape for x in expected]
        assert [x.stride() for x in found] == [x.stride() for x in expected]
    whole = torch.compile(backend="aot_eager", fullgraph=True)
    assert torch.equal(whole(lambda q: 2 * attention(q, is_causal=True))(Q), 2 * found[0])
    assert len(launches) == 3


@pytest.mark.usefixtures("active")
def test_what_cannot_run_here_is_computed_by_torch(
    launches: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, torch_sdpa.__name__)
    out = F.scaled_dot_product_attention(Q.float(), K.float(), V.float(), enable_gqa=True)
    assert out.dtype == torch.float32
    assert "computed by torch: dtype fp32" in caplog.text
    leaf = Q.clone().requires_grad_()
    attention(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.isfinite().all()
    assert "computed by torch: requires_grad=True" in caplog.text
    assert launches == []
    with torch.no_grad():
        attention(leaf, is_causal=True)
    assert len(launches) == 1


def test_the_operators_inside_of_torch_s_kernel_are_torch_s() -> None:
    """As on CUDA, where SDPA's flash attention calls the operator of ``varlen_attn``."""

    class Kernel:
        def __init__(self, call: Callable[[], str]) -> None:
            self.call = call

        def call_boxed(self, _keyset: object) -> str:
            return self.call()

    def refused() -> str:
        raise NotImplementedError("requires_grad=True")

    def served(function: Callable[[], str], kernel: Kernel) -> str:
        return torch_sdpa._served("name", function, kernel, None)

    inner = Kernel(lambda: "torch's")
    outer = Kernel(lambda: served(lambda: "ours", inner))
    assert served(refused, outer) == "torch's"
    assert served(lambda: "ours", inner) == "ours"


STARTS = torch.tensor([0, 7, 7, 37], dtype=torch.int32)
PACKED = normal(37, 2, 64)


@pytest.mark.usefixtures("active")
def test_varlen_attn_runs_here(launches: list[str]) -> None:
    aux = AuxRequest(lse=True)
    out, lse = varlen_attn(
        PACKED, PACKED, PACKED, STARTS, STARTS, 30, 30, window_size=(-1, 0), return_aux=aux
    )
    assert lse.shape == (2, 37)
    for first, last in pairwise(STARTS.tolist()):
        rows = PACKED[first:last].transpose(0, 1)[None].float()
        exact = F.scaled_dot_product_attention(rows, rows, rows, is_causal=True)[0].transpose(0, 1)
        torch.testing.assert_close(out[first:last].float(), exact, atol=0.02, rtol=0.02)
    room = torch.full_like(out, float("nan"))
    varlen_attn_out(room, PACKED, PACKED, PACKED, STARTS, STARTS, 30, 30, window_size=(-1, 0))
    assert torch.equal(room, out)
    assert len(launches) == 2


@pytest.mark.usefixtures("active")
def test_varlen_attn_is_refused_in_words_where_torch_has_no_kernel() -> None:
    wide, leaf = PACKED.float(), PACKED.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"FA4_CUTE .*not supported: dtype fp32.*bf16"):
        varlen_attn(wide, wide, wide, STARTS, STARTS, 30, 30)
    out = varlen_attn(leaf, leaf, leaf, STARTS, STARTS, 30, 30, window_size=(-1, 0))
    with pytest.raises(RuntimeError, match=r"forward pass only.*torch.no_grad\(\)"):
        out.sum().backward()
    with pytest.raises(ValueError, match="max_seqlen_q=3: sequence 0 has 7 rows"):
        varlen_attn(PACKED, PACKED, PACKED, STARTS, STARTS, 3, 30)


@pytest.mark.usefixtures("active")
def test_the_operator_that_cuda_tensors_take(launches: list[str]) -> None:
    """Its results, nine of them, for CPU tensors: torch has no kernel for these."""
    operator = torch.ops.aten._scaled_dot_product_flash_attention
    keys, values = K[:, :, :24].repeat_interleave(2, 1), V[:, :, :24].repeat_interleave(2, 1)
    found = operator(Q, K, V, 0.0, True)
    exact = F.scaled_dot_product_attention(Q.float(), keys.float(), values.float(), is_causal=True)
    torch.testing.assert_close(found[0].float(), exact, atol=0.02, rtol=0.02)
    assert found[1].shape == (2, 4, 24)
    assert found[4:6] == (24, 40)
    assert len(found) == 9
    with pytest.raises(RuntimeError, match=r"dropout_p=0.5: there is no dropout"):
        operator(Q, K, V, 0.5)
    with pytest.raises(RuntimeError, match=r"return_debug_mask=True"):
        operator(Q, K, V, 0.0, True, True)
    with pytest.raises(RuntimeError, match=r"dropout_p=0.5"):
        torch.ops.aten._flash_attention_forward(Q, K, V, None, None, 24, 40, 0.5, False, False)
    assert len(launches) == 1

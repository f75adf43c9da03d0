"""flash-attn's functions: names, values against what its documentation states, refusals."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fa4_cute import compat

from .plain import BF16, agree, attention, normal, offsets, parts

PUBLISHED = {
    "flash_attn_func": "q k v dropout_p=0.0 softmax_scale=None causal=False window_size=(-1,-1) "
    "softcap=0.0 alibi_slopes=None deterministic=False return_attn_probs=False",
    "flash_attn_varlen_func": "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k "
    "dropout_p=0.0 softmax_scale=None causal=False window_size=(-1,-1) softcap=0.0 "
    "alibi_slopes=None deterministic=False return_attn_probs=False block_table=None",
    "flash_attn_with_kvcache": "q k_cache v_cache k=None v=None rotary_cos=None rotary_sin=None "
    "cache_seqlens=None cache_batch_idx=None cache_leftpad=None block_table=None "
    "softmax_scale=None causal=False window_size=(-1,-1) softcap=0.0 rotary_interleaved=True "
    "alibi_slopes=None num_splits=0",
}
"""Arguments in the order of flash-attn 2.8: Dao-AILab/flash-attention @ 00530025,
``flash_attn/flash_attn_interface.py``."""
BY_POSITION = 8


@pytest.mark.parametrize("name", PUBLISHED)
def test_names_order_and_defaults_are_those_of_flash_attn(name: str) -> None:
    ours = inspect.signature(getattr(compat, name)).parameters
    published = [entry.partition("=") for entry in PUBLISHED[name].split()]
    order = [n for n, p in ours.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert order == [n for n, _, _ in published][:BY_POSITION]
    for argument, _, default in published:
        if default:
            assert repr(ours[argument].default).replace(" ", "") == default


@pytest.mark.slow
def test_causal_is_aligned_to_the_bottom_right_and_odd_head_dimensions_are_padded() -> None:
    q, k, v = normal(2, 24, 4, 60), normal(2, 40, 2, 60, seed=1), normal(2, 40, 2, 60, seed=2)
    out, lse, probabilities = compat.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert out.shape == q.shape
    assert probabilities is None
    for b in range(2):
        agree(out[b], lse[b], attention(q[b], k[b], v[b], causal=True))
    room = torch.empty_like(q)
    assert compat.flash_attn_func(q, k, v, causal=True, out=room) is room
    assert torch.equal(room, out)


@pytest.mark.slow
def test_window_chunks_softcap_slopes_and_sinks_together() -> None:
    q, k, v = normal(2, 40, 4, 64), normal(2, 40, 2, 64, seed=1), normal(2, 40, 2, 64, seed=2)
    slopes = torch.tensor([[0.5, 0.25, 0.125, 0.0], [0.1, 0.2, 0.3, 0.4]])
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    common: dict[str, Any] = {"window_size": (9, 3), "softcap": 2.0, "s_aux": sinks}
    common |= {"softmax_scale": 0.3, "attention_chunk": 16}
    out, lse = compat.flash_attn_func(
        q, k, v, alibi_slopes=slopes, return_softmax_lse=True, **common
    )
    for b in range(2):
        agree(out[b], lse[b], attention(q[b], k[b], v[b], alibi_slopes=slopes[b], **common))


def test_packed_tensors_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []

    def computed(*inputs: torch.Tensor, **options: Any) -> tuple[torch.Tensor, None]:
        assert options["causal"]
        seen.extend(inputs)
        return inputs[0], None

    monkeypatch.setattr("fa4_cute.compat.flash.flash_attn", computed)
    qkv = normal(2, 24, 3, 2, 64)
    compat.flash_attn_qkvpacked_func(qkv, causal=True)
    compat.flash_attn_kvpacked_func(qkv[:, :, 0], qkv[:, :, 1:], causal=True)
    assert [x.data_ptr() for x in seen] == [qkv[:, :, i].data_ptr() for i in range(3)] * 2
    assert all(torch.equal(x, qkv[:, :, i % 3]) for i, x in enumerate(seen))


@pytest.mark.slow
def test_packed_sequences_in_memory_of_the_caller() -> None:
    at_q, at_k = offsets([7, 0, 30]), offsets([20, 5, 30])
    q, k, v = normal(37, 2, 64), normal(55, 2, 64, seed=1), normal(55, 2, 64, seed=2)
    room = torch.full_like(q, float("nan"))
    found, lse = compat.flash_attn_varlen_func(
        q, k, v, at_q, at_k, 30, 30, causal=True, out=room, return_softmax_lse=True
    )
    assert found is room
    of_lse = parts(lse.T, at_q)
    each = zip(parts(q, at_q), parts(k, at_k), parts(v, at_k), parts(room, at_q), strict=True)
    for i, (qs, ks, vs, out) in enumerate(each):
        agree(out, of_lse[i].T, attention(qs, ks, vs, causal=True))
    kv = torch.stack((k, v), 1)
    again = compat.flash_attn_varlen_kvpacked_func(q, kv, at_q, at_k, 30, 30, causal=True)
    assert torch.equal(again, room)
    qkv = torch.stack((k, k, v), 1)
    whole = compat.flash_attn_varlen_qkvpacked_func(qkv, at_k, 30, causal=True)
    agree(whole[:20], None, attention(k[:20], k[:20], v[:20], causal=True))


@pytest.mark.exhaustive
def test_descales_of_fp8() -> None:
    q, k, v = (normal(2, 24, 2, 64, seed=i).to(torch.float8_e4m3fn) for i in range(3))
    twice, half = torch.tensor([2.0]).expand(2, 2), torch.full((2, 2), 0.5)
    out = compat.flash_attn_func(q, k, v, q_descale=half, v_descale=twice)
    wide = [x.to(BF16)[0] for x in (q, k, v)]
    exact, _ = attention(wide[0] * 0.5, wide[1], wide[2] * 2)
    torch.testing.assert_close(out[0].double(), exact, atol=0.1, rtol=0.1)


Q = normal(1, 4, 2, 64)
STARTS = torch.tensor([0, 4], dtype=torch.int32)
SEVERAL = torch.tensor([[1.0, 2.0]])
PACKED = (Q[0], Q[0], Q[0], STARTS, STARTS)
REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "dropout": (NotImplementedError, r"dropout_p=0.1.*nearest supported choice: 0.0",
                lambda: compat.flash_attn_func(Q, Q, Q, 0.1)),
    "dropout, packed": (NotImplementedError, r"dropout_p=0.1",
                        lambda: compat.flash_attn_varlen_func(*PACKED, 4, 4, 0.1)),
    "unknown": (TypeError, r"softmax_sclae: no argument of flash-attn",
                lambda: compat.flash_attn_func(Q, Q, Q, softmax_sclae=1.0)),  # type: ignore[call-arg]  # refused
    "window": (TypeError, r"window_size=5.*choice: \(5, 5\) or \(5, 0\)",
               lambda: compat.flash_attn_func(Q, Q, Q, window_size=5)),  # type: ignore[arg-type]  # refused
    "qv": (NotImplementedError, r"qv: .*q_rope", lambda: compat.flash_attn_func(Q, Q, Q, qv=Q)),
    "seqused_q": (NotImplementedError, r"seqused_q: .*cu_seqlens_q",
                  lambda: compat.flash_attn_varlen_func(*PACKED, seqused_q=STARTS)),
    "sm_margin": (NotImplementedError, r"sm_margin: .*: 0",
                  lambda: compat.flash_attn_func(Q, Q, Q, sm_margin=8)),
    "several scales": (NotImplementedError, r"k_descale: shape \(1, 2\) with several values",
                       lambda: compat.flash_attn_func(Q, Q, Q, k_descale=SEVERAL)),
    "float32": (NotImplementedError, r"fp32.*bf16",
                lambda: compat.flash_attn_func(Q.float(), Q.float(), Q.float())),
    "gradients": (NotImplementedError, r"q.requires_grad=True",
                  lambda: compat.flash_attn_func(Q.clone().requires_grad_(), Q, Q)),
    "no tensor": (TypeError, r"q: expected a torch.Tensor",
                  lambda: compat.flash_attn_func([1.0], Q, Q)),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_served_is_refused_in_words(what: str) -> None:
    kind, words, call = REFUSED[what]
    with pytest.raises(kind, match=words):
        call()


def test_hints_about_speed_change_nothing() -> None:
    q, k = normal(2, 24, 4, 64), normal(2, 40, 2, 64, seed=1)
    once = compat.flash_attn_func(q, k, k, causal=True)
    hinted = compat.flash_attn_func(q, k, k, causal=True, deterministic=True, pack_gqa=True)
    assert torch.equal(once, hinted)


def test_every_refusal_names_a_choice() -> None:
    from fa4_cute.compat.meaning import NOT_SERVED

    assert all(re.search("nearest supported choice: .", words) for words in NOT_SERVED.values())

"""Who calls the Hopper kernel by other names: torch's registry, transformers, flash-attn's API.

On a GPU of compute capability 9.0 the tests run there. Elsewhere the same programs run on the
simulator, by the kernels that the GPU would run, which also leaves these in the cache::

    FA4_CUTE_CACHE_DIR=FOLDER python -m pytest -k cpu tests/hardware/test_sm90_callers.py
    FA4_CUTE_CACHE_DIR=FOLDER python -m pytest -k cuda tests/hardware/test_sm90_callers.py
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import (
    SDPBackend,
    activate_flash_attention_impl,
    restore_flash_attention_impl,
    sdpa_kernel,
)
from torch.nn.attention.varlen import varlen_attn

from fa4_cute import compat
from fa4_cute.integrations import torch_sdpa
from tests.compat.plain import agree, attention, normal, offsets, parts
from tests.hardware.hopper import as_on_hopper, on_hopper

DEVICES = [
    pytest.param("cuda", marks=[pytest.mark.gpu, on_hopper]),
    pytest.param("cpu", marks=pytest.mark.exhaustive),
]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the tensors are."""
    with as_on_hopper():
        yield request.param


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of this package's functions that torch's registry and transformers called."""
    names: list[str] = []
    modules: list[tuple[ModuleType, tuple[str, ...]]] = [
        (torch_sdpa, ("sdpa", "flash_attn", "flash_attn_varlen"))
    ]
    if TRANSFORMERS is not None:
        modules.append((TRANSFORMERS, ("flash_attn",)))
    for module, functions in modules:
        for name in functions:
            monkeypatch.setattr(module, name, noted(names, name, getattr(module, name)))
    return names


def noted(names: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function``, whose calls are noted in ``names``."""

    def call(*args: Any, **options: Any) -> Any:
        names.append(name)
        return function(*args, **options)

    return call


@pytest.fixture
def active() -> Iterator[None]:
    activate_flash_attention_impl(torch_sdpa.NAME)
    yield
    restore_flash_attention_impl(_raise_warn=False)


# torch's registry --------------------------------------------------------------------------------


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(("columns", "options"), [(64, {"is_causal": True}), (128, {"scale": 0.2})])
def test_sdpa(device: str, called: list[str], columns: int, options: dict[str, Any]) -> None:
    q = normal(2, 4, 200, columns).to(device)
    k, v = (normal(2, 2, 200, columns, seed=i).to(device) for i in (1, 2))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        ours = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
    assert called == ["sdpa"]
    wide = (q.float(), *(x.float().repeat_interleave(2, 1) for x in (k, v)))
    with sdpa_kernel(SDPBackend.MATH):
        exact = F.scaled_dot_product_attention(*wide, **options)
    torch.testing.assert_close(ours.float(), exact, atol=0.02, rtol=0.02)


@pytest.mark.usefixtures("active")
def test_varlen_attn(device: str, called: list[str]) -> None:
    starts = torch.tensor([0, 7, 7, 137], dtype=torch.int32)
    x, at = normal(137, 2, 64).to(device), starts.to(device)
    by_window = "window_size" in inspect.signature(varlen_attn).parameters
    causal: dict[str, Any] = {"window_size": (-1, 0)} if by_window else {"is_causal": True}
    out = varlen_attn(x, x, x, at, at, 130, 130, **causal).cpu()
    assert called == ["flash_attn_varlen"]
    for first, last in pairwise(starts.tolist()):
        rows = x[first:last].cpu()
        agree(out[first:last], None, attention(rows, rows, rows, causal=True))


@pytest.mark.usefixtures("active")
def test_what_needs_a_backward_pass_is_computed_by_torch(device: str, called: list[str]) -> None:
    q = normal(1, 2, 64, 64).to(device).requires_grad_()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(q, q, q).sum().backward()
    assert called == []
    assert q.grad is not None
    assert q.grad.isfinite().all()


# flash-attn's functions --------------------------------------------------------------------------


def test_flash_attn_func(device: str) -> None:
    q, k, v = normal(2, 140, 4, 64), normal(2, 300, 2, 64, seed=1), normal(2, 300, 2, 64, seed=2)
    slopes = torch.tensor([[0.5, 0.25, 0.125, 0.0], [0.1, 0.2, 0.3, 0.4]])
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    stated: dict[str, Any] = {"window_size": (90, 3), "softcap": 2.0, "softmax_scale": 0.3}
    out, lse = compat.flash_attn_func(
        *(x.to(device) for x in (q, k, v)), alibi_slopes=slopes.to(device),
        s_aux=sinks.to(device), return_softmax_lse=True, **stated,
    )  # fmt: skip
    for b in range(2):
        exact = attention(q[b], k[b], v[b], alibi_slopes=slopes[b], s_aux=sinks, **stated)
        agree(out[b].cpu(), lse[b].cpu(), exact)


def test_flash_attn_varlen_func(device: str) -> None:
    at_q, at_k = offsets([7, 0, 130]), offsets([20, 5, 200])
    q, k, v = normal(137, 4, 128), normal(225, 2, 128, seed=1), normal(225, 2, 128, seed=2)
    on = [x.to(device) for x in (q, k, v, at_q, at_k)]
    out, lse = compat.flash_attn_varlen_func(
        on[0], on[1], on[2], on[3], on[4], 130, 200, causal=True, return_softmax_lse=True
    )
    each = zip(parts(q, at_q), parts(k, at_k), parts(v, at_k), parts(out.cpu(), at_q),
               parts(lse.cpu().T, at_q), strict=True)  # fmt: skip
    for qs, ks, vs, found, of_lse in each:
        agree(found, of_lse.T, attention(qs, ks, vs, causal=True))


@pytest.mark.parametrize("is_paged", [False, True], ids=["rows", "pages"])
def test_flash_attn_with_kvcache(device: str, is_paged: bool) -> None:
    """New keys go into the cache, and the queries see them."""
    used, room = [130, 0], 192
    q, k, v = normal(2, 3, 8, 64), normal(2, 3, 2, 64, seed=1), normal(2, 3, 2, 64, seed=2)
    whole = [normal(2, room, 2, 64, seed=seed) for seed in (5, 6)]
    table = torch.tensor([[5, 0, 2], [1, 3, 4]], dtype=torch.int32)
    caches = [x.clone() for x in whole]
    if is_paged:
        for cache, rows in zip(caches, whole, strict=True):
            pages = cache.view(6, 64, 2, 64)
            pages[table.flatten().long()] = rows.view(6, 64, 2, 64)
        caches = [cache.view(6, 64, 2, 64) for cache in caches]
    k_cache, v_cache = (cache.to(device) for cache in caches)
    out = compat.flash_attn_with_kvcache(
        q.to(device), k_cache, v_cache, k.to(device), v.to(device), causal=True,
        cache_seqlens=torch.tensor(used, dtype=torch.int32, device=device),
        block_table=table.to(device) if is_paged else None,
    ).cpu()  # fmt: skip
    for row, count in enumerate(used):
        keys, values = (torch.cat((old[row, :count], new[row])) for old, new
                        in zip(whole, (k, v), strict=True))  # fmt: skip
        agree(out[row], None, attention(q[row], keys, values, causal=True))
    held = k_cache.cpu()
    held = held[table.long()].flatten(1, 2) if is_paged else held
    assert torch.equal(held[0, 130:133], k[0])


# transformers ------------------------------------------------------------------------------------

try:
    from fa4_cute.integrations import transformers as TRANSFORMERS
    from tests.integrations import test_transformers as models
except ImportError:
    TRANSFORMERS = None  # type: ignore[assignment]  # not installed
needs_transformers = pytest.mark.skipif(
    TRANSFORMERS is None, reason="transformers is not installed; `make setup` does it"
)
DECODERS = {
    "Llama": ("llama", "sdpa"),
    "Mistral: window": ("mistral", "sdpa"),
    "Gemma 2: window and softcap": ("gemma2", "eager"),
    "GPT-OSS: sinks": ("gpt_oss", "eager"),
}


def ran_there(model: Any, device: str, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the prompt, without padding, and the new tokens, on the cpu."""
    ids, shown = (x.to(device) for x in models.prompt())
    with torch.no_grad():
        logits = model(ids, attention_mask=shown).logits.float()
        tokens = model.generate(
            ids, attention_mask=shown, max_new_tokens=models.NEW, do_sample=False, **options
        )
    return logits[shown.bool()].cpu(), tokens[:, -models.NEW :].cpu()


@needs_transformers
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_generates_the_same_tokens(device: str, called: list[str], name: str) -> None:
    make, other = DECODERS[name]
    torch.manual_seed(0)
    model = getattr(models, make)().to(torch.bfloat16).eval().to(device)
    model.set_attn_implementation(other)
    exact, tokens = ran_there(model, device)
    assert called == []
    model.set_attn_implementation(TRANSFORMERS.NAME)
    logits, same = ran_there(model, device)
    assert len(called) == (1 + models.NEW) * model.config.num_hidden_layers
    assert torch.equal(same, tokens)
    torch.testing.assert_close(logits, exact, atol=0.03 * float(exact.abs().max()), rtol=0.03)


@needs_transformers
def test_an_encoder_sees_no_padding(device: str, called: list[str]) -> None:
    from transformers import BertConfig, BertModel

    sizes = {name: size for name, size in models.SIZES.items() if hasattr(BertConfig(), name)}
    torch.manual_seed(0)
    model = BertModel(BertConfig(**sizes)).to(torch.bfloat16).eval().to(device)
    ids, shown = (x.to(device) for x in models.prompt())
    found = []
    for name in ("sdpa", TRANSFORMERS.NAME):
        model.set_attn_implementation(name)
        with torch.no_grad():
            found.append(model(ids, attention_mask=shown).last_hidden_state.float())
    assert called == ["flash_attn"]
    seen = shown.bool()
    torch.testing.assert_close(found[1][seen], found[0][seen], atol=0.05, rtol=0.05)

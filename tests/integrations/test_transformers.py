"""Models of transformers generate the same tokens with this attention as with their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.integrations.launches import launches

pytest.importorskip("transformers", reason="transformers is not installed; `make setup` does it")

from transformers import AttentionInterface
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    chunked_causal_mask_function,
    sdpa_mask,
    sliding_window_causal_mask_function,
)

from fa4_cute.integrations import transformers as ours

__all__ = ["launches"]

WINDOW, NEW = 8, 4
SIZES: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 64, "num_hidden_layers": 1,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None, "initializer_range": 0.3,
    "tie_word_embeddings": False,
}  # fmt: skip


def llama(**sizes: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SIZES | sizes))


def mistral() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=WINDOW))


def gemma2() -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    special = {"attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 16, "sliding_window": WINDOW,
               "layer_types": ["sliding_attention"]}  # fmt: skip
    return Gemma2ForCausalLM(Gemma2Config(**SIZES, **special))


def gpt_oss() -> Any:
    from transformers import GptOssConfig, GptOssForCausalLM

    # Both experts for every token: a router that may go either way would hide the attention.
    special = {"num_local_experts": 2, "num_experts_per_tok": 2, "layer_types": ["full_attention"],
               "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}  # fmt: skip
    model = GptOssForCausalLM(GptOssConfig(**SIZES, **special))
    with torch.no_grad():
        model.model.layers[0].self_attn.sinks.copy_(torch.tensor([2.0, -1.0, 0.5, 3.0]))
    return model


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "Gemma 2: window and softcap": (gemma2, "eager"),
    "GPT-OSS: sinks": (gpt_oss, "eager"),
}


def prompt() -> tuple[torch.Tensor, torch.Tensor]:
    """Two sequences of 20 tokens, the first with 7 of padding at its left."""
    ids = torch.randint(3, 100, (2, 20), generator=torch.Generator().manual_seed(1))
    shown = torch.ones_like(ids)
    shown[0, :7] = 0
    return ids, shown


def generated(model: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the prompt, without padding, and the new tokens."""
    ids, shown = prompt()
    with torch.no_grad():
        logits = model(ids, attention_mask=shown).logits.float()
        tokens = model.generate(
            ids, attention_mask=shown, max_new_tokens=NEW, do_sample=False, **options
        )
    return logits[shown.bool()], tokens[:, -NEW:]


def compare(make: Callable[[], Any], other: str, launched: list[str], **options: Any) -> None:
    torch.manual_seed(0)
    model = make().to(torch.bfloat16).eval()
    model.set_attn_implementation(other)
    exact, tokens = generated(model, **options)
    assert launched == []
    model.set_attn_implementation(ours.NAME)
    logits, same = generated(model, **options)
    # One pass over the prompt alone; generating is a pass over the prompt and one for each token
    # but the last.
    assert len(launched) == (1 + NEW) * model.config.num_hidden_layers
    assert torch.equal(same, tokens)
    torch.testing.assert_close(logits, exact, atol=0.03 * float(exact.abs().max()), rtol=0.03)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if "Gemma" in name else ()) for name in MODELS
])  # fmt: skip
def test_a_model_generates_the_same_tokens(name: str, launches: list[str]) -> None:
    make, other = MODELS[name]
    compare(make, other, launches)


@pytest.mark.exhaustive
def test_mistral_generates_the_same_tokens(launches: list[str]) -> None:
    compare(mistral, "sdpa", launches)


@pytest.mark.exhaustive
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_llama_generates_the_same_tokens(cache: str, launches: list[str]) -> None:
    sizes = {"num_hidden_layers": 2, "initializer_range": 0.1}
    compare(lambda: llama(**sizes), "sdpa", launches, cache_implementation=cache)


@pytest.mark.exhaustive
def test_bert_sees_no_padding(launches: list[str]) -> None:
    from transformers import BertConfig, BertModel

    sizes = {name: SIZES[name] for name in (
        "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads",
        "max_position_embeddings", "num_hidden_layers", "pad_token_id")}  # fmt: skip
    torch.manual_seed(0)
    model = BertModel(BertConfig(**sizes)).to(torch.bfloat16).eval()
    ids, shown = prompt()
    found = []
    for name in ("sdpa", ours.NAME):
        model.set_attn_implementation(name)
        with torch.no_grad():
            found.append(model(ids, attention_mask=shown).last_hidden_state.float())
    torch.testing.assert_close(found[1], found[0], atol=0.05, rtol=0.05)
    assert len(launches) == 1


class Config:
    """The two entries that tell windows and chunks apart."""

    def __init__(self, window: int | None = None, chunk: int | None = None) -> None:
        self.sliding_window = window
        self.attention_chunk_size = chunk


PADDED = prompt()[1].bool()


def test_causal_masks_and_windows_stay_intervals() -> None:
    full = torch.ones_like(PADDED)
    window = sliding_window_causal_mask_function(WINDOW)
    local = {"mask_function": window, "local_size": WINDOW, "config": Config(WINDOW)}
    assert ours.attention_mask(2, 20, 20) is None
    assert ours.attention_mask(2, 20, 20, attention_mask=full) is None
    assert ours.attention_mask(2, 20, 20, attention_mask=full, **local) is None
    for options in ({}, local):
        assert torch.equal(ours.attention_mask(2, 20, 20, attention_mask=PADDED, **options), PADDED)
    # The cache of a window holds the last keys only.
    last = ours.attention_mask(2, 1, 8, 19, 12, attention_mask=PADDED, **local)
    assert last is None
    last = ours.attention_mask(2, 1, 16, 19, 4, attention_mask=PADDED, **local)
    assert torch.equal(last, PADDED[:, 4:])


def test_padding_of_a_bidirectional_mask_is_one_row() -> None:
    given: dict[str, Any] = {"mask_function": bidirectional_mask_function}
    assert ours.attention_mask(2, 20, 20, **given, allow_is_bidirectional_skip=True) is None
    shown = ours.attention_mask(2, 20, 20, attention_mask=PADDED, **given)
    assert shown is not None
    assert shown.shape == (2, 1, 1, 20)
    whole = sdpa_mask(2, 20, 20, attention_mask=PADDED, allow_is_causal_skip=False, **given)
    assert torch.equal(shown.expand_as(whole), whole)


@pytest.mark.parametrize("what", ["chunk", "queries before the end", "not to be skipped", "other"])
def test_other_masks_are_written_out(what: str) -> None:
    chunk = chunked_causal_mask_function(6, torch.zeros(2, dtype=torch.int64))
    options: dict[str, Any] = {
        "chunk": {"mask_function": chunk, "local_size": 6, "config": Config(chunk=6)},
        "queries before the end": {"q_offset": torch.tensor(0)},
        "not to be skipped": {"allow_is_causal_skip": False},
        "other": {"mask_function": lambda b, h, q, k: (k <= q) | (k < 3)},
    }[what]
    found = ours.attention_mask(2, 20, 20, attention_mask=PADDED, **options)
    kept = {k: v for k, v in options.items() if k not in ("config", "allow_is_causal_skip")}
    want = sdpa_mask(2, 20, 20, attention_mask=PADDED, allow_is_causal_skip=False, **kept)
    assert found is not None
    assert found.shape == (2, 1, 20, 20)
    assert torch.equal(found, want)
    assert causal_mask_function(0, 0, 1, 1)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "dropout": ({"dropout": 0.1}, "dropout_p=0.1"),
    "weights": ({"output_attentions": True}, "output_attentions=True: .*eager"),
    "pages": ({"cache": object()}, "cache: continuous batching"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_served_is_refused_in_words(what: str) -> None:
    options, words = REFUSED[what]
    q = torch.zeros(1, 2, 4, 32, dtype=torch.bfloat16)
    with pytest.raises(NotImplementedError, match=words):
        ours.attention_forward(torch.nn.Module(), q, q, q, None, **options)


WIDE = torch.randn(1, 4, 20, 32, generator=torch.Generator().manual_seed(0))


def test_a_module_in_float32_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="fp32"):
        ours.attention_forward(torch.nn.Linear(4, 4), WIDE, WIDE[:, :2], WIDE[:, :2], None)


@pytest.mark.exhaustive
def test_float32_is_narrowed_where_the_module_has_16_bits(launches: list[str]) -> None:
    q, k = WIDE, WIDE[:, :2]
    module = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
    bias = torch.randn(1, 4, 20, 20, generator=torch.Generator().manual_seed(1))
    shown = PADDED[:1, None, None]
    out, _ = ours.attention_forward(module, q, k, k, shown, position_bias=bias)
    assert out.dtype == torch.float32
    wide = k.repeat_interleave(2, 1)
    mask = bias.masked_fill(~shown, float("-inf"))
    exact = torch.nn.functional.scaled_dot_product_attention(q, wide, wide, mask).transpose(1, 2)
    torch.testing.assert_close(out, exact, atol=0.03, rtol=0.03)
    assert len(launches) == 1
    with torch.autocast("cpu", torch.bfloat16):
        again, _ = ours.attention_forward(torch.nn.Linear(4, 4), q, k, k, shown, position_bias=bias)
    assert torch.equal(again, out)


def test_the_name_is_registered() -> None:
    assert AttentionInterface()[ours.NAME] is ours.attention_forward

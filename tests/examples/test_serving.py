"""Backends for vLLM and SGLang: a mixed batch over a paged cache, on stand-in base classes."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.compat.plain import agree, attention, normal, offsets

from .stand_ins import CHOICES, REGISTERED, Names, example

PAGE, HEADS, KV_HEADS, COLUMNS = 16, 4, 2, 64
KEYS, NEW = [25, 31], [5, 1]
"""Keys of the two requests, the new ones included: one goes on with its prompt, one decodes."""
TABLE = torch.tensor([[5, 0, -1], [1, 3, -1]], dtype=torch.int32)
SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0])
OPTIONS = [
    pytest.param({}, id="plain"),
    pytest.param({"window": 9, "softcap": 2.0, "sinks": SINKS}, id="window, softcap, sinks",
                 marks=pytest.mark.exhaustive),
]  # fmt: skip


class Batch:
    """Keys and values of two requests, their new tokens, and the caches before the pass."""

    def __init__(self) -> None:
        total = sum(NEW)
        self.q = normal(total, HEADS, COLUMNS)
        self.sequences = [[normal(n, KV_HEADS, COLUMNS, seed=10 * i + j)
                           for i, n in enumerate(KEYS)] for j in (1, 2)]  # fmt: skip
        self.new = [torch.cat([s[-n:] for s, n in zip(of, NEW, strict=True)])
                    for of in self.sequences]  # fmt: skip
        self.caches = torch.full((2, 6, PAGE, KV_HEADS, COLUMNS), float("nan")).bfloat16()
        for cache, of in zip(self.caches, self.sequences, strict=True):
            for i, (keys, new) in enumerate(zip(of, NEW, strict=True)):
                cache.flatten(0, 1)[self.slots(i)[: len(keys) - new]] = keys[: len(keys) - new]
        self.new_slots = torch.cat([self.slots(i)[-n:] for i, n in enumerate(NEW)])

    def slots(self, request: int) -> torch.Tensor:
        """Places of a request's keys in the cache."""
        at = torch.arange(KEYS[request])
        return TABLE[request].long()[at // PAGE] * PAGE + at % PAGE

    def check(self, out: torch.Tensor, options: dict[str, Any]) -> None:
        """Compare (tokens, heads, columns) with the documented attention, and look at the cache."""
        stated = {"causal": True, "softcap": options.get("softcap", 0.0)}
        stated["s_aux"] = options.get("sinks")
        if "window" in options:
            stated["window_size"] = (options["window"] - 1, 0)
        for i, (first, last) in enumerate(pairwise(offsets(NEW).tolist())):
            k, v = (of[i] for of in self.sequences)
            agree(out[first:last], None, attention(self.q[first:last], k, v, **stated))
        for cache, of in zip(self.caches, self.sequences, strict=True):
            for i, keys in enumerate(of):
                assert torch.equal(cache.flatten(0, 1)[self.slots(i)], keys)


@pytest.mark.parametrize("options", OPTIONS)
def test_vllm(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("vllm_backend", monkeypatch)
    backend = REGISTERED[Names.CUSTOM]()
    assert backend.get_kv_cache_shape(6, PAGE, KV_HEADS, COLUMNS) == (2, 6, PAGE, KV_HEADS, COLUMNS)
    assert backend.supports_head_size(COLUMNS)
    assert not backend.supports_head_size(1024)
    assert backend.supports_compute_capability(SimpleNamespace(major=10))
    assert not backend.supports_compute_capability(SimpleNamespace(major=9))
    assert PAGE in backend.get_supported_kernel_block_sizes()
    batch = Batch()
    builder = backend.get_builder_cls()(None, ["layer"], None, torch.device("cpu"))
    common = SimpleNamespace(
        num_actual_tokens=sum(NEW), max_query_len=max(NEW), query_start_loc=offsets(NEW),
        seq_lens=torch.tensor(KEYS, dtype=torch.int32), block_table_tensor=TABLE,
        slot_mapping=batch.new_slots, causal=True,
    )  # fmt: skip
    layer = backend.get_impl_cls()(
        HEADS, COLUMNS, COLUMNS**-0.5, KV_HEADS, sliding_window=options.get("window"),
        logits_soft_cap=options.get("softcap"), sinks=options.get("sinks"),
    )  # fmt: skip
    # vLLM pads a batch; what comes after the tokens is neither read nor written.
    padded = [torch.cat((x, torch.full_like(x[:2], float("nan")))) for x in (batch.q, *batch.new)]
    output = torch.full_like(padded[0], 7.0)
    found = layer.forward(None, *padded, batch.caches, builder.build(0, common), output)
    assert found is output
    assert (output[sum(NEW) :] == 7.0).all()
    batch.check(output[: sum(NEW)], options)
    assert not layer.forward(None, *padded, batch.caches, None, output).any()
    with pytest.raises(NotImplementedError, match="decoders only"):
        module.Fa4CuteImpl(HEADS, COLUMNS, 1.0, attn_type="encoder")


class Pool:
    """SGLang's pool of keys and values: token slots."""

    def __init__(self, caches: torch.Tensor) -> None:
        self.caches = caches.flatten(1, 2)

    def set_kv_buffer(self, layer: Any, places: torch.Tensor, *new_ones: torch.Tensor) -> None:
        for cache, new in zip(self.caches, new_ones, strict=True):
            cache[places] = new

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, ...]:
        return tuple(self.caches.unbind(0))


@pytest.mark.parametrize("options", OPTIONS)
def test_sglang(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    example("sglang_backend", monkeypatch)
    batch = Batch()
    tokens = torch.zeros(4, 2 * PAGE, dtype=torch.int32)
    rows = torch.tensor([2, 0])
    for i, row in enumerate(rows.tolist()):
        tokens[row, : KEYS[i]] = batch.slots(i).int()
    runner = SimpleNamespace(
        req_to_token_pool=SimpleNamespace(req_to_token=tokens), page_size=PAGE,
        use_mla_backend=False,
    )  # fmt: skip
    assert CHOICES[-1:] == ["fa4_cute"]
    create = REGISTERED["fa4_cute"]
    backend = create(runner)
    layer = SimpleNamespace(
        tp_q_head_num=HEADS, tp_k_head_num=KV_HEADS, head_dim=COLUMNS, v_head_dim=COLUMNS,
        layer_id=0, scaling=COLUMNS**-0.5, logit_cap=options.get("softcap", 0.0),
        sliding_window_size=options.get("window", 0) - 1, is_cross_attention=False,
    )  # fmt: skip
    of_batch = SimpleNamespace(
        seq_lens=torch.tensor(KEYS), seq_lens_cpu=torch.tensor(KEYS), req_pool_indices=rows,
        extend_seq_lens=torch.tensor(NEW), extend_seq_lens_cpu=NEW,
        forward_mode=SimpleNamespace(is_decode=lambda: False), out_cache_loc=batch.new_slots,
        token_to_kv_pool=Pool(batch.caches),
    )  # fmt: skip
    backend.init_forward_metadata(of_batch)
    more = {"sinks": options["sinks"]} if "sinks" in options else {}
    out = backend.forward(batch.q.flatten(1), *batch.new, layer, of_batch, **more)
    assert out.shape == (sum(NEW), HEADS * COLUMNS)
    batch.check(out.view(-1, HEADS, COLUMNS), options)
    # The same keys once more, each request with its last token only.
    of_batch.forward_mode = SimpleNamespace(is_decode=lambda: True)
    backend.init_forward_metadata(of_batch)
    last = offsets(NEW)[1:].long() - 1
    more["save_kv_cache"] = False
    again = backend.forward(batch.q[last].flatten(1), None, None, layer, of_batch, **more)
    assert torch.equal(again, out[last])
    refused: dict[str, dict[str, Any]] = {
        "--page-size 1: .*16": {"page_size": 1}, "MLA": {"use_mla_backend": True},
    }  # fmt: skip
    for words, wrong in refused.items():
        with pytest.raises(ValueError, match=words):
            create(SimpleNamespace(**vars(runner) | wrong))

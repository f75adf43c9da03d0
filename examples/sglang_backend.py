"""An attention backend for SGLang over ``fa4_cute.compat``; an example, not run on a GPU here.

Import it before the server reads its arguments, and choose it::

    import examples.sglang_backend
    # --attention-backend fa4_cute --page-size 64 --disable-cuda-graph

Written for the interfaces of SGLang's ``base_attn_backend.py``, ``attention_registry.py`` and
``server_args.py``, the first two read at commits 43681aaa and 00a66ebe. A test drives it with
stand-ins for these and a paged cache. Decoders without speculation; keys and values in 16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.layers.attention.attention_registry import register_attention_backend
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.server_args import add_attention_backend_choices

from fa4_cute.compat import flash_attn_with_kvcache


@dataclass
class Fa4CuteMetadata:
    """What all layers of one pass share.

    Attributes:
        cache_seqlens: (requests,), int32: keys of each request, the new ones included.
        page_table: (requests, pages), int32.
        cu_seqlens_q: (requests + 1,), int32: first token of each request.
        max_seqlen_q: most new tokens of a request.
    """

    cache_seqlens: torch.Tensor
    page_table: torch.Tensor
    cu_seqlens_q: torch.Tensor
    max_seqlen_q: int


class Fa4CuteBackend(AttentionBackend):
    """Attention of all layers of a model."""

    def __init__(self, runner: Any) -> None:
        super().__init__()
        self.req_to_token = runner.req_to_token_pool.req_to_token
        self.page_size = runner.page_size
        self.metadata: Fa4CuteMetadata | None = None

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Describe a batch: SGLang's table of token slots becomes one of pages."""
        lengths = forward_batch.seq_lens.int()
        most = int(forward_batch.seq_lens_cpu.max())
        slots = self.req_to_token[forward_batch.req_pool_indices, : most : self.page_size]
        if forward_batch.forward_mode.is_decode():
            count, longest = torch.ones_like(lengths), 1
        else:
            count, longest = forward_batch.extend_seq_lens, max(forward_batch.extend_seq_lens_cpu)
        starts = torch.nn.functional.pad(count.cumsum(0), (1, 0)).int()
        self.metadata = Fa4CuteMetadata(lengths, (slots // self.page_size).int(), starts, longest)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """Return the length of requests that only fill up a graph."""
        return 1

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **options: Any,
    ) -> torch.Tensor:
        """Return the result for one new token of each request; as :meth:`forward_extend`."""
        return self.forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **options)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        *,
        sinks: torch.Tensor | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """Write the new keys into the pool and return (tokens, num_q_heads * v_head_dim).

        Args:
            q: (tokens, num_q_heads * head_dim).
            k, v: (tokens, num_kv_heads, head_dim), or None where another layer wrote them.
            layer: SGLang's module: heads, head dimensions, scaling, cap and window.
            forward_batch: SGLang's description of the batch.
            save_kv_cache: whether the keys are to be written.
            sinks: (num_q_heads,), or None.
            options: must be empty; they are for other backends.
        """
        assert self.metadata is not None, "init_forward_metadata comes first"
        if options or layer.is_cross_attention:
            raise NotImplementedError(f"{sorted(options) or 'cross attention'}: not served")
        pool = forward_batch.token_to_kv_pool
        if save_kv_cache and k is not None:
            pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v)
        keys, values = (
            cache.view(-1, self.page_size, layer.tp_k_head_num, cache.shape[-1])
            for cache in pool.get_kv_buffer(layer.layer_id)
        )
        window = layer.sliding_window_size  # keys before a token's own; -1 is open
        given = self.metadata
        out = flash_attn_with_kvcache(
            q.view(-1, layer.tp_q_head_num, layer.head_dim),
            keys,
            values,
            cache_seqlens=given.cache_seqlens,
            page_table=given.page_table,
            cu_seqlens_q=given.cu_seqlens_q,
            max_seqlen_q=given.max_seqlen_q,
            softmax_scale=layer.scaling,
            causal=True,
            window_size=(-1, -1) if window < 0 else (window, 0),
            softcap=layer.logit_cap,
            s_aux=sinks,
            unchecked=True,  # the lengths are SGLang's own
        )
        return out.reshape(-1, layer.tp_q_head_num * layer.v_head_dim)


@register_attention_backend("fa4_cute")
def create_fa4_cute_backend(runner: Any) -> Fa4CuteBackend:
    """Return the backend of a model; SGLang calls this.

    Raises:
        ValueError: the model uses MLA, or pages of a size that no kernel reads.
    """
    if runner.use_mla_backend:
        raise ValueError("fa4_cute: no MLA decoding; nearest supported choice: trtllm_mla")
    if runner.page_size not in (16, 32, 64, 128, 256):
        raise ValueError(
            f"--page-size {runner.page_size}: nearest supported choice: 16, 32, 64, 128 or 256"
        )
    return Fa4CuteBackend(runner)


add_attention_backend_choices(["fa4_cute"])

"""An attention backend for vLLM over ``fa4_cute.compat``; an example, not run on a GPU here.

Load it as a plugin (entry point group ``vllm.general_plugins``, a function that imports this
module), or import it before the engine starts, and choose it::

    import examples.vllm_backend
    llm = LLM(model, attention_backend="CUSTOM", block_size=64, enforce_eager=True)

Written for the interfaces of vLLM's ``vllm/v1/attention/backend.py`` and ``registry.py``, read at
commits 0014ca6b and 0033bf03. A test drives it with stand-ins for these base classes and a paged
cache. Decoders only; keys and values in 16 bits; no CUDA graphs and no cascades.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadataBuilder,
    AttentionType,
)
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

import fa4_cute
from fa4_cute.compat import flash_attn_varlen_func


@dataclass
class Fa4CuteMetadata:
    """What all layers of one pass share.

    Attributes:
        num_tokens: tokens of the batch, without padding.
        max_query_len: most new tokens of a request.
        query_start_loc: (requests + 1,), int32: first token of each request.
        seq_lens: (requests,), int32: keys of each request, the new ones included.
        block_table: (requests, blocks), int32.
        slot_mapping: (num_tokens,): where each token's key goes, block * block_size + place.
        causal: whether a token sees only what comes before it.
    """

    num_tokens: int
    max_query_len: int
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    causal: bool = True


class Fa4CuteMetadataBuilder(AttentionMetadataBuilder[Fa4CuteMetadata]):
    """Takes from vLLM's description of a batch what the kernel reads."""

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False
    ) -> Fa4CuteMetadata:
        """Return the metadata of a batch."""
        given = common_attn_metadata
        return Fa4CuteMetadata(
            num_tokens=given.num_actual_tokens,
            max_query_len=given.max_query_len,
            query_start_loc=given.query_start_loc,
            seq_lens=given.seq_lens,
            block_table=given.block_table_tensor,
            slot_mapping=given.slot_mapping,
            causal=given.causal,
        )


class Fa4CuteImpl(AttentionImpl[Fa4CuteMetadata]):
    """Attention of one layer."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: torch.Tensor | None = None,
    ) -> None:
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.kv_cache_dtype = kv_cache_dtype
        self.shares_cache = kv_sharing_target_layer_name is not None
        self.slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes)
        # vLLM counts a token's own key among those of the window.
        self.window = (-1, -1) if sliding_window is None else (sliding_window - 1, 0)
        self.softcap = logits_soft_cap or 0.0
        self.sinks = sinks
        if attn_type != AttentionType.DECODER:
            raise NotImplementedError(f"attn_type={attn_type}: decoders only")

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Fa4CuteMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Write the new keys into the cache and the result into ``output``.

        Args:
            layer: vLLM's module; unused, since nothing is quantised.
            query: (tokens, num_heads, head_size), padded at the end.
            key, value: (tokens, num_kv_heads, head_size).
            kv_cache: (2, blocks, block_size, num_kv_heads, head_size).
            attn_metadata: None while vLLM measures memory.
            output: shape of ``query``.
            output_scale, output_block_scale: None; the result is not quantised.
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("output_scale: the output is not quantised")
        if attn_metadata is None:
            return output.zero_()
        count, of_batch = attn_metadata.num_tokens, attn_metadata
        if not self.shares_cache:
            slots = of_batch.slot_mapping[:count].long()
            for cache, new in zip(kv_cache.unbind(0), (key, value), strict=True):
                cache.flatten(0, 1)[slots] = new[:count]
        slopes = None if self.slopes is None else self.slopes.to(query.device)
        keys, values = kv_cache.unbind(0)
        flash_attn_varlen_func(
            query[:count],
            keys,
            values,
            of_batch.query_start_loc,
            None,
            of_batch.max_query_len,
            seqused_k=of_batch.seq_lens,
            block_table=of_batch.block_table,
            softmax_scale=self.scale,
            causal=of_batch.causal,
            window_size=self.window,
            softcap=self.softcap,
            alibi_slopes=slopes,
            s_aux=self.sinks,
            out=output[:count],
            unchecked=True,  # the lengths are vLLM's own
        )
        return output


@register_backend(AttentionBackendEnum.CUSTOM)
class Fa4CuteBackend(AttentionBackend):
    """What vLLM asks before it chooses a backend."""

    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16]
    forward_includes_kv_cache_update: bool = True

    @staticmethod
    def get_name() -> str:
        """Return the name in vLLM's log; the registry has no place for others than CUSTOM."""
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[Fa4CuteImpl]:
        """Return the class of a layer."""
        return Fa4CuteImpl

    @staticmethod
    def get_builder_cls() -> type[Fa4CuteMetadataBuilder]:
        """Return the class that describes a batch."""
        return Fa4CuteMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[Any]:
        """Return the keys per page that kernels read."""
        return [16, 32, 64, 128, 256]

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",
    ) -> tuple[int, ...]:
        """Return the shape of a layer's cache: keys, then values."""
        return (2, num_blocks, block_size, num_kv_heads, head_size)

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Return whether a kernel has this head dimension."""
        return fa4_cute.can_implement(head_dim=head_size, causal=True).ok

    @classmethod
    def supports_sink(cls) -> bool:
        """Return True: sinks go with everything."""
        return True

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        """Return whether kernels run there: Blackwell data center GPUs, 10.x."""
        return bool(capability.major == 10)

"""The K/V tile copy: what is compiled, which tensors it copies, and how it is launched.

The image of a launch is, for every (batch entry, head) and every key tile, the bytes of the K slot
and then of the V slot as they lie in shared memory, swizzle, fills and all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

import numpy as np

from fa4_cute.host.compile.compiler import CompiledArtifact, compile_traced
from fa4_cute.host.run.launch import Encoder, PackedLaunch
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.tuning import Tuning
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import WARP_GROUP_THREADS, WARP_THREADS, WARPS_PER_GROUP
from fa4_cute.plan.facts.tensor_map_bits import encode_tensor_map
from fa4_cute.plan.launch.launch import LaunchPlan
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.params import KernelParams, lay_out
from fa4_cute.plan.spec.tensor_maps import OperandLayout, key_map
from fa4_cute.plan.spec.variant import Variant

CONSUMER_THREADS: Final = WARP_GROUP_THREADS
PRODUCER_WARP: Final = WARPS_PER_GROUP
"""The warp after the consumers."""
COPY_BARRIER: Final = 1
COPY_BYTES: Final = 16
"""Bytes that a thread copies at a time."""
HOPPER: Final = "sm_90a"
PARAMS: Final = lay_out(
    ("k_map", "tensor_map"), ("v_map", "tensor_map"), ("image", "u64"), ("seqlen_k", "u32")
)


@dataclass(frozen=True)
class KvCopySpec:
    """Static choices of one compiled copy: the attention kernel whose rings it runs, the target."""

    attention: KernelSpec
    arch: str
    params: KernelParams = PARAMS

    @property
    def name(self) -> str:
        """Entry name of the kernel."""
        config = self.attention.config
        return f"kv_copy_{self.arch}_d{config.qk_depth}_q{config.num_qo}"

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.attention.config.smem_used

    @property
    def cluster_size(self) -> int:
        """CTAs per cluster."""
        return 1

    @property
    def config(self) -> FA4Config:
        """The rings' configuration, for messages of the cache."""
        return self.attention.config

    @property
    def causal(self) -> bool:
        """A copy masks nothing."""
        return self.attention.causal

    @property
    def return_lse(self) -> bool:
        """A copy has no statistics."""
        return self.attention.return_lse

    @property
    def variant(self) -> Variant:
        """The features of the attention kernel, for messages of the cache."""
        return self.attention.variant

    @property
    def num_threads(self) -> int:
        """Threads of a CTA: four consumer warps and the producer."""
        return CONSUMER_THREADS + WARP_THREADS

    @property
    def tile_bytes(self) -> int:
        """Bytes of a key tile in the image: its K slot and its V slot."""
        layout = AttentionSMemLayout(self.attention.config)
        return layout.k_stage_bytes + layout.v_stage_bytes


@dataclass(frozen=True)
class KvCopyCase:
    """One launch: K and V are bf16 (batch, seqlen, heads, head_dim)."""

    name: str
    head_dim: int
    batch: int
    seqlen: int
    heads: int
    num_qo: int = 2

    def spec(self, arch: str) -> KvCopySpec:
        """Return what has to be compiled."""
        config = FA4Config.for_attention(DType.BF16, self.head_dim, num_qo=self.num_qo)
        # A chip's answers are of these tiles, whatever the table of choices says today.
        return KvCopySpec(KernelSpec(replace(config, tuning=Tuning())), arch)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of K and of V."""
        return self.batch, self.seqlen, self.heads, self.head_dim

    @property
    def num_tiles(self) -> int:
        """Key tiles of a head."""
        return -(-self.seqlen // self.spec(HOPPER).attention.config.BN)

    @property
    def image_bytes(self) -> int:
        """Bytes of the image."""
        return self.batch * self.heads * self.num_tiles * self.spec(HOPPER).tile_bytes

    def operands(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bits of K and V: every 16-bit pattern, no two neighbours alike."""
        count = int(np.prod(self.shape))
        index = np.arange(count, dtype=np.uint64)
        k = (index * 40503 + (index >> 16) * 7).astype(np.uint16)
        v = (index * 52711 + (index >> 16) * 13 + 1).astype(np.uint16)
        return k.reshape(self.shape), v.reshape(self.shape)

    def pack(
        self, addresses: tuple[int, int, int], encode: Encoder = encode_tensor_map
    ) -> PackedLaunch:
        """Return the launch for the addresses of K, V and the image."""
        attention = self.spec(HOPPER).attention
        layout = OperandLayout.contiguous(self.shape)
        maps = {
            f"{name}_map": encode(key_map(attention, name, layout).fields(address))
            for name, address in zip("kv", addresses, strict=False)
        }
        values: dict[str, bytes | int | float] = {**maps, "image": addresses[2], "seqlen_k": self.seqlen}
        plan = LaunchPlan(
            grid=(1, self.heads, self.batch),
            block=(self.spec(HOPPER).num_threads, 1, 1),
            cluster=(1, 1, 1),
            smem_bytes=attention.config.smem_used,
            scalars={},
        )
        return PackedLaunch(plan, tuple(PARAMS.pack(values)))


CASES: Final = (
    KvCopyCase("split rings", 64, 2, 1100, 2),
    KvCopyCase("fused ring", 128, 1, 1033, 2),
    KvCopyCase("fused ring, padded head dimension", 72, 2, 700, 1),
    KvCopyCase("three chunks", 192, 1, 405, 2),
    KvCopyCase("split rings, K in two parts", 128, 1, 700, 1, num_qo=1),
    KvCopyCase("fewer keys than a tile", 128, 1, 5, 1),
)
"""Each wraps its ring and ends inside a tile; the last one is less than a tile."""


def compile_copy(spec: KvCopySpec) -> CompiledArtifact:
    """Compile ``spec`` with CuTe DSL; needs no GPU."""

    def trace(options: str) -> Any:
        # By name: the module holds traced code and imports the DSL.
        return import_module("testing.hardware.kv_copy_kernel").trace(spec, options)

    return CompiledArtifact.of(spec, *compile_traced(trace, spec.arch))

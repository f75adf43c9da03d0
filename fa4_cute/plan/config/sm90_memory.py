"""``SM90Memory``: what the Hopper kernel keeps in shared memory, and how many slots fit.

Q of every consumer, rings of K and V, and what travels with a slot of K: scales per token, or
biases of 16 bits. O is staged over Q, or apart in a persistent CTA.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

from ..barriers.sm90_mbars import SM90MBarsLayout
from ..facts.bias_tile import BiasTile
from ..facts.dtypes import DType
from ..facts.hardware import (
    MBARRIER_BYTES,
    OUTPUT_SWIZZLE,
    SMEM_PER_SM,
    SMEM_RESERVED_PER_CTA,
    WARP_GROUP_THREADS,
    WARPS_PER_GROUP,
    align_up,
)
from ..facts.wgmma import NUM_ROWS, WGMMA_ROWS
from .operand_config import OperandConfig
from .sm90_tiles import MAX_KV_STAGES


class SM90Memory(OperandConfig):
    """Base of ``SM90Config``, whose fields and tile sizes it reads."""

    depth: int
    ov_depth: int
    persistent: bool
    scale_dtype: DType
    stages_biases: bool

    @property
    @abstractmethod
    def num_consumers(self) -> int:
        """Warp groups that multiply."""

    @property
    @abstractmethod
    def ctas_per_sm(self) -> int:
        """CTAs that share an SM."""

    @property
    @abstractmethod
    def padded_depth(self) -> int:
        """``depth`` in whole column chunks."""

    @property
    @abstractmethod
    def padded_ov_depth(self) -> int:
        """``ov_depth`` in whole column chunks."""

    @property
    @abstractmethod
    def q_rows(self) -> int:
        """Rows of a consumer's Q tile that hold queries."""

    @property
    @abstractmethod
    def transposes_values(self) -> bool:
        """Whether V is transposed in shared memory."""

    @property
    @abstractmethod
    def loads_values_apart(self) -> bool:
        """Whether V has a load warp of its own."""

    @property
    def q_tile_bytes(self) -> int:
        """Bytes of the Q tile of one consumer."""
        return WGMMA_ROWS * self.padded_depth * self.qkv_dtype_size

    @property
    def q_load_bytes(self) -> int:
        """Bytes of it that are loaded."""
        return self.q_rows * self.padded_depth * self.qkv_dtype_size

    @property
    def o_columns(self) -> int:
        """Columns of a staged O: whole chunks of its own swizzle."""
        return align_up(self.ov_depth, OUTPUT_SWIZZLE.bytes // self.qkv_dtype.output.size)

    @property
    def o_tile_bytes(self) -> int:
        """Bytes of the staged O of one consumer."""
        return WGMMA_ROWS * self.o_columns * self.qkv_dtype.output.size

    @property
    def q_slot_bytes(self) -> int:
        """Bytes of the memory of a consumer's Q tile, over which O is staged unless persistent."""
        return max(self.q_tile_bytes, 0 if self.persistent else self.o_tile_bytes)

    @property
    def k_stage_bytes(self) -> int:
        """Bytes of one slot of K."""
        return self.BN * self.padded_depth * self.qkv_dtype_size

    @property
    def v_stage_bytes(self) -> int:
        """Bytes of one slot of V."""
        return self.BN * self.padded_ov_depth * self.qkv_dtype_size

    @property
    def k_scale_stride_bytes(self) -> int:
        """Bytes of the key scales that arrive with a slot of K."""
        return self.BN * self.scale_dtype.size

    @property
    def bias_stage_bytes(self) -> int:
        """Bytes of the biases of all consumers that go with a slot of K."""
        return self.num_consumers * BiasTile(self.BN).num_bytes if self.stages_biases else 0

    @property
    def num_bias_warps(self) -> int:
        """Warps that copy biases: those of the load warps' group that do nothing else."""
        return WARPS_PER_GROUP - 1 - self.loads_values_apart if self.stages_biases else 0

    @property
    def q_scale_bytes(self) -> int:
        """Bytes of the query scales: every thread that multiplies keeps those of its rows."""
        return self.num_consumers * WARP_GROUP_THREADS * NUM_ROWS * self.scale_dtype.size

    @property
    def num_kv_stages(self) -> int:
        """Slots of either ring: what fits."""
        return min(self._slots_beside(self._q_bytes + self.o_bytes), MAX_KV_STAGES)

    @property
    def num_raw_stages(self) -> int:
        """Slots of V as it is loaded, where it is transposed: one fewer than of transposed V."""
        return self.num_kv_stages - 1 if self.transposes_values else 0

    @property
    def o_apart(self) -> bool:
        """Whether staged O has memory of its own: that of a persistent CTA, if it costs no slot.

        A persistent CTA loads Q of the next query tile while the last one is still multiplied and
        written, so that O is never staged over Q. Parts of query tiles leave from the registers.
        """
        alone = self.num_consumers * self.q_tile_bytes
        both = alone + self.num_consumers * self.o_tile_bytes
        most = min(self._slots_beside(alone), MAX_KV_STAGES)
        stages = self.persistent and not self.streams_keys
        return stages and self._slots_beside(both) >= most

    @property
    def o_by_rows(self) -> bool:
        """Whether O leaves from the registers: a persistent CTA has no memory to stage it."""
        return self.persistent and not self.o_apart

    @property
    def o_bytes(self) -> int:
        """Bytes of the staged O besides those of Q."""
        return self.num_consumers * self.o_tile_bytes if self.o_apart else 0

    @property
    def _q_bytes(self) -> int:
        return self.num_consumers * self.q_slot_bytes

    @property
    def _slot_bytes(self) -> int:
        """Bytes of a slot of K, one of V, and what travels with them."""
        of_keys = self.k_stage_bytes + self.k_scale_stride_bytes + self.bias_stage_bytes
        return of_keys + self.v_stage_bytes

    def _slots_beside(self, num_bytes: int) -> int:
        """Return how many slots of either ring fit besides ``num_bytes`` of Q and O."""
        without = SM90MBarsLayout(0, self.num_consumers, self.persistent)
        used = num_bytes + self.q_scale_bytes + without.size * MBARRIER_BYTES + self.stretch_bytes
        rows = self._slot_bytes + 2 * MBARRIER_BYTES * self.stages_biases
        raw = self.v_stage_bytes + 2 * MBARRIER_BYTES if self.transposes_values else 0
        return (self.smem_share - used + raw) // (rows + 4 * MBARRIER_BYTES + raw)

    @property
    def smem_share(self) -> int:
        """Dynamic shared memory that a CTA may take."""
        return SMEM_PER_SM // self.ctas_per_sm - SMEM_RESERVED_PER_CTA

    @cached_property
    def misc_mbars(self) -> SM90MBarsLayout:
        """The barrier block of this configuration."""
        stages, raw = self.num_kv_stages, self.num_raw_stages
        biases = self.num_bias_warps
        return SM90MBarsLayout(stages, self.num_consumers, self.persistent, raw, biases)

    @property
    def smem_used(self) -> int:
        """Dynamic shared memory of the launch."""
        rings = self.num_kv_stages * self._slot_bytes + self.num_raw_stages * self.v_stage_bytes
        rest = self.misc_mbars.size * MBARRIER_BYTES + self.q_scale_bytes + self.stretch_bytes
        return self._q_bytes + self.o_bytes + rings + rest

"""The mbarriers of the 2Q/1Q kernel: one table that says who arrives, how often, and who waits.

Index order (``pv`` = 2 P parts, ``qk`` depth parts of K, ``kv`` ring slots)::

    0            S0_cons[0]     P0 (first part) stored and O0 rescaled       256 per CTA
    1 .. pv-1    S0_cons[1..]   rest of P0 stored                            128 per CTA
    pv ..        S1_cons[..]    the same for the second S/O chain
    2pv          C0, C1         correction factor ready / consumed           128, CTA-local
    2pv+4        order[0..1]    (only with forced ordering)                  128
    .. +2        S0_prod, S1_prod   S written by the MMA                     1
    .. +qk       Q1Sync         second Q tile arrived (2Q only)              1
    K_offset     K full [qk*kv], K empty [qk*kv]                             1
    V_offset     V full [kv], V empty [kv]     (absent in a fused ring)      1
    O_prod       O_prod[0..1]   P V accumulated                              1
    stored_offset  stored[0..1] O stored, its memories free (persistent)     128
    publish_offset publish      partitions of all CTAs readable (cluster)    8 per CTA
    scale_offset k_scale        all "arrived" (pair with scales per token)   1, CTA-local
                                all "read"                                   256, CTA-local

Two facts keep the table short. There is no separate "O consumed" barrier: "O_i was rescaled" and
"P_i is ready" arrive on the same barrier, so the MMA warp waits once before P V. There is no
"S empty" barrier: S_i of the next tile is issued after P_i V on the same in-order issuer, and P_i
was complete only after the softmax had read all of S_i.

With a CTA pair (``cta_group::2``) the softmax and correction threads of both CTAs arrive on the
leader's barriers, hence the doubled counts; C and order barriers stay CTA-local. Scales of keys,
which travel with a K slot otherwise, have barriers of each CTA's own there: "K arrived" is the
leader's, and softmax threads of the peer cannot wait on it. The source plans no such barriers.

Source: ``modular-sm100-attention.md`` sections 3.1 and 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .barrier_spec import MMA_COMMIT, TMA_BYTES, BarrierSpec
from .chain_rows import consumed_rows, factor_rows, order_rows, publish_rows, stored_rows
from .pipeline_plan import RolePipeline, StagedPipeline
from .ring_rows import ring_rows, scale_rows

NUM_CHAINS = 2
"""S/O chains of the kernel: two Q tiles, or even and odd key tiles of one."""


@dataclass(frozen=True)
class FA4MiscMBars:
    """Indices, counts and pipelines of the barrier block.

    All accessors return barrier indices relative to the block; the byte offset of barrier ``i`` is
    ``SM100AttentionSMem.mbar_byte_offset + 8 * i``.
    """

    num_qk_stages: int
    num_pv_stages: int
    num_kv_stages: int
    use_order_barriers: bool = False
    use_fused_kv: bool = False
    pair_cta: bool = False
    num_qo: int = 2
    num_scale_readers: int = 0
    """Softmax threads of a CTA that read the scales of a key tile, and free them."""
    persistent: bool = False
    num_partitions: int = 1
    """CTAs of a cluster that share the keys of a query tile."""
    num_scale_bufs: int = 0
    """Buffers of key scales with barriers of their own; 0 when they travel with a K slot."""

    @property
    def cta_group(self) -> int:
        """CTAs whose threads arrive on the shared barriers."""
        return 2 if self.pair_cta else 1

    @property
    def S0_cons_offset(self) -> int:
        """First barrier of the block: P0 and O0 ready."""
        return 0

    @property
    def S1_cons_offset(self) -> int:
        """P1 and O1 ready."""
        return self.S0_cons_offset + self.num_pv_stages

    @property
    def C0_offset(self) -> int:
        """Producer barrier of C0; its consumer barrier follows."""
        return self.S1_cons_offset + self.num_pv_stages

    @property
    def C1_offset(self) -> int:
        """Producer barrier of C1; its consumer barrier follows."""
        return self.C0_offset + 2

    @property
    def order_offset(self) -> int:
        """First order barrier, if there are any."""
        return self.C1_offset + 2

    @property
    def num_order_barriers(self) -> int:
        """2 with forced ordering of the softmax groups, else 0."""
        return NUM_CHAINS if self.use_order_barriers else 0

    @property
    def num_high_count_barriers(self) -> int:
        """Barriers whose count is that of whole warp groups; later ones have count 1, unless
        slots of K have scales."""
        return self.order_offset + self.num_order_barriers

    @property
    def S0_prod_offset(self) -> int:
        """S0 written by the MMA."""
        return self.num_high_count_barriers

    @property
    def S1_prod_offset(self) -> int:
        """S1 written by the MMA."""
        return self.S0_prod_offset + 1

    @property
    def Q1Sync_offset(self) -> int:
        """First depth part of the second Q tile."""
        return self.S1_prod_offset + 1

    @property
    def num_q1_sync(self) -> int:
        """One per depth part with two Q tiles; a single Q tile rides on the first K tile."""
        return self.num_qk_stages if self.num_qo == 2 else 0

    @property
    def K_offset(self) -> int:
        """First barrier of the K (or fused K/V) ring."""
        return self.Q1Sync_offset + self.num_q1_sync

    @property
    def k_ring(self) -> StagedPipeline:
        """Barriers of the K ring, or of the fused ring."""
        return StagedPipeline(self.num_kv_stages, self.num_qk_stages, self.K_offset)

    @property
    def scale_ring(self) -> StagedPipeline:
        """Barriers of the buffers of key scales: those of the K slots that they belong to, or own
        ones, all of them CTA-local."""
        if self.num_scale_bufs:
            return StagedPipeline(self.num_scale_bufs, 1, self.scale_offset)
        return self.k_ring

    @property
    def V_offset(self) -> int:
        """First barrier of the V ring; the K ring when K and V share one."""
        return self.K_offset if self.use_fused_kv else self.K_offset + self.k_ring.num_mbars

    @property
    def v_ring(self) -> StagedPipeline:
        """Barriers of the V ring, or of the fused ring."""
        if self.use_fused_kv:
            return self.k_ring
        return StagedPipeline(self.num_kv_stages, 1, self.V_offset)

    @property
    def O_prod_offset(self) -> int:
        """O0 accumulated; O1 follows."""
        return self.V_offset + self.v_ring.num_mbars

    @property
    def stored_offset(self) -> int:
        """Output of chain 0 stored; chain 1 follows. Only where a CTA takes tile after tile."""
        return self.O_prod_offset + NUM_CHAINS

    @property
    def num_stored_barriers(self) -> int:
        """2 in a persistent kernel, else 0."""
        return NUM_CHAINS if self.persistent else 0

    @property
    def publish_offset(self) -> int:
        """Partitions of all CTAs of a cluster readable. Only where a cluster shares the keys."""
        return self.stored_offset + self.num_stored_barriers

    @property
    def scale_offset(self) -> int:
        """First barrier of the buffers of key scales. Only where they have own ones."""
        return self.publish_offset + len(publish_rows(self.num_partitions))

    @property
    def size(self) -> int:
        """Barriers of the block."""
        return self.scale_offset + 2 * self.num_scale_bufs

    def num_mbars(self) -> int:
        """Return ``size`` (seed 000's name)."""
        return self.size

    def producer_s(self, wg: int) -> RolePipeline:
        """MMA side of chain ``wg``: acquire part ``sub`` of P, commit S."""
        return self._s(wg, is_producer=True)

    def producer_s0(self) -> RolePipeline:
        """MMA side of chain 0."""
        return self.producer_s(0)

    def producer_s1(self) -> RolePipeline:
        """MMA side of chain 1."""
        return self.producer_s(1)

    def consumer_s(self, wg: int) -> RolePipeline:
        """Softmax side of chain ``wg``: wait for S, release part ``sub`` of P."""
        return self._s(wg, is_producer=False)

    def producer_c(self, wg: int) -> RolePipeline:
        """Softmax side of the correction factor of chain ``wg``."""
        base = self.C0_offset + 2 * self._chain(wg)
        return RolePipeline(1, True, base, base + 1)

    def consumer_c(self, wg: int) -> RolePipeline:
        """Correction side of the correction factor of chain ``wg``."""
        base = self.C0_offset + 2 * self._chain(wg)
        return RolePipeline(1, False, base, base + 1)

    def consumer_c0(self) -> RolePipeline:
        """Correction side of chain 0."""
        return self.consumer_c(0)

    def consumer_c1(self) -> RolePipeline:
        """Correction side of chain 1."""
        return self.consumer_c(1)

    def pipeline_order_wait(self, wg: int) -> int:
        """Barrier that softmax group ``wg`` waits on before it reads S (initial phase 1 - wg).

        Raises:
            ValueError: when the plan has no order barriers.
        """
        if not self.use_order_barriers:
            raise ValueError("use_order_barriers=False: the plan has no order barriers")
        return self.order_offset + self._chain(wg)

    def pipeline_order_arrive(self, wg: int) -> int:
        """Barrier of the other softmax group, on which ``wg`` arrives near its last exp."""
        return self.pipeline_order_wait(1 - self._chain(wg))

    def q1_wait_mbar(self) -> int:
        """First Q1Sync barrier.

        Raises:
            ValueError: when the plan holds a single Q tile.
        """
        if self.num_qo != 2:
            raise ValueError(f"num_qo={self.num_qo}: only num_qo=2 has a second Q tile")
        return self.Q1Sync_offset

    def get_k_mbars(self) -> int:
        """First barrier of the K ring."""
        return self.K_offset

    def get_v_mbars(self) -> int:
        """First barrier of the V ring (the K ring's when fused)."""
        return self.V_offset

    def combined_p_o_consumer(self, wg: int) -> int:
        """Barrier on which "first part of P stored" and "O rescaled" arrive together."""
        return self.S0_cons_offset + self._chain(wg) * self.num_pv_stages

    def producer_o(self, wg: int) -> RolePipeline:
        """MMA side of O of chain ``wg``: acquire P and O, commit the accumulation."""
        prod = self.O_prod_offset + self._chain(wg)
        return RolePipeline(1, True, prod, self.combined_p_o_consumer(wg), cta_group=self.cta_group)

    def producer_o0(self) -> RolePipeline:
        """MMA side of O0."""
        return self.producer_o(0)

    def producer_o1(self) -> RolePipeline:
        """MMA side of O1."""
        return self.producer_o(1)

    def consumer_o(self) -> RolePipeline:
        """Correction side of both O chains: stage ``i`` is chain ``i``."""
        return RolePipeline(
            NUM_CHAINS,
            False,
            self.O_prod_offset,
            self.S0_cons_offset,
            consumer_sub=self.num_pv_stages,
            cta_group=self.cta_group,
        )

    def counts(self) -> tuple[int, ...]:
        """Return the initial arrival count of every barrier, by index."""
        return tuple(spec.count for spec in self.specs)

    @cached_property
    def specs(self) -> tuple[BarrierSpec, ...]:
        """The whole table, one record per barrier, in index order."""
        rows = consumed_rows(self.num_pv_stages, self.cta_group)
        rows += [*factor_rows(), *order_rows(self.num_order_barriers)]
        rows += [(f"S{w}_prod", f"S{w} written", MMA_COMMIT, f"softmax{w}") for w in (0, 1)]
        rows += [
            (f"Q1Sync[{s}]", f"Q1 part {s} arrived", TMA_BYTES, "mma")
            for s in range(self.num_q1_sync)
        ]
        readers = self.num_scale_readers
        with_keys = 0 if self.num_scale_bufs else readers
        rows += ring_rows("KV" if self.use_fused_kv else "K", self.k_ring, with_keys)
        if not self.use_fused_kv:
            rows += ring_rows("V", self.v_ring)
        waits = "correction, softmax (last tile)"
        rows += [(f"O_prod[{w}]", f"O{w} accumulated", MMA_COMMIT, waits) for w in (0, 1)]
        rows += [*stored_rows(self.num_stored_barriers), *publish_rows(self.num_partitions)]
        rows += scale_rows(self.num_scale_bufs, readers)
        return tuple(BarrierSpec(i, *row) for i, row in enumerate(rows))

    def _s(self, wg: int, *, is_producer: bool) -> RolePipeline:
        return RolePipeline(
            1,
            is_producer,
            self.S0_prod_offset + self._chain(wg),
            self.combined_p_o_consumer(wg),
            consumer_sub=self.num_pv_stages,
            cta_group=self.cta_group,
        )

    @staticmethod
    def _chain(wg: int) -> int:
        if wg not in (0, 1):
            raise ValueError(f"wg={wg}: softmax warp groups are 0 and 1")
        return wg

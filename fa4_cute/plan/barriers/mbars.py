"""The mbarriers of the 2Q/1Q kernel: one table that says who arrives, how often, and who waits.

Index order (``pv`` = 2 stages of P, 1 where it crosses, ``qk`` stages of K, ``kv`` ring slots)::

    0            S0_cons[0]     P0 (first pv stage) stored and O0 rescaled   256 per CTA
    1 .. pv-1    S0_cons[1..]   rest of P0 stored                            128 per CTA
    pv ..        S1_cons[..]    the same for the second S/O chain
    2pv          C0, C1         correction factor ready / consumed           128, CTA-local
    2pv+4        S0_prod, S1_prod   S written by the MMA                     1
    .. +qk       Q1Sync         second Q tile arrived (2Q only)              1
    K_offset     K full [qk*kv], K empty [qk*kv]                             1
    V_offset     V full [kv], V empty [kv]     (absent in a fused ring)      1
                 full, where lanes copy K and V                              32
    O_prod       O_prod[0..1]   P V accumulated                              1
    S_read       S0_read, S1_read   S in registers (where P crosses)         128
    stored_offset  stored[0..1] O stored, its memories free (persistent)     128
    publish_offset publish      partitions of all CTAs readable (cluster)    8 per CTA
    scale_offset k_scale        all "arrived" (pair with scales per token)   1, CTA-local
                                all "read"                                   256, CTA-local
    answer_offset  answer       the next work tile has been named (dynamic)  1, CTA-local
                                all warps that play a role have read it      15 per CTA

Two facts keep the table short. There is no separate "O consumed" barrier: "O_i was rescaled" and
"P_i is ready" arrive on the same barrier, so the MMA warp waits once before P V. There is no
"S empty" barrier: S_i of the next tile is issued after P_i V on the same in-order issuer, and P_i
was complete only after the softmax had read all of S_i.

With a CTA pair (``cta_group::2``) the softmax and correction threads of both CTAs arrive on the
leader's barriers, hence the doubled counts; C barriers stay CTA-local. Scales of keys, which travel
with a K slot otherwise, have barriers of each CTA's own there: "K arrived" is the leader's, and
softmax threads of the peer cannot wait on it. The source plans no such barriers.

The source can also plan two barriers that force the softmax groups to take turns, off by default.
No role here would use them, so they cannot be asked for (``docs/mojo.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .answers import AnswerPlan
from .barrier_spec import LANE_COPIES, MMA_COMMIT, TMA_BYTES, BarrierRow, BarrierTable
from .chain_rows import (
    consumed_rows,
    factor_rows,
    publish_rows,
    read_rows,
    stored_rows,
)
from .chains import CHAINS, NUM_CHAINS, of_chain
from .pipeline_plan import RolePipelinePlan, StagedPipelinePlan
from .ring_rows import ring_rows, scale_rows

NUM_READING_WARPS: Final = 15
"""Warps of a CTA that play a role: each reads which work tile is next."""


@dataclass(frozen=True)
class FA4MiscMBarsLayout(BarrierTable):
    """Indices, counts and pipelines of the barrier block.

    All accessors return barrier indices relative to the block, and plans of pipelines over them;
    ``fa4_cute.pipelines.FA4MiscMBars`` is the class that acts.
    """

    num_qk_stages: int
    num_pv_stages: int
    num_kv_stages: int
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
    crosses: bool = False
    """Whether P of a chain lies in the columns of the other chain's S."""
    dynamic: bool = False
    values_apart: bool = False
    """Whether V has a load warp of its own."""
    correction_writes: bool = False
    """Whether the correction role writes O, and so knows when it may be overwritten."""
    lane_copies: bool = False
    """Whether the lanes of load warps copy K and V, and not TMA."""

    def groups(self) -> dict[str, list[BarrierRow]]:
        """Return the rows of every group, in index order: the one place that says where each is."""
        pv, qk, kv = self.num_pv_stages, self.num_qk_stages, self.num_kv_stages
        readers = self.num_scale_readers
        with_keys = 0 if self.num_scale_bufs else readers
        told = "correction, softmax (last tile)"
        filled = LANE_COPIES if self.lane_copies else TMA_BYTES
        return {
            "S0_cons": consumed_rows(0, pv, self.cta_group),
            "S1_cons": consumed_rows(1, pv, self.cta_group),
            "C0": factor_rows(0),
            "C1": factor_rows(1),
            "S0_prod": [("S0_prod", "S0 written", MMA_COMMIT, "softmax0")],
            "S1_prod": [("S1_prod", "S1 written", MMA_COMMIT, "softmax1")],
            "Q1Sync": [
                (f"Q1Sync[{stage}]", f"Q1 part {stage} arrived", TMA_BYTES, "mma")
                for stage in range(self.num_q1_sync)
            ],
            "K": ring_rows("KV" if self.use_fused_kv else "K", kv, qk, with_keys, filled),
            "V": [] if self.use_fused_kv else ring_rows("V", kv, filled=filled),
            "O_prod": [
                (f"O_prod[{w}]", f"O{w} accumulated", MMA_COMMIT, told) for w in range(NUM_CHAINS)
            ],
            "S_read": read_rows() if self.crosses else [],
            "stored": stored_rows() if self.is_told_stored else [],
            "publish": publish_rows(self.num_partitions) if self.num_partitions > 1 else [],
            "k_scale": scale_rows(self.num_scale_bufs, readers),
            "answer": self.answers.rows() if self.dynamic else [],
        }

    @property
    def cta_group(self) -> int:
        """CTAs whose threads arrive on the shared barriers."""
        return 2 if self.pair_cta else 1

    @property
    def is_told_stored(self) -> bool:
        """Whether the softmax says that it has stored O: to roles of the next query tile."""
        return self.persistent and not self.correction_writes

    @property
    def num_q1_sync(self) -> int:
        """One per qk stage with two Q tiles; a single Q tile rides on the first K tile."""
        return self.num_qk_stages if self.num_qo == 2 else 0

    @property
    def answers(self) -> AnswerPlan:
        """How a CTA or pair learns its next work tile: softmax, correction and the single warps."""
        return AnswerPlan(NUM_READING_WARPS + self.values_apart, self.cta_group)

    # Offsets: where the groups begin ---------------------------------------------------------

    @property
    def Q1Sync_offset(self) -> int:
        """First qk stage of the second Q tile."""
        return self.offset("Q1Sync")

    @property
    def K_offset(self) -> int:
        """First barrier of the K (or fused K/V) ring."""
        return self.offset("K")

    @property
    def V_offset(self) -> int:
        """First barrier of the V ring; the K ring when K and V share one."""
        return self.offset("K" if self.use_fused_kv else "V")

    @property
    def O_prod_offset(self) -> int:
        """O0 accumulated; O1 follows."""
        return self.offset("O_prod")

    @property
    def stored_offset(self) -> int:
        """Output of chain 0 stored; chain 1 follows. Only where ``is_told_stored``."""
        return self.offset("stored")

    @property
    def publish_offset(self) -> int:
        """All CTAs of the cluster have published their partition. Only where keys are shared."""
        return self.offset("publish")

    @property
    def scale_offset(self) -> int:
        """First barrier of the buffers of key scales, where they have barriers of their own."""
        return self.offset("k_scale")

    @property
    def answer_offset(self) -> int:
        """The next work tile has been named. Only where CTAs take over others' tiles."""
        return self.offset("answer")

    # Pipelines -------------------------------------------------------------------------------

    def producer_s(self, chain: Any) -> RolePipelinePlan:
        """MMA side of S of ``chain``: commit says it is written; no acquire (see above)."""
        return self._s(chain, is_producer=True)

    def consumer_s(self, chain: Any) -> RolePipelinePlan:
        """Softmax side of S of ``chain``: wait for S, release pv stage ``sub`` as P."""
        return self._s(chain, is_producer=False)

    def producer_c(self, chain: Any) -> RolePipelinePlan:
        """Softmax side of the correction factor of ``chain``."""
        return self._c(chain, is_producer=True)

    def consumer_c(self, chain: Any) -> RolePipelinePlan:
        """Correction side of the correction factor of ``chain``."""
        return self._c(chain, is_producer=False)

    def producer_o(self, chain: Any) -> RolePipelinePlan:
        """MMA side of O of ``chain``: acquire pv stages of P (the first with O rescaled), commit
        the accumulation."""
        return self._o(chain, is_producer=True)

    def consumer_o(self, chain: Any) -> RolePipelinePlan:
        """Correction side of O of ``chain``: wait for P V, release says that O is rescaled."""
        return self._o(chain, is_producer=False)

    def combined_p_o_consumer(self, chain: Any) -> Any:
        """Barrier on which "first pv stage of P stored" and "O rescaled" arrive together."""
        return of_chain(chain, [self.offset(f"S{c}_cons") for c in CHAINS])

    def scores_read(self, chain: Any) -> Any:
        """Barrier that says that S of ``chain`` is in registers."""
        return of_chain(chain, [self.offset("S_read") + c for c in CHAINS])

    def stored(self, chain: Any) -> Any:
        """Barrier that says that O of ``chain`` has been read and stored."""
        return of_chain(chain, [self.stored_offset + c for c in CHAINS])

    def q1_wait_mbar(self, qk_stage: int = 0) -> int:
        """Q1Sync barrier of ``qk_stage``.

        Raises:
            ValueError: when the plan holds a single Q tile.
        """
        if self.num_qo != 2:
            raise ValueError(f"num_qo={self.num_qo}: only num_qo=2 has a second Q tile")
        return self.Q1Sync_offset + qk_stage

    @property
    def k_ring(self) -> StagedPipelinePlan:
        """Barriers of the K ring, or of the fused ring."""
        return StagedPipelinePlan(self.num_kv_stages, self.num_qk_stages, self.K_offset)

    @property
    def v_ring(self) -> StagedPipelinePlan:
        """Barriers of the V ring, or of the fused ring."""
        if self.use_fused_kv:
            return self.k_ring
        return StagedPipelinePlan(self.num_kv_stages, 1, self.V_offset)

    @property
    def scale_ring(self) -> StagedPipelinePlan:
        """Barriers of the buffers of key scales: those of the K slots that they belong to, or own
        ones, all of them CTA-local."""
        if self.num_scale_bufs:
            return StagedPipelinePlan(self.num_scale_bufs, 1, self.scale_offset)
        return self.k_ring

    def _s(self, chain: Any, *, is_producer: bool) -> RolePipelinePlan:
        ready = of_chain(chain, [self.offset(f"S{c}_prod") for c in CHAINS])
        consumed = self.combined_p_o_consumer(chain)
        return RolePipelinePlan(1, is_producer, ready, consumed, self.cta_group)

    def _c(self, chain: Any, *, is_producer: bool) -> RolePipelinePlan:
        ready = of_chain(chain, [self.offset(f"C{c}") for c in CHAINS])
        return RolePipelinePlan(1, is_producer, ready, ready + 1)

    def _o(self, chain: Any, *, is_producer: bool) -> RolePipelinePlan:
        ready = of_chain(chain, [self.O_prod_offset + c for c in CHAINS])
        consumed = self.combined_p_o_consumer(chain)
        group = self.cta_group
        return RolePipelinePlan(1, is_producer, ready, consumed, group, starts_free=False)

"""The mbarriers of the head-dim 256/512 kernel .

``h`` = 1 when O is split (d512), else 0. Counts are over both CTAs of the pair::

    0        PO_lo            P stored (128 x 2) and O_lo rescaled (128 x 2)      512
    1        PO_hi            O_hi rescaled (split only)                          256
    1+h 2+h  S_even/odd cons  scores loaded into registers                        256
    3+h 4+h  C prod, cons     factor written / read, CTA-local                    128
    5+h 6+h  S_even/odd prod  scores written by the MMA                           1
    7+h      O_mma_lo         P V_lo accumulated                                  1
    8+h      O_mma_hi         P V_hi accumulated (split only)                     1
    fixed..  KV               all "slot arrived", then all "slot read"            1
    scale..  k_scale          per-token scales: all "arrived" (CTA-local)         1
                              all "read" (CTA-local)                              128
    ..       stored           O stored, its memories free (persistent)            128
    ..       Q_read           all scores have read Q (O leaves row by row)        1
    ..       answer           the next work tile is named (dynamic, CTA-local)    1
                              all warps that play a role have read it             22

Two details of the Mojo page are stale, and this plan follows what the source does: PO_lo and PO_hi
are initialised to 512 and 256 (the page's 256 and 128 count one CTA), and the KV barriers are all
producers first, then all consumers (not pairs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..facts.hardware import WARP_GROUP_THREADS, WARP_THREADS
from .answers import AnswerPlan
from .barrier_spec import MMA_COMMIT, TMA_BYTES, Arrival, BarrierRow, BarrierTable
from .pipeline_plan import RolePipelinePlan, StagedPipelinePlan
from .ring_rows import scale_rows

_PAIR = 2
_PAIR_THREADS = _PAIR * WARP_GROUP_THREADS
_SOFTMAX = (Arrival("softmax (both CTAs)", _PAIR_THREADS),)
_RESCALE = (Arrival("correction (both CTAs)", _PAIR_THREADS),)
_LOCAL_SOFTMAX = (Arrival("softmax", WARP_GROUP_THREADS),)
_LOCAL_CORRECTION = (Arrival("correction", WARP_GROUP_THREADS),)
_READERS_OF_O = "correction, softmax"
NUM_READING_WARPS: Final = 11
"""Warps of a CTA that play a role: each reads which work tile is next."""


@dataclass(frozen=True)
class Depth512MBarsLayout(BarrierTable):
    """Indices, counts and pipelines of the barrier block.

    ``fa4_cute.pipelines.Depth512MBars`` is the class that acts.

    Args:
        num_kv_stages: slots of the shared K/V ring.
        split_o: True for head dim 512 (10 fixed barriers), False for 256 (8).
        persistent: the pair takes one query tile after the other.
        num_scale_bufs: buffers of key scales, 0 without scales per token.
        dynamic: it takes those of pairs that have not started.
        writes_rows: O leaves row by row, so that Q is free after all scores.
        correction_writes: the correction role writes it, and so knows when it may be overwritten.
        values_apart: V has a load warp of its own.
    """

    num_kv_stages: int
    split_o: bool = True
    persistent: bool = False
    num_scale_bufs: int = 0
    dynamic: bool = False
    writes_rows: bool = False
    correction_writes: bool = False
    values_apart: bool = False

    def groups(self) -> dict[str, list[BarrierRow]]:
        """Return the rows of every group, in index order: the one place that says where each is."""
        slots = range(self.num_kv_stages)
        told = "load, correction (next query tile)"
        rows: dict[str, list[BarrierRow]] = {
            "PO_lo": [("PO_lo", "P stored and O_lo rescaled", _SOFTMAX + _RESCALE, "mma")],
            "PO_hi": [("PO_hi", "O_hi rescaled", _RESCALE, "mma")],
            "S_even_cons": [("S_even_cons", "S_even loaded", _SOFTMAX, "mma")],
            "S_odd_cons": [("S_odd_cons", "S_odd loaded", _SOFTMAX, "mma")],
            "C_prod": [("C_prod", "factor written", _LOCAL_SOFTMAX, "correction")],
            "C_cons": [("C_cons", "factor read", _LOCAL_CORRECTION, "softmax")],
            "S_even_prod": [("S_even_prod", "S_even written", MMA_COMMIT, "softmax")],
            "S_odd_prod": [("S_odd_prod", "S_odd written", MMA_COMMIT, "softmax")],
            "O_mma_lo": [("O_mma_lo", "O_lo accumulated", MMA_COMMIT, _READERS_OF_O)],
            "O_mma_hi": [("O_mma_hi", "O_hi accumulated", MMA_COMMIT, _READERS_OF_O)],
            "KV": [
                *((f"KV_full[{i}]", f"slot {i} arrived", TMA_BYTES, "mma") for i in slots),
                *((f"KV_empty[{i}]", f"slot {i} read", MMA_COMMIT, "load") for i in slots),
            ],
            "k_scale": scale_rows(self.num_scale_bufs, WARP_GROUP_THREADS),
            "stored": [("stored", "O stored", _LOCAL_SOFTMAX, told)],
            "Q_read": [("Q_read", "scores computed", MMA_COMMIT, "load (next query tile)")],
            "answer": self.answers.rows() if self.dynamic else [],
        }
        if not self.split_o:
            rows["PO_hi"] = rows["O_mma_hi"] = []
        if self.correction_writes or not self.persistent:
            rows["stored"] = []
        if not self.writes_rows:
            rows["Q_read"] = []
        return rows

    @property
    def answers(self) -> AnswerPlan:
        """How a pair learns its next work tile: softmax, correction and the single warps."""
        return AnswerPlan(NUM_READING_WARPS + self.values_apart, _PAIR)

    # Offsets: where the groups begin ---------------------------------------------------------

    @property
    def PO_lo_offset(self) -> int:
        """P stored and O_lo rescaled."""
        return self.offset("PO_lo")

    @property
    def PO_hi_offset(self) -> int:
        """O_hi rescaled; meaningful only when O is split."""
        return self.offset("PO_hi")

    @property
    def S_even_consumer_offset(self) -> int:
        """Even score buffer loaded."""
        return self.offset("S_even_cons")

    @property
    def S_odd_consumer_offset(self) -> int:
        """Odd score buffer loaded."""
        return self.offset("S_odd_cons")

    @property
    def C_producer_offset(self) -> int:
        """Correction factor written."""
        return self.offset("C_prod")

    @property
    def C_consumer_offset(self) -> int:
        """Correction factor read."""
        return self.offset("C_cons")

    @property
    def S_even_producer_offset(self) -> int:
        """Even score buffer written by the MMA."""
        return self.offset("S_even_prod")

    @property
    def S_odd_producer_offset(self) -> int:
        """Odd score buffer written by the MMA."""
        return self.offset("S_odd_prod")

    @property
    def O_mma_lo_offset(self) -> int:
        """O (or O_lo) accumulated."""
        return self.offset("O_mma_lo")

    @property
    def O_mma_hi_offset(self) -> int:
        """O_hi accumulated; meaningful only when O is split."""
        return self.offset("O_mma_hi")

    @property
    def num_fixed(self) -> int:
        """Barriers before the ring: 10 or 8."""
        return self.KV_offset

    @property
    def num_high_count_barriers(self) -> int:
        """Barriers that whole warp groups arrive on, before the first with count 1: 6 or 5."""
        return self.S_even_producer_offset

    @property
    def KV_offset(self) -> int:
        """First barrier of the ring."""
        return self.offset("KV")

    @property
    def KV_barriers(self) -> int:
        """Barriers of the ring."""
        return self.kv_ring.num_mbars

    @property
    def k_scale_offset(self) -> int:
        """First barrier of the buffers of key scales."""
        return self.offset("k_scale")

    @property
    def stored_offset(self) -> int:
        """The output is stored and its memory free. Only where a pair takes tile after tile."""
        return self.offset("stored")

    @property
    def query_read_offset(self) -> int:
        """All scores of a query tile have read Q. Only where O is not staged over it."""
        return self.offset("Q_read")

    @property
    def answer_offset(self) -> int:
        """The next work tile has been named. Only where pairs take over others' tiles."""
        return self.offset("answer")

    @property
    def most_kv_stages(self) -> int:
        """Ring slots whose barriers one wave initialises besides the others."""
        return (WARP_THREADS - (self.size - self.KV_barriers)) // 2

    # Pipelines -------------------------------------------------------------------------------

    def producer_s(self) -> RolePipelinePlan:
        """MMA: acquire waits until the buffer was loaded, commit says it is written.

        Stage 0 is the even buffer, stage 1 the odd one; steps alternate.
        """
        return self._s(is_producer=True)

    def consumer_s(self) -> RolePipelinePlan:
        """Softmax: wait for the buffer, release it once in registers (in the leader)."""
        return self._s(is_producer=False)

    def producer_c(self) -> RolePipelinePlan:
        """Softmax: acquire waits until the factor was read, commit says it is written."""
        return RolePipelinePlan(1, True, self.C_producer_offset, self.C_consumer_offset)

    def consumer_c(self) -> RolePipelinePlan:
        """Correction: wait for the factor, release it once read."""
        return RolePipelinePlan(1, False, self.C_producer_offset, self.C_consumer_offset)

    def producer_o_lo(self) -> RolePipelinePlan:
        """MMA: acquire waits for P and the rescaled O_lo, commit says P V_lo is accumulated."""
        return self._o(self.O_mma_lo_offset, self.PO_lo_offset, is_producer=True)

    def producer_o_hi(self) -> RolePipelinePlan:
        """MMA: acquire waits for the rescaled O_hi, commit says P V_hi is accumulated."""
        return self._o(self._split(self.O_mma_hi_offset), self.PO_hi_offset, is_producer=True)

    def consumer_o_lo(self) -> RolePipelinePlan:
        """Correction: wait for P V_lo, release says O_lo is rescaled."""
        return self._o(self.O_mma_lo_offset, self.PO_lo_offset, is_producer=False)

    def consumer_o_hi(self) -> RolePipelinePlan:
        """Correction: wait for P V_hi, release says O_hi is rescaled."""
        return self._o(self._split(self.O_mma_hi_offset), self.PO_hi_offset, is_producer=False)

    def po_lo_mbar(self) -> int:
        """Barrier on which softmax (P stored) and correction (O_lo rescaled) arrive."""
        return self.PO_lo_offset

    def stored(self, chain: int) -> int:
        """Barrier that says that O has been read and stored; ``chain`` is the only one, 0."""
        return self.stored_offset + chain

    @property
    def kv_ring(self) -> StagedPipelinePlan:
        """Barriers of the shared K/V ring."""
        return StagedPipelinePlan(self.num_kv_stages, 1, self.KV_offset)

    @property
    def scale_ring(self) -> StagedPipelinePlan:
        """Barriers of the buffers of key scales; all of them are CTA-local."""
        return StagedPipelinePlan(self.num_scale_bufs, 1, self.k_scale_offset)

    def _s(self, *, is_producer: bool) -> RolePipelinePlan:
        ready, consumed = self.S_even_producer_offset, self.S_even_consumer_offset
        return RolePipelinePlan(2, is_producer, ready, consumed, _PAIR)

    def _o(self, ready: int, consumed: int, *, is_producer: bool) -> RolePipelinePlan:
        return RolePipelinePlan(1, is_producer, ready, consumed, _PAIR, starts_free=False)

    def _split(self, offset: int) -> int:
        if not self.split_o:
            raise ValueError("split_o=False: the output of head dim 256 has no high half")
        return offset

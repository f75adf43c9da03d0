"""The mbarriers of the head-dim 256/512 kernel (seed 002; ``modular-sm100-attention.md`` 3.3).

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

The seed's description of two details is stale, and this plan follows what the source does: PO_lo
and PO_hi are initialised to 512 and 256 (the seed's 256 and 128 count one CTA), and the KV barriers
are all producers first, then all consumers (not pairs).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..facts.hardware import WARP_GROUP_THREADS, WARP_THREADS
from .barrier_spec import MMA_COMMIT, TMA_BYTES, Arrival, BarrierSpec
from .pipeline_plan import PipelineState, RolePipeline, StagedPipeline
from .ring_rows import scale_rows

_PAIR = 2
_PAIR_THREADS = _PAIR * WARP_GROUP_THREADS
_Row = tuple[str, str, tuple[Arrival, ...], str]


@dataclass(frozen=True)
class Depth512MBars:
    """Indices, counts and pipelines of the barrier block (every member of seed 002).

    Args:
        num_kv_stages: slots of the shared K/V ring.
        split_o: True for head dim 512 (10 fixed barriers), False for 256 (8).
        persistent: the pair takes one query tile after the other.
        num_scale_bufs: buffers of key scales, 0 without scales per token.
    """

    num_kv_stages: int
    split_o: bool = True
    persistent: bool = False
    num_scale_bufs: int = 0

    @property
    def _hi(self) -> int:
        return 1 if self.split_o else 0

    @property
    def PO_lo_offset(self) -> int:
        """P stored and O_lo rescaled."""
        return 0

    @property
    def PO_hi_offset(self) -> int:
        """O_hi rescaled; meaningful only when O is split."""
        return self.PO_lo_offset + 1

    @property
    def S_even_consumer_offset(self) -> int:
        """Even score buffer loaded."""
        return self.PO_lo_offset + 1 + self._hi

    @property
    def S_odd_consumer_offset(self) -> int:
        """Odd score buffer loaded."""
        return self.S_even_consumer_offset + 1

    @property
    def C_producer_offset(self) -> int:
        """Correction factor written."""
        return self.S_odd_consumer_offset + 1

    @property
    def C_consumer_offset(self) -> int:
        """Correction factor read."""
        return self.C_producer_offset + 1

    @property
    def S_even_producer_offset(self) -> int:
        """Even score buffer written by the MMA."""
        return self.C_consumer_offset + 1

    @property
    def S_odd_producer_offset(self) -> int:
        """Odd score buffer written by the MMA."""
        return self.S_even_producer_offset + 1

    @property
    def O_mma_lo_offset(self) -> int:
        """O (or O_lo) accumulated."""
        return self.S_odd_producer_offset + 1

    @property
    def O_mma_hi_offset(self) -> int:
        """O_hi accumulated; meaningful only when O is split."""
        return self.O_mma_lo_offset + 1

    @property
    def num_fixed(self) -> int:
        """Barriers before the ring: 10 or 8."""
        return self.O_mma_lo_offset + 1 + self._hi

    @property
    def num_high_count_barriers(self) -> int:
        """Barriers that whole warp groups arrive on: 6 or 5."""
        return 5 + self._hi

    @property
    def KV_offset(self) -> int:
        """First barrier of the ring."""
        return self.num_fixed

    @property
    def KV_barriers(self) -> int:
        """Barriers of the ring."""
        return 2 * self.num_kv_stages

    @property
    def k_scale_offset(self) -> int:
        """First barrier of the buffers of key scales."""
        return self.KV_offset + self.KV_barriers

    @property
    def stored_offset(self) -> int:
        """Output stored, its memories free. Only where a pair takes tile after tile."""
        return self.k_scale_offset + self.scale_ring.num_mbars

    @property
    def num_stored_barriers(self) -> int:
        """1 in a persistent kernel, else 0."""
        return 1 if self.persistent else 0

    @property
    def size(self) -> int:
        """Barriers of the block; at most one wave of a warp."""
        return self.stored_offset + self.num_stored_barriers

    @property
    def SPipelineProducer(self) -> RolePipeline:
        """Shape of the MMA side of a score buffer (a type in the seed)."""
        return self.producer_s_even()

    @property
    def SPipelineConsumer(self) -> RolePipeline:
        """Shape of the softmax side of a score buffer (a type in the seed)."""
        return self.consumer_s_even()

    @property
    def most_kv_stages(self) -> int:
        """Ring slots whose barriers one wave initialises beside the others."""
        others = self.num_fixed + self.scale_ring.num_mbars + self.num_stored_barriers
        return (WARP_THREADS - others) // 2

    def init_count(self, index: int) -> int:
        """Return the arrival count of barrier ``index``.

        The device initialises with this rule, which needs no table: it holds against ``specs``.
        """
        if index == self.PO_lo_offset:
            return 2 * _PAIR_THREADS
        if index < self.C_producer_offset:
            return _PAIR_THREADS
        local = index < self.num_high_count_barriers
        local |= index >= self.k_scale_offset + self.num_scale_bufs
        return WARP_GROUP_THREADS if local else 1

    def init(self, *, lane_idx: int) -> tuple[int, int] | None:
        """Return the (barrier, count) that lane ``lane_idx`` initialises, or None.

        Raises:
            ValueError: when the block does not fit the single wave.
        """
        if self.size > WARP_THREADS:
            raise ValueError(
                f"num_kv_stages={self.num_kv_stages} makes {self.size} barriers; one wave "
                f"initialises {WARP_THREADS}, that is {self.most_kv_stages} stages"
            )
        return (lane_idx, self.init_count(lane_idx)) if lane_idx < self.size else None

    # Pipelines -------------------------------------------------------------------------------

    def producer_s_even(self) -> RolePipeline:
        """MMA: acquire waits until the even buffer was loaded, commit says it is written."""
        return self._chain(self.S_even_producer_offset, self.S_even_consumer_offset, True)

    def producer_s_odd(self) -> RolePipeline:
        """MMA: the odd buffer."""
        return self._chain(self.S_odd_producer_offset, self.S_odd_consumer_offset, True)

    def consumer_s_even(self) -> RolePipeline:
        """Softmax: wait for the even buffer, release it once in registers (at the leader)."""
        return self._chain(self.S_even_producer_offset, self.S_even_consumer_offset, False)

    def consumer_s_odd(self) -> RolePipeline:
        """Softmax: the odd buffer."""
        return self._chain(self.S_odd_producer_offset, self.S_odd_consumer_offset, False)

    def producer_c(self) -> RolePipeline:
        """Softmax: acquire waits until the factor was read, commit says it is written."""
        return RolePipeline(1, True, self.C_producer_offset, self.C_consumer_offset)

    def consumer_c(self) -> RolePipeline:
        """Correction: wait for the factor, release it once read."""
        return RolePipeline(1, False, self.C_producer_offset, self.C_consumer_offset)

    def producer_o_lo(self) -> RolePipeline:
        """MMA: acquire waits for P and the rescaled O_lo, commit says P V_lo is accumulated."""
        return self._chain(self.O_mma_lo_offset, self.PO_lo_offset, True)

    def producer_o_hi(self) -> RolePipeline:
        """MMA: acquire waits for the rescaled O_hi, commit says P V_hi is accumulated."""
        return self._chain(self._split(self.O_mma_hi_offset), self.PO_hi_offset, True)

    def consumer_o_lo(self) -> RolePipeline:
        """Correction: wait for P V_lo, release says O_lo is rescaled."""
        return self._chain(self.O_mma_lo_offset, self.PO_lo_offset, False)

    def consumer_o_hi(self) -> RolePipeline:
        """Correction: wait for P V_hi, release says O_hi is rescaled."""
        return self._chain(self._split(self.O_mma_hi_offset), self.PO_hi_offset, False)

    def producer_o_state(self) -> PipelineState:
        """Return the MMA's start for PO: phase 0, because even the first P V waits (6.5)."""
        return PipelineState(1)

    def po_lo_mbar(self) -> int:
        """Barrier on which softmax (P stored) and correction (O_lo rescaled) arrive."""
        return self.PO_lo_offset

    def po_hi_mbar(self) -> int:
        """Barrier on which correction (O_hi rescaled) arrives."""
        return self._split(self.PO_hi_offset)

    def get_kv_mbars(self) -> int:
        """First barrier of the ring."""
        return self.KV_offset

    @property
    def kv_ring(self) -> StagedPipeline:
        """Barriers of the shared K/V ring."""
        return StagedPipeline(self.num_kv_stages, 1, self.KV_offset)

    @property
    def scale_ring(self) -> StagedPipeline:
        """Barriers of the buffers of key scales; all of them are CTA-local."""
        return StagedPipeline(self.num_scale_bufs, 1, self.k_scale_offset)

    def num_mbars(self) -> int:
        """Return ``size``."""
        return self.size

    def counts(self) -> tuple[int, ...]:
        """Return the initial arrival count of every barrier, by index."""
        return tuple(self.init_count(index) for index in range(self.size))

    @cached_property
    def specs(self) -> tuple[BarrierSpec, ...]:
        """The whole table, one record per barrier, in index order."""
        softmax = (Arrival("softmax (both CTAs)", _PAIR_THREADS),)
        rescale = (Arrival("correction (both CTAs)", _PAIR_THREADS),)
        hi: list[_Row] = [("PO_hi", "O_hi rescaled", rescale, "mma")]
        o_hi: list[_Row] = [("O_mma_hi", "O_hi accumulated", MMA_COMMIT, "correction, softmax")]
        rows: list[_Row] = [("PO_lo", "P stored and O_lo rescaled", softmax + rescale, "mma")]
        rows += hi if self.split_o else []
        rows += [(f"S_{x}_cons", f"S_{x} loaded", softmax, "mma") for x in ("even", "odd")]
        local = WARP_GROUP_THREADS
        rows.append(("C_prod", "factor written", (Arrival("softmax", local),), "correction"))
        rows.append(("C_cons", "factor read", (Arrival("correction", local),), "softmax"))
        rows += [(f"S_{x}_prod", f"S_{x} written", MMA_COMMIT, "softmax") for x in ("even", "odd")]
        rows.append(("O_mma_lo", "O_lo accumulated", MMA_COMMIT, "correction, softmax"))
        rows += o_hi if self.split_o else []
        slots = range(self.num_kv_stages)
        rows += [(f"KV_full[{i}]", f"slot {i} arrived", TMA_BYTES, "mma") for i in slots]
        rows += [(f"KV_empty[{i}]", f"slot {i} read", MMA_COMMIT, "load") for i in slots]
        rows += scale_rows(self.num_scale_bufs, local)
        readers = "load, correction (next query tile)"
        stored: _Row = ("stored", "O stored", (Arrival("softmax", local),), readers)
        rows += [stored] * self.num_stored_barriers
        return tuple(BarrierSpec(i, *row) for i, row in enumerate(rows))

    def _chain(self, produced: int, consumed: int, is_producer: bool) -> RolePipeline:
        group = _PAIR if is_producer else 1
        return RolePipeline(1, is_producer, produced, consumed, cta_group=group)

    def _split(self, offset: int) -> int:
        if not self.split_o:
            raise ValueError("split_o=False: the output of head dim 256 has no high half")
        return offset

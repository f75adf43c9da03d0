"""Pipelines as arithmetic: which barrier, which parity, which byte, for every step.

A pipeline here owns no memory. It names barriers by their index in the barrier block and tiles by
their byte offset in shared memory; each operation returns what the device does as a record, and
the pipeline that follows. The device classes of ``fa4_cute.pipelines`` do the same sums on
registers, and the tests hold both against each other.

A wait on parity ``p`` blocks until the barrier has completed the phase with that parity. A barrier
that never completed one therefore lets a wait on parity 1 pass: producers start at phase 1 (every
slot is free), consumers at phase 0 (nothing has been produced).

Source: ``modular-sm100-attention.md`` sections 4.1, 4.2 and 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class PipelineState:
    """Ring cursor: stage ``index`` of ``num_stages`` and the ``phase`` parity of this round."""

    num_stages: int
    index: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        """Refuse values outside the domain of the record."""
        if self.num_stages < 1:
            raise ValueError(f"num_stages={self.num_stages}: a pipeline needs at least one stage")

    def step(self) -> PipelineState:
        """Return the next stage; the phase flips when the index wraps to 0."""
        if self.index + 1 < self.num_stages:
            return replace(self, index=self.index + 1)
        return replace(self, index=0, phase=self.phase ^ 1)

    @classmethod
    def producer(cls, num_stages: int) -> PipelineState:
        """Return the state in which every slot counts as free."""
        return cls(num_stages, phase=1)

    @classmethod
    def consumer(cls, num_stages: int) -> PipelineState:
        """Return the state in which nothing has been produced."""
        return cls(num_stages)


@dataclass(frozen=True)
class BarrierWait:
    """Wait until barrier ``mbar`` has completed the phase with parity ``phase``."""

    mbar: int
    phase: int


@dataclass(frozen=True)
class BarrierArrive:
    """Arrive on barrier ``mbar``; by a thread, or by ``tcgen05.commit`` when ``by_mma``."""

    mbar: int
    by_mma: bool = False


@dataclass(frozen=True)
class StagedPipeline:
    """Ring of ``num_kv_stages`` slots, each filled in ``num_qk_stages`` parts (section 4.2).

    Barrier block of the ring, from ``mbar_base``::

        | full: slot 0 part 0 .. part q-1 | slot 1 .. | empty: the same order |
    """

    num_kv_stages: int
    num_qk_stages: int = 1
    mbar_base: int = 0

    @property
    def num_stages(self) -> int:
        """Full barriers of the ring: one per slot and part."""
        return self.num_kv_stages * self.num_qk_stages

    @property
    def num_mbars(self) -> int:
        """Barriers of the ring: full and empty."""
        return 2 * self.num_stages

    @property
    def last_stage(self) -> int:
        """The part after which a consumer steps to the next slot."""
        return self.num_qk_stages - 1

    def producer_mbar(self, index: int, qk_stage: int | None = None) -> int:
        """Return the "tile arrived" barrier of part ``qk_stage`` (default: last) of a slot."""
        part = self.last_stage if qk_stage is None else qk_stage
        return self.mbar_base + self.num_qk_stages * index + part

    def consumer_mbar(self, index: int, qk_stage: int | None = None) -> int:
        """Return the "slot is free again" barrier of part ``qk_stage`` (default: last)."""
        return self.producer_mbar(index, qk_stage) + self.num_stages

    def producer_acquire(self, state: PipelineState, qk_stage: int | None = None) -> BarrierWait:
        """Wait until the MMA has read what the slot held a round ago."""
        return BarrierWait(self.consumer_mbar(state.index, qk_stage), state.phase)

    def consumer_wait(self, state: PipelineState, qk_stage: int | None = None) -> BarrierWait:
        """Wait until the bytes of the part have landed."""
        return BarrierWait(self.producer_mbar(state.index, qk_stage), state.phase)

    def consumer_release(
        self, state: PipelineState, qk_stage: int | None = None
    ) -> tuple[BarrierArrive, PipelineState]:
        """Free a part after the MMA read it; steps only when the part is the last of its slot."""
        part = self.last_stage if qk_stage is None else qk_stage
        arrive = BarrierArrive(self.consumer_mbar(state.index, part), by_mma=True)
        return arrive, state.step() if part == self.last_stage else state

    def consumer_release_at(self, index: int) -> BarrierArrive:
        """Free slot ``index`` without a step: the fused ring releases V behind its cursor."""
        return BarrierArrive(self.consumer_mbar(index), by_mma=True)


@dataclass(frozen=True)
class RolePipeline:
    """Hand-over between two warp roles through a pair of barrier rows (section 4.5).

    Stage ``i`` uses barrier ``producer_base + i * producer_sub`` ("ready") and barriers
    ``consumer_base + i * consumer_sub + sub`` ("consumed", possibly in parts).
    """

    num_stages: int
    is_producer: bool
    producer_base: int
    consumer_base: int
    producer_sub: int = 1
    consumer_sub: int = 1
    cta_group: int = 1

    def initial_state(self) -> PipelineState:
        """Return phase 1 for a producer (free at first), phase 0 for a consumer."""
        return PipelineState(self.num_stages, phase=1 if self.is_producer else 0)

    def producer_mbar(self, index: int = 0, sub: int = 0) -> int:
        """Return the barrier that says stage ``index`` (part ``sub``) is ready."""
        return self.producer_base + index * self.producer_sub + sub

    def consumer_mbar(self, index: int = 0, sub: int = 0) -> int:
        """Return the barrier that says stage ``index`` (part ``sub``) was consumed."""
        return self.consumer_base + index * self.consumer_sub + sub

    def acquire(self, state: PipelineState, sub: int = 0) -> BarrierWait:
        """Producer: wait until the consumer is done with the stage."""
        self._require(producer=True, operation="acquire")
        return BarrierWait(self.consumer_mbar(state.index, sub), state.phase)

    def commit(self, state: PipelineState) -> tuple[BarrierArrive, PipelineState]:
        """Producer: the calling thread says the stage is ready, and steps."""
        self._require(producer=True, operation="commit")
        return BarrierArrive(self.producer_mbar(state.index)), state.step()

    def commit_mma(self, state: PipelineState) -> BarrierArrive:
        """Producer: the MMAs issued so far signal the stage when they complete; no step."""
        self._require(producer=True, operation="commit_mma")
        return BarrierArrive(self.producer_mbar(state.index), by_mma=True)

    def wait(self, state: PipelineState) -> BarrierWait:
        """Consumer: wait until the stage is ready."""
        self._require(producer=False, operation="wait")
        return BarrierWait(self.producer_mbar(state.index), state.phase)

    def release(self, state: PipelineState, sub: int = 0) -> tuple[BarrierArrive, PipelineState]:
        """Consumer: the calling thread gives the stage back, and steps."""
        return self.release_no_step(state, sub), state.step()

    def release_no_step(self, state: PipelineState, sub: int = 0) -> BarrierArrive:
        """Consumer: give part ``sub`` of the stage back and stay on it."""
        self._require(producer=False, operation="release")
        return BarrierArrive(self.consumer_mbar(state.index, sub))

    def _require(self, *, producer: bool, operation: str) -> None:
        if self.is_producer != producer:
            side = "producer" if producer else "consumer"
            raise ValueError(f"{operation} belongs to the {side} side of a RolePipeline")

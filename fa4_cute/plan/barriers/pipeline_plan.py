"""Pipelines as arithmetic: which barrier and which parity, for every step.

A plan owns no memory. It names barriers by their index in the barrier block, and only adds, shifts
and masks, so that it works on registers as on integers: the classes of ``fa4_cute.pipelines`` hold
a plan and do what it says.

One rule gives every parity. Completions of a barrier are counted from 0, and a wait for completion
``n`` waits on parity ``n & 1``: it blocks until the phase with that parity has completed, and a
barrier that never completed one lets a wait on parity 1 pass (PTX ISA, "mbarrier.test_wait /
mbarrier.try_wait"). A stage that is free at first therefore waits for the completion before.

What tells ``n`` differs. Between roles it is the number of the hand-over, a *step*, counted over
all that the CTA does. In a ring it is the round of a cursor, which is carried from slot to slot,
because the number of slots is seldom a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol


def parity(completion: int) -> int:
    """Return the parity on which to wait for completion number ``completion`` of a barrier."""
    return completion & 1


def before(phase: int) -> int:
    """Return the parity for the completion before that of ``phase``: none at first, so that the
    wait passes."""
    return phase ^ 1


class Cursor(Protocol):
    """What names a slot of a ring: a plan's :class:`PipelineState`, or registers of a kernel."""

    @property
    def index(self) -> Any:
        """The slot."""


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
        return cls(num_stages, phase=before(parity(0)))

    @classmethod
    def consumer(cls, num_stages: int) -> PipelineState:
        """Return the state in which nothing has been produced."""
        return cls(num_stages, phase=parity(0))


@dataclass(frozen=True)
class BarrierWait:
    """Wait until barrier ``mbar`` has completed the phase with parity ``phase``."""

    mbar: int
    phase: int


class SlotCursor(Protocol):
    """Where a ring stands, on the host or in registers: a slot and its parity."""

    @property
    def index(self) -> Any:
        """Number of the slot."""

    @property
    def phase(self) -> Any:
        """Parity of this round."""


@dataclass(frozen=True)
class StagedPipelinePlan:
    """Ring of ``num_kv_stages`` slots, each filled in ``num_qk_stages`` qk stages.

    Barrier block of the ring, from ``mbar_base``::

        | full: slot 0 stage 0 .. stage q-1 | slot 1 .. | empty: the same order |
    """

    num_kv_stages: int
    num_qk_stages: int = 1
    mbar_base: int = 0

    @property
    def num_stages(self) -> int:
        """Full barriers of the ring: one per slot and qk stage."""
        return self.num_kv_stages * self.num_qk_stages

    @property
    def num_mbars(self) -> int:
        """Barriers of the ring: full and empty."""
        return 2 * self.num_stages

    @property
    def last_stage(self) -> int:
        """The qk stage with which a slot is complete."""
        return self.num_qk_stages - 1

    def producer_mbar(self, index: int, qk_stage: int | None = None) -> int:
        """Return the "arrived" barrier of stage ``qk_stage`` (default: the last) of a slot."""
        stage = self.last_stage if qk_stage is None else qk_stage
        return self.mbar_base + self.num_qk_stages * index + stage

    def consumer_mbar(self, index: int, qk_stage: int | None = None) -> int:
        """Return the "read, free again" barrier of stage ``qk_stage`` (default: the last)."""
        return self.producer_mbar(index, qk_stage) + self.num_stages

    def producer_acquire(self, state: SlotCursor, qk_stage: int | None = None) -> BarrierWait:
        """Wait until the MMA has read what the slot held a round ago."""
        return BarrierWait(self.consumer_mbar(state.index, qk_stage), state.phase)

    def consumer_wait(self, state: SlotCursor, qk_stage: int | None = None) -> BarrierWait:
        """Wait until the bytes of the qk stage have landed."""
        return BarrierWait(self.producer_mbar(state.index, qk_stage), state.phase)


@dataclass(frozen=True)
class RolePipelinePlan:
    """Hand-over between two warp roles through a pair of barrier rows.

    Stage ``i`` uses barrier ``producer_base + i`` ("ready") and barrier ``consumer_base + i``
    ("consumed"). What one stage hands over may be consumed in parts, ``sub``, one barrier after the
    other.

    Attributes:
        num_stages: 1, or 2 for buffers that alternate from step to step.
        is_producer: which side of the hand-over it is.
        producer_base, consumer_base: first barrier of each row.
        cta_group: CTAs whose threads take part; those of a pair arrive in the leader.
        starts_free: whether the first step needs no consumption before it. A product O = P V does:
            P has to be there.
    """

    num_stages: int
    is_producer: bool
    producer_base: int
    consumer_base: int
    cta_group: int = 1
    starts_free: bool = True

    def __post_init__(self) -> None:
        """Refuse values outside the domain of the record."""
        if self.num_stages not in (1, 2):
            raise ValueError(
                f"num_stages={self.num_stages}: a hand-over between roles has 1 or 2 stages"
            )

    def stage(self, step: int) -> int:
        """Return the number of the buffer that ``step`` uses."""
        return 0 if self.num_stages == 1 else step & 1

    def producer_mbar(self, step: int = 0) -> int:
        """Return the barrier that says that ``step`` is ready."""
        return self.producer_base + self.stage(step)

    def consumer_mbar(self, step: int = 0, sub: int = 0) -> int:
        """Return the barrier that says that part ``sub`` of ``step`` was consumed."""
        return self.consumer_base + sub + self.stage(step)

    def acquire(self, step: int, sub: int = 0) -> BarrierWait:
        """Producer: wait until part ``sub`` of the stage may be written for ``step``."""
        self._require(producer=True, operation="acquire")
        mbar, phase = self.consumer_mbar(step, sub), parity(self._round(step))
        return BarrierWait(mbar, before(phase) if self.starts_free else phase)

    def acquire_next(self, step: int) -> BarrierWait:
        """Producer: wait until what was handed over as ``step`` has been consumed.

        The stage may then be written for the step that follows on it.
        """
        self._require(producer=True, operation="acquire_next")
        return BarrierWait(self.consumer_mbar(step), parity(self._round(step)))

    def commit(self, step: int = 0) -> int:
        """Producer: return the barrier on which to arrive when ``step`` is ready."""
        self._require(producer=True, operation="commit")
        return self.producer_mbar(step)

    def wait(self, step: int) -> BarrierWait:
        """Consumer: wait until ``step`` is ready."""
        self._require(producer=False, operation="wait")
        return BarrierWait(self.producer_mbar(step), parity(self._round(step)))

    def release(self, step: int = 0, sub: int = 0) -> int:
        """Consumer: return the barrier on which to arrive when part ``sub`` is consumed."""
        self._require(producer=False, operation="release")
        return self.consumer_mbar(step, sub)

    def _round(self, step: int) -> int:
        return step if self.num_stages == 1 else step >> 1

    def _require(self, *, producer: bool, operation: str) -> None:
        if self.is_producer != producer:
            side = "producer" if producer else "consumer"
            raise ValueError(f"{operation} belongs to the {side} side of a RolePipeline")

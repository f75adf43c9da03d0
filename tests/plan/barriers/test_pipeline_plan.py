from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.barriers.pipeline_plan import (
    BarrierArrive,
    BarrierWait,
    PipelineState,
    RolePipeline,
    StagedPipeline,
)


class Barrier:
    """Whole-phase count of one barrier with parity waits, as PTX defines them."""

    def __init__(self) -> None:
        self.completed = 0

    def would_pass(self, phase: int) -> bool:
        # A wait on parity p passes when the phase with that parity is not the current one.
        return self.completed % 2 != phase


@given(st.integers(1, 7), st.integers(0, 40))
def test_the_phase_flips_once_per_round(stages: int, steps: int) -> None:
    state = PipelineState(stages)
    for _ in range(steps):
        state = state.step()
    assert (state.index, state.phase) == (steps % stages, steps // stages % 2)


@given(st.integers(1, 4), st.integers(1, 3), st.lists(st.booleans(), max_size=60))
def test_a_ring_never_overruns_and_never_reads_early(
    slots: int, parts: int, schedule: list[bool]
) -> None:
    ring = StagedPipeline(slots, parts, mbar_base=5)
    barriers = {5 + i: Barrier() for i in range(ring.num_mbars)}
    producer, consumer = PipelineState.producer(slots), PipelineState.consumer(slots)
    filled = drained = 0
    for produce in schedule:
        if produce:
            waits = [ring.producer_acquire(producer, part) for part in range(parts)]
            free = all(barriers[w.mbar].would_pass(w.phase) for w in waits)
            assert free == (filled - drained < slots)
            if free:
                for part in range(parts):
                    barriers[ring.producer_mbar(producer.index, part)].completed += 1
                producer = producer.step()
                filled += 1
        else:
            wait = ring.consumer_wait(consumer)
            ready = barriers[wait.mbar].would_pass(wait.phase)
            assert ready == (drained < filled)
            if ready:
                for part in range(parts):
                    arrive, consumer = ring.consumer_release(consumer, part)
                    barriers[arrive.mbar].completed += 1
                drained += 1
    assert consumer.index == drained % slots


def test_barriers_of_a_ring_do_not_collide() -> None:
    ring = StagedPipeline(3, 2, mbar_base=10)
    full = [ring.producer_mbar(slot, part) for slot in range(3) for part in range(2)]
    empty = [ring.consumer_mbar(slot, part) for slot in range(3) for part in range(2)]
    assert full + empty == list(range(10, 10 + ring.num_mbars))


def test_only_the_last_part_steps() -> None:
    ring = StagedPipeline(3, 2)
    state = PipelineState.consumer(3)
    arrive, same = ring.consumer_release(state, 0)
    assert (arrive, same) == (BarrierArrive(6, by_mma=True), state)
    arrive, following = ring.consumer_release(state, 1)
    assert (arrive.mbar, following.index) == (7, 1)


def test_a_deferred_release_names_the_slot() -> None:
    assert StagedPipeline(5).consumer_release_at(2) == BarrierArrive(7, by_mma=True)


def test_a_producer_passes_its_first_wait_and_a_consumer_does_not() -> None:
    ring, never_completed = StagedPipeline(2), Barrier()
    assert never_completed.would_pass(ring.producer_acquire(PipelineState.producer(2)).phase)
    assert not never_completed.would_pass(ring.consumer_wait(PipelineState.consumer(2)).phase)


def test_role_pipeline_indexes_both_rows() -> None:
    producer = RolePipeline(1, True, 8, 0, consumer_sub=2)
    state = producer.initial_state()
    assert producer.acquire(state, sub=1) == BarrierWait(1, 1)
    assert producer.commit(state) == (BarrierArrive(8), PipelineState(1))
    assert producer.commit_mma(state) == BarrierArrive(8, by_mma=True)
    consumer = RolePipeline(2, False, 20, 0, consumer_sub=2)
    second = consumer.initial_state().step()
    assert consumer.wait(second) == BarrierWait(21, 0)
    assert consumer.release(second) == (BarrierArrive(2), PipelineState(2, 0, 1))
    assert consumer.release_no_step(second, 1) == BarrierArrive(3)


def test_sides_do_not_mix() -> None:
    producer = RolePipeline(1, True, 0, 1)
    consumer = RolePipeline(1, False, 0, 1)
    for operation in (producer.wait, producer.release, consumer.acquire, consumer.commit):
        with pytest.raises(ValueError, match="side of a RolePipeline"):
            operation(PipelineState(1))


def test_a_pipeline_has_a_stage() -> None:
    with pytest.raises(ValueError, match="num_stages=0"):
        PipelineState(0)

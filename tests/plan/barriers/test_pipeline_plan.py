from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.barriers.pipeline_plan import (
    BarrierWait,
    PipelineState,
    RolePipelinePlan,
    StagedPipelinePlan,
    before,
    parity,
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
    ring = StagedPipelinePlan(slots, parts, mbar_base=5)
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
                    barriers[ring.consumer_mbar(consumer.index, part)].completed += 1
                consumer = consumer.step()
                drained += 1
    assert consumer.index == drained % slots


def test_barriers_of_a_ring_do_not_collide() -> None:
    ring = StagedPipelinePlan(3, 2, mbar_base=10)
    full = [ring.producer_mbar(slot, part) for slot in range(3) for part in range(2)]
    empty = [ring.consumer_mbar(slot, part) for slot in range(3) for part in range(2)]
    assert full + empty == list(range(10, 10 + ring.num_mbars))


def test_a_producer_passes_its_first_wait_and_a_consumer_does_not() -> None:
    ring, never_completed = StagedPipelinePlan(2), Barrier()
    assert never_completed.would_pass(ring.producer_acquire(PipelineState.producer(2)).phase)
    assert not never_completed.would_pass(ring.consumer_wait(PipelineState.consumer(2)).phase)


@given(st.integers(0, 40))
def test_a_wait_passes_once_its_completion_has_happened(wanted: int) -> None:
    # A parity tells two neighbouring phases apart; roles are never further from each other.
    barrier = Barrier()
    barrier.completed = wanted
    assert not barrier.would_pass(parity(wanted))
    assert barrier.would_pass(before(parity(wanted)))
    barrier.completed = wanted + 1
    assert barrier.would_pass(parity(wanted))


def test_a_hand_over_names_both_rows() -> None:
    producer = RolePipelinePlan(1, True, 8, 0)
    assert producer.acquire(0, sub=1) == BarrierWait(1, 1)
    assert producer.acquire(3, sub=1) == BarrierWait(1, 0)
    assert producer.acquire_next(3) == BarrierWait(0, 1) == producer.acquire(4)
    assert producer.commit() == producer.commit(5) == 8
    consumer = RolePipelinePlan(1, False, 8, 0)
    assert [consumer.wait(step) for step in (0, 1)] == [BarrierWait(8, 0), BarrierWait(8, 1)]
    assert (consumer.release(), consumer.release(3, 1)) == (0, 1)


def test_two_buffers_alternate_from_step_to_step() -> None:
    producer, consumer = (RolePipelinePlan(2, side, 20, 4) for side in (True, False))
    assert [consumer.wait(step) for step in range(4)] == [
        BarrierWait(20, 0), BarrierWait(21, 0), BarrierWait(20, 1), BarrierWait(21, 1)
    ]  # fmt: skip
    assert [producer.acquire(step) for step in range(3)] == [
        BarrierWait(4, 1), BarrierWait(5, 1), BarrierWait(4, 0)
    ]  # fmt: skip
    assert [producer.commit(step) for step in range(3)] == [20, 21, 20]
    assert [consumer.release(step) for step in range(3)] == [4, 5, 4]


@given(st.sampled_from([1, 2]), st.lists(st.booleans(), max_size=60))
def test_a_hand_over_never_overruns_and_never_reads_early(
    stages: int, schedule: list[bool]
) -> None:
    producer, consumer = (RolePipelinePlan(stages, side, 2, 0) for side in (True, False))
    barriers = {i: Barrier() for i in range(4)}
    written = read = 0
    for produce in schedule:
        wait = producer.acquire(written) if produce else consumer.wait(read)
        passes = barriers[wait.mbar].would_pass(wait.phase)
        assert passes == (written - read < stages if produce else read < written)
        if passes and produce:
            barriers[producer.commit(written)].completed += 1
            written += 1
        elif passes:
            barriers[consumer.release(read)].completed += 1
            read += 1


def test_what_does_not_start_free_waits_for_the_same_step() -> None:
    output = RolePipelinePlan(1, True, 21, 0, starts_free=False)
    assert [output.acquire(step, 1) for step in range(2)] == [BarrierWait(1, 0), BarrierWait(1, 1)]
    assert not Barrier().would_pass(output.acquire(0).phase)


def test_sides_do_not_mix() -> None:
    producer = RolePipelinePlan(1, True, 0, 1)
    consumer = RolePipelinePlan(1, False, 0, 1)
    operations = (
        producer.wait, producer.release, consumer.acquire, consumer.acquire_next, consumer.commit
    )  # fmt: skip
    for operation in operations:
        with pytest.raises(ValueError, match="side of a RolePipeline"):
            operation(0)


def test_a_pipeline_has_stages() -> None:
    with pytest.raises(ValueError, match="num_stages=0"):
        PipelineState(0)
    with pytest.raises(ValueError, match="num_stages=3: a hand-over between roles has 1 or 2"):
        RolePipelinePlan(3, True, 0, 3)

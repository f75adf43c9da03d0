"""``TMAProducerPipeline`` on integers: what it waits for and announces, and where tiles go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fa4_cute.pipelines import LoadPlace, TMAProducerPipeline
from fa4_cute.plan.barriers.pipeline_plan import BarrierWait, PipelineState
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.rings import Ring


@dataclass
class Recorder:
    """A barrier block that writes down what it is asked to do."""

    waits: list[tuple[int, int]] = field(default_factory=list)
    announced: list[tuple[int, int]] = field(default_factory=list)

    def wait(self, event: BarrierWait) -> None:
        self.waits.append((event.mbar, event.phase))

    def announce(self, mbar: int, num_bytes: int) -> None:
        self.announced.append((mbar, num_bytes))


ONE_Q = FA4Config.for_attention(DType.BF16, 128, num_qo=1)
RINGS = {
    "K, two stages": Ring.of_keys(ONE_Q),
    "V": Ring.of_values(ONE_Q),
    "fused": Ring.of_keys(FA4Config.for_attention(DType.BF16, 128)),
    "CTA pair": Ring.of_depth512(Depth512Config.for_attention(DType.BF16, 512)),
}


@pytest.mark.parametrize("name", RINGS)
def test_a_ring_is_filled_slot_by_slot(name: str) -> None:
    ring = RINGS[name]
    block: Any = Recorder()
    load = TMAProducerPipeline(block, ring)
    state: Any = PipelineState.producer(ring.num_slots)
    places = []
    for _ in range(ring.num_slots):
        for stage in range(ring.num_qk_stages):
            load.acquire(state, stage)
            places.append(load.expect(state, stage, more=48 if stage == 0 else 0))
            assert load.get_tile(state, stage) == places[-1]
        state = state.step()
    first, stages = ring.pipeline.mbar_base, ring.num_qk_stages
    count = ring.num_slots * stages
    # Every slot counts as free at first: parity 1 of a barrier that never completed a phase.
    assert block.waits == [(first + count + i, 1) for i in range(count)]
    more = [0 if i % stages else 48 for i in range(count)]
    assert block.announced == [(first + i, ring.tile_bytes + m) for i, m in enumerate(more)]
    within = [divmod(i, stages) for i in range(count)]
    starts = [slot * ring.slot_bytes + stage * ring.stage_bytes for slot, stage in within]
    assert places == [LoadPlace(first + i, ring.byte_offset + starts[i]) for i in range(count)]


@pytest.mark.parametrize("name", RINGS)
def test_draining_waits_once_for_every_stage(name: str) -> None:
    ring = RINGS[name]
    block: Any = Recorder()
    state: Any = PipelineState.producer(ring.num_slots)
    for _ in range(ring.num_slots + 1):
        state = state.step()
    TMAProducerPipeline(block, ring).drain(state)
    count = ring.num_slots * ring.num_qk_stages
    first = ring.pipeline.mbar_base + count
    assert {mbar for mbar, _ in block.waits} == {*range(first, first + count)}
    assert len(block.waits) == count
    # Slot 0 has been used once more than the others.
    phases = dict(block.waits)
    again = {mbar for mbar in phases if mbar < first + ring.num_qk_stages}
    assert {phases[mbar] for mbar in again} == {1}
    assert {phases[mbar] for mbar in phases if mbar not in again} == {0}

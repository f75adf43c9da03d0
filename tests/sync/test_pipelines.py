"""The acting classes do what their plans say: the same barrier, the same parity, the right verb."""

from __future__ import annotations

import pytest
from cutlass import Int32

from fa4_cute.device.math import mma
from fa4_cute.device.sync import barriers, pair
from fa4_cute.pipelines import (
    BarrierBlock,
    Depth512MBars,
    FA4MiscMBars,
    PairBarriers,
    RingPlace,
    RingState,
    TMAConsumerPipeline,
)
from fa4_cute.plan.barriers.pipeline_plan import PipelineState
from fa4_cute.plan.compute.mma_plans import qk_plan
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.rings import TMAConsumerPlan

BASE, LEADER = 4096, 1 << 24
ALONE = BarrierBlock(Int32(BASE))
PAIR = PairBarriers(Int32(BASE), Int32(LEADER))
CONFIG = FA4Config.for_attention(DType.BF16, 128)
D512 = Depth512Config.for_attention(DType.BF16, 512)
Event = tuple[str, int, int | None]


def place(address: Int32) -> int:
    """Index of a barrier, negative in the leader's block."""
    value = int(address.value)
    return (value - BASE) // 8 if value < LEADER else -1 - (value - LEADER) // 8


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What is done to which barrier, with the parity of waits."""
    seen: list[Event] = []

    def wait(address: Int32, phase: Int32, *, cluster: bool = False) -> None:
        seen.append(("wait of cluster" if cluster else "wait", place(address), int(phase.value)))

    def note(verb: str) -> object:
        return lambda address, **_: seen.append((verb, place(address), None))

    monkeypatch.setattr(barriers, "mbarrier_wait", wait)
    monkeypatch.setattr(barriers, "mbarrier_arrive", note("arrive"))
    monkeypatch.setattr(mma, "commit", note("commit"))
    monkeypatch.setattr(pair, "commit_both", note("commit in both"))
    monkeypatch.setattr(pair, "mbarrier_arrive_cluster", note("arrive in leader"))
    return seen


def test_a_hand_over_in_the_words_of_its_events(events: list[Event]) -> None:
    mbars, layout = FA4MiscMBars(ALONE, CONFIG.misc_mbars), CONFIG.misc_mbars
    mbars.producer_s(1).commit_mma()
    mbars.consumer_s(1).wait(Int32(4))
    mbars.consumer_s(1).release(sub=1)
    mbars.producer_o(1).acquire(Int32(4), 1)
    mbars.consumer_o(1).release()
    mbars.producer_c(0).commit()
    mbars.producer_c(0).acquire_next(Int32(3))
    ready, consumed = layout.offset("S0_prod") + 1, layout.combined_p_o_consumer(1)
    assert events == [
        ("commit", ready, None),
        ("wait", ready, 0),
        ("arrive", consumed + 1, None),
        ("wait", consumed + 1, 0),
        ("arrive", consumed, None),
        ("arrive", layout.offset("C0"), None),
        ("wait", layout.offset("C0") + 1, 1),
    ]


def test_a_pair_tells_its_leader_and_commits_in_both(events: list[Event]) -> None:
    mbars, layout = Depth512MBars(PAIR, D512.misc_mbars), D512.misc_mbars
    mbars.producer_s().acquire(Int32(5))
    mbars.producer_s().commit_mma(Int32(5))
    mbars.consumer_s().release(Int32(5))
    mbars.producer_o_lo().acquire(Int32(5), of_pair=True)
    mbars.producer_o(1).commit_mma()
    mbars.po_lo_mbar().arrive_at_leader(release=True)
    mbars.consumer_c().release()
    assert events == [
        ("wait", layout.S_odd_consumer_offset, 1),
        ("commit in both", layout.S_odd_producer_offset, None),
        ("arrive in leader", -1 - layout.S_odd_consumer_offset, None),
        ("wait of cluster", layout.PO_lo_offset, 1),
        ("commit in both", layout.O_mma_hi_offset, None),
        ("arrive in leader", -1 - layout.PO_lo_offset, None),
        ("arrive", layout.C_consumer_offset, None),
    ]


def test_a_ring_waits_for_what_the_cursor_names(events: list[Event]) -> None:
    config = FA4Config(8, 1, 128, 128, num_qo=1)
    plan = TMAConsumerPlan(config, True)
    ring = TMAConsumerPipeline(ALONE, plan, qk_plan(config).b, Int32(0))
    state = RingState.after(config.num_kv_stages, config.num_kv_stages + 1, producer=False)
    ring.wait_k(state)
    ring.release_k(state, 0)
    full = config.misc_mbars.k_ring.producer_mbar(1)
    assert events == [
        ("wait", full, 1),
        ("commit", config.misc_mbars.k_ring.consumer_mbar(1, 0), None),
    ]
    with pytest.raises(ValueError, match="this pipeline consumes K"):
        ring.wait_v(state)


@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize("slots", [3, 4])
def test_the_cursor_after_some_slots_is_that_of_as_many_steps(slots: int, producer: bool) -> None:
    state = PipelineState.producer(slots) if producer else PipelineState.consumer(slots)
    for used in range(3 * slots):
        cursor = RingState.after(slots, used, producer=producer)
        assert (int(cursor.index), int(cursor.phase)) == (state.index, state.phase)
        place = RingPlace(slots, Int32(used), producer=producer)
        assert (int(place.index.value), int(place.phase.value)) == (state.index, state.phase)
        state = state.step()

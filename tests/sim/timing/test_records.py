"""Records of machine code and of what warps did."""

import numpy as np
import pytest

from sm100sim.timing.records import (
    Action,
    ClusterTrace,
    DynamicEvent,
    Pipe,
    Place,
    SassInstruction,
    SassKernel,
    WarpStream,
)


def instruction(index: int, opcode: str, *modifiers: str, guard: str = "") -> SassInstruction:
    return SassInstruction(
        index=index, address=16 * index, opcode=opcode, modifiers=modifiers, operands="R4, R5",
        guard=guard, stall=4, yields=False, write_barrier=None, read_barrier=None, wait_mask=0,
        reuse=0, pipe=Pipe.MUFU,
    )  # fmt: skip


def stream(order: list[int], event: list[int]) -> WarpStream:
    return WarpStream(0, 0, np.array(order, np.int32), np.array(event, np.int32))


def test_an_instruction_reads_as_nvdisasm_writes_it() -> None:
    assert str(instruction(0, "MUFU", "EX2", guard="!P0")) == "@!P0 MUFU.EX2 R4, R5"
    assert instruction(0, "MUFU", "EX2").mnemonic == "MUFU.EX2"


def test_a_stream_has_an_event_slot_per_instruction() -> None:
    assert stream([0, 1], [-1, 0]).order.tolist() == [0, 1]
    with pytest.raises(ValueError, match="event"):
        stream([0, 1], [-1])


def test_equal_events_are_one() -> None:
    """Traces keep distinct events, so they must compare and hash by value."""
    first = DynamicEvent(Action.MBARRIER_WAIT, 1, (Place(0, 8),), phase=3)
    again = DynamicEvent(Action.MBARRIER_WAIT, 1, (Place(0, 8),), phase=3)
    other = DynamicEvent(Action.MBARRIER_WAIT, 1, (Place(1, 8),), phase=3)
    assert {first: 1}[again] == 1
    assert other not in {first}


def test_a_trace_counts_the_instructions_of_all_its_warps() -> None:
    kernel = SassKernel("k", "sm_90a", 32, "13.0", (instruction(0, "MUFU"),), b"")
    trace = ClusterTrace(kernel, (0, 4), (stream([0, 0], [-1, -1]), stream([0], [-1])), ())
    assert trace.instructions == 3

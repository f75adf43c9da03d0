"""Ring cursors in registers, and which slots K and V of a key tile use."""

from typing import Any

import cutlass
from cutlass import Int32

from ..plan.barriers.pipeline_plan import before, parity
from ..plan.config.config import FA4Config


class RingState:
    """Ring cursor in registers: the device form of ``PipelineState``.

    Functional: ``step`` returns the next cursor, and a loop must rebind it.
    """

    def __init__(self, num_stages: int, index: Int32, phase: Int32) -> None:
        """Take the ring's slots and the registers of the cursor."""
        self.num_stages = num_stages
        self.index = index
        self.phase = phase

    @classmethod
    def producer(cls, num_stages: int) -> "RingState":
        """Return the cursor for which every slot counts as free."""
        return cls(num_stages, Int32(0), Int32(before(parity(0))))

    @classmethod
    def consumer(cls, num_stages: int) -> "RingState":
        """Return the cursor for which nothing has been produced."""
        return cls(num_stages, Int32(0), Int32(parity(0)))

    @classmethod
    def after(cls, num_stages: int, used: Int32 | int, *, producer: bool) -> "RingState":
        """Return the cursor after ``used`` slots have been passed."""
        if isinstance(used, int) and used == 0:
            return cls.producer(num_stages) if producer else cls.consumer(num_stages)
        phase = parity(used // num_stages)
        return cls(num_stages, used % num_stages, before(phase) if producer else phase)

    def step(self) -> "RingState":
        """Return the next slot; the phase flips when the index wraps to 0."""
        after = self.index + 1
        wraps = after == self.num_stages
        index = Int32(cutlass.select_(wraps, Int32(0), after))
        phase = Int32(cutlass.select_(wraps, self.phase ^ 1, self.phase))
        return RingState(self.num_stages, index, phase)

    def back(self) -> "RingState":
        """Return the slot before; the phase flips when the index wraps from 0."""
        wraps = self.index == 0
        index = Int32(cutlass.select_(wraps, self.num_stages - 1, self.index - 1))
        phase = Int32(cutlass.select_(wraps, self.phase ^ 1, self.phase))
        return RingState(self.num_stages, index, phase)

    def or_else(self, condition: Any, other: "RingState") -> "RingState":
        """Return this cursor where ``condition`` holds, else ``other``."""
        index = Int32(cutlass.select_(condition, self.index, other.index))
        phase = Int32(cutlass.select_(condition, self.phase, other.phase))
        return RingState(self.num_stages, index, phase)

    def __extract_mlir_values__(self) -> list[Any]:
        """Return the registers of the cursor, for loops that carry it."""
        return [self.index.ir_value(), self.phase.ir_value()]

    def __new_from_mlir_values__(self, values: list[Any]) -> "RingState":
        """Return the cursor whose registers are ``values``."""
        return RingState(self.num_stages, Int32(values[0]), Int32(values[1]))


class RingPlace:
    """A slot that is found by counting instead of by carrying a cursor: for what is used seldom."""

    def __init__(self, num_stages: int, used: Int32, *, producer: bool) -> None:
        """Take the place after ``used`` slots have been passed."""
        self.index = used % num_stages
        self.round = used // num_stages
        self.producer = producer

    @property
    def phase(self) -> Int32:
        """The parity of this round, or for a producer of the one before."""
        phase = parity(self.round)
        return before(phase) if self.producer else phase


def first_slots(config: FA4Config, start: RingState) -> tuple[RingState, RingState]:
    """Return the cursors of key tile 0's K and V, given the cursor of slot 0."""
    return (start, start.step()) if config.use_fused_kv else (start, start)


def next_slots(
    config: FA4Config, k: RingState, v: RingState
) -> tuple[RingState, RingState]:
    """Return the cursors of the next key tile's K and V.

    Split rings advance on their own. In a fused ring K and V alternate: V of a tile lies in the
    slot after its K, and the next K in the slot after that V.
    """
    if config.use_fused_kv:
        k = v.step()
        return k, k.step()
    return k.step(), v.step()


def after_key(
    config: FA4Config, k: RingState, v: RingState
) -> tuple[RingState, RingState]:
    """Return the cursors of the next K and V once K has taken its slot; in one ring they agree."""
    k = k.step()
    return (k, k) if config.use_fused_kv else (k, v)


def after_value(
    config: FA4Config, k: RingState, v: RingState
) -> tuple[RingState, RingState]:
    """Return the cursors of the next K and V once V has taken its slot; in one ring they agree."""
    v = v.step()
    return (v, v) if config.use_fused_kv else (k, v)


def one_tile_on(config: FA4Config, slot: RingState, *, adjacent: bool) -> RingState:
    """Return the cursor of the next key tile's K, given one's K, or of its V, given one's V.

    In a fused ring a tile of the other operand lies between them unless they are ``adjacent``.
    """
    following = slot.step()
    return following.step() if config.use_fused_kv and not adjacent else following

"""What lanes do: mbarriers that each initialises, copies that they issue and wait for, loads of
memory one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from benchmarks.timing.questions import SMS, Question
from benchmarks.timing.sharing.cold import ROUNDS, backed, spread
from testing.hardware.case import Case
from testing.hardware.micro.shared import BASE, SMEM

LINE: Final = 128
BYTES: Final = 16
"""That a lane copies."""


def initialised(lanes: int, counts: int) -> Question:
    """So many lanes of a warp initialise an mbarrier each, for one or two counts of arrivals."""
    return Question(
        f"mbarrier.init by {lanes} lanes, {counts} count" + "s" * (counts > 1),
        "turns of a loop over lanes",
        lambda n: f"@%q3 mbarrier.init.shared.b64 [%r3+{256 * n}], %r5; ", (2, 6),
        f"setp.lt.u32 %q3, %r0, {lanes}; shl.b32 %r3, %r0, 3; add.u32 %r3, %r3, %r1;"
        f"and.b32 %r5, %r0, {counts - 1}; add.u32 %r5, %r5, 1; ",
    )  # fmt: skip


def one_by_one(count: int) -> Question:
    """One thread initialises so many mbarriers, whose addresses are those of the program."""

    def step(n: int) -> str:
        return "".join(
            f"@!%q3 mbarrier.init.shared.b64 [%r1+{256 * n + 8 * k}], {1 + k % 2}; "
            for k in range(count)
        )

    return Question(
        f"{count} times mbarrier.init by one thread", "what no loop over lanes takes", step, (2, 6),
        "setp.ne.u32 %q3, %r0, 0; ",
    )  # fmt: skip


QUESTIONS: Final = (
    *(initialised(lanes, counts)
      for lanes, counts in ((1, 1), (2, 1), (8, 1), (8, 2), (18, 2), (32, 1), (32, 2))),
    one_by_one(18),
)  # fmt: skip


@dataclass(frozen=True)
class Loads:
    """A lane's loads past the L1 from %rd4 on, of 4 or 16 bytes each, `apart` bytes apart."""

    count: int
    apart: int
    width: int = BYTES

    @property
    def registers(self) -> str:
        """What they need."""
        kinds = (32, "x"), (64, "y"), (64, "z")
        return "".join(f".reg .b{bits} %{name}<{self.count}>; " for bits, name in kinds)

    @property
    def issued(self) -> str:
        """All of them."""
        return "".join(self._one(k) for k in range(self.count))

    def _one(self, k: int) -> str:
        place = f"[%rd4+{k * self.apart}]; "
        if self.width == BYTES:
            return f"ld.relaxed.gpu.global.v2.b64 {{%y{k}, %z{k}}}, {place}"
        widened = f"cvt.u64.u32 %y{k}, %x{k}; mov.b64 %z{k}, %y{k}; "
        return f"ld.relaxed.gpu.global.b32 %x{k}, {place}{widened}"

    @property
    def joined(self) -> str:
        """Bits of all that came, in %rd5."""
        return "mov.b64 %rd5, 0; " + "".join(
            f"or.b64 %rd5, %rd5, %y{k}; or.b64 %rd5, %rd5, %z{k}; " for k in range(self.count)
        )


@dataclass(frozen=True)
class Copied:
    """Lanes copy or load rows of 128 bytes, 16 bytes each, and wait for all of a step.

    Attributes:
        threads: of a CTA. copies: of a lane in a step. ctas: one an SM.
        sharers: CTAs in a row that copy the same.
        fresh: rows are in no cache; else they are those of the steps before.
        loaded: to registers, past the L1, and not copied to shared memory.
    """

    threads: int
    copies: int
    ctas: int = SMS
    sharers: int = 1
    fresh: bool = False
    steps: int = 16
    loaded: bool = False

    @property
    def name(self) -> str:
        """Unique."""
        what = "loads" if self.loaded else "copies"
        text = f"{self.copies} {what} of 16 bytes by {self.threads} lanes of {self.ctas} CTAs, "
        text += f"{self.sharers} of them the same"
        return text + (", from memory" if self.fresh else ", from the L2")

    @property
    def size(self) -> int:
        """Bytes of a step."""
        return self.threads * self.copies * BYTES

    def case(self) -> Case:
        """The micro-kernel; by CTA and round the cycles of all steps, and those until issued."""
        groups = -(-self.ctas // self.sharers)
        total = groups * self.size * (ROUNDS * self.steps if self.fresh else 1)
        data = backed(total)
        onward = groups * self.size * self.fresh
        each = self.threads * BYTES
        loads = Loads(self.copies, each)
        copies = "".join(
            f"cp.async.cg.shared.global [%r3+{k * each}], [%rd4+{k * each}], {BYTES}; "
            for k in range(self.copies)
        )
        awaited, registers = "cp.async.wait_all; ", ""
        if self.loaded:  # the next addresses and the answer depend on what comes; %n0 is 0
            copies, registers = loads.issued, loads.registers
            awaited = (
                f"{loads.joined} cvt.u32.u64 %r57, %rd5; and.b32 %r57, %r57, %n0; "
                "cvt.u64.u32 %rd5, %r57; add.s64 %rd4, %rd4, %rd5; add.u32 %r54, %r54, %r57; "
            )
        body = (
            BASE + registers + "mov.u32 %r62, %ctaid.x; mov.u32 %r60, 0; shl.b32 %r3, %r0, 4;"
            "cvt.u64.u32 %rd6, %r3; add.u32 %r3, %r3, %r1; add.u32 %r3, %r3, 1024;"
            f"div.u32 %r10, %r62, {self.sharers}; mul.wide.u32 %rd4, %r10, {self.size};"
            "add.s64 %rd4, %rd4, %p1; add.s64 %rd4, %rd4, %rd6;"
            f"mul.wide.u32 %rd62, %r62, {8 * ROUNDS}; add.s64 %rd62, %rd62, %p0;"
            "setp.ne.u32 %q3, %r0, 0; ROUND: bar.sync 0; mov.u32 %r50, %clock; mov.u32 %r54, 0;"
            "mov.u32 %r31, 0; TURN: mov.u32 %r53, %clock; "
            f"{copies} mov.u32 %r55, %clock; {awaited} bar.sync 0;"
            "sub.u32 %r56, %r55, %r53; add.u32 %r54, %r54, %r56;"
            f"add.s64 %rd4, %rd4, {onward}; add.u32 %r31, %r31, 1;"
            f"setp.lt.u32 %q9, %r31, {self.steps}; @%q9 bra TURN; mov.u32 %r51, %clock;"
            "sub.u32 %r52, %r51, %r50; @!%q3 st.global.v2.b32 [%rd62], {%r52, %r54};"
            "add.s64 %rd62, %rd62, 8; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND; "
        )
        return Case(
            name=self.name, family="timing", body=body,
            outputs=(np.zeros(2 * ROUNDS * self.ctas, np.uint32), data), grid=self.ctas,
            numbers=(0,), block=self.threads, smem=1024 + self.size, shared=SMEM,
            directives=f".maxntid {self.threads}",
        )  # fmt: skip

    def answer(self, found: np.ndarray) -> dict[str, Any]:
        """Cycles of a step, and of them those until the first warp has issued its copies."""
        rows = found.reshape(-1, ROUNDS, 2)[:, 1:] / self.steps
        step, issued = rows[..., 0], rows[..., 1]
        return {
            "name": self.name,
            "step": spread(step),
            "issued": spread(issued),
            "bytes a cycle": round(float(self.size / step.mean()), 1),
        }


@dataclass(frozen=True)
class Chased:
    """Loads of lines `apart` bytes from one another, each asked for when the last has come.

    `again`: the same lines in every round, so that they are in the L2 when it counts.
    """

    apart: int
    again: bool
    steps: int = 24

    @property
    def name(self) -> str:
        """Unique."""
        where = "the L2" if self.again else "memory"
        return f"loads of lines {self.apart} bytes apart from {where}, a chain"

    def case(self) -> Case:
        """The micro-kernel: cycles of each round; %n0 is 0."""
        total = self.apart * self.steps * (1 if self.again else ROUNDS)
        data = backed(total)
        load = (
            "ld.relaxed.gpu.global.b32 %r5, [%rd4]; and.b32 %r5, %r5, %n0; cvt.u64.u32 %rd5, %r5;"
            f"add.s64 %rd4, %rd4, %rd5; add.s64 %rd4, %rd4, {self.apart}; "
        )
        body = (
            BASE + "mov.u32 %r60, 0; mov.b64 %rd4, %p1; mov.b64 %rd62, %p0; ROUND: "
            + ("mov.b64 %rd4, %p1; " if self.again else "")
            + "mov.u32 %r50, %clock; " + load * self.steps
            + "cvt.u32.u64 %r6, %rd4; and.b32 %r6, %r6, %n0; mov.u32 %r51, %clock;"
            "add.u32 %r51, %r51, %r6; sub.u32 %r52, %r51, %r50; st.global.b32 [%rd62], %r52;"
            "add.s64 %rd62, %rd62, 4; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND; "
        )  # fmt: skip
        return Case(
            name=self.name, family="timing", body=body, numbers=(0,), block=1, shared=SMEM,
            outputs=(np.zeros(ROUNDS, np.uint32), data), smem=1024,
        )  # fmt: skip

    def answer(self, found: np.ndarray) -> dict[str, Any]:
        """Cycles of a load, by round."""
        return {"name": self.name, "rounds": (found[1:] / self.steps).round(1).tolist()}


LOADED: Final = tuple(
    Copied(threads, copies, ctas, sharers, fresh, loaded=True)
    for (threads, copies), (ctas, sharers), fresh in product(
        ((32, 1), (128, 1), (128, 2), (128, 8), (256, 8)),
        ((1, 1), (12, 1), (SMS, 1), (SMS, 16), (SMS, SMS)), (False, True))
)  # fmt: skip
"""Rows that lanes load, of one SM, a few, and all; own ones, and such as several share."""


def questions() -> tuple[Copied | Chased, ...]:
    """Copies and loads that are asked for."""
    return (
        *(Chased(apart, again) for apart in (LINE, 4096, 65536 + LINE) for again in (False, True)),
        *(Copied(threads, copies, ctas, sharers, fresh)
          for (threads, copies), (ctas, sharers), fresh in product(
              ((128, 16), (256, 8), (256, 12), (128, 8), (128, 2)),
              ((1, 1), (SMS, 1), (SMS, 4), (SMS, 16), (SMS, SMS)), (False, True))),
        *LOADED,
    )  # fmt: skip

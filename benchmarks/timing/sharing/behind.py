"""Boxes that are asked for behind others, which come later: what the first ones wait for them.

A CTA asks for a K of 128 rows, for Q in three boxes of 64 rows, and then for more boxes, as this
package's Hopper kernel for d64 does when it begins: Q is its own and comes from memory, K and V are
those of six CTAs in a row and lie in the L2. It says when Q had come, and when all had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np

from benchmarks.timing.questions import DATA, ROW_BYTES, SMS
from benchmarks.timing.sharing.cold import FINISH, ROUNDS, WORDS, begin, micro_kernel
from benchmarks.timing.sharing.operands import STEP_COLUMNS
from sm100sim.contract.codes import LANES
from testing.hardware.case import Case

KEYS, QUERIES, CONSUMERS, SHARERS = 128, 64, 3, 6
"""Rows of a box of K, and of Q; boxes of Q; CTAs that copy the same K and V."""
LAUNCHES: Final = 12
"""Of each question."""
MOST: Final = 6
"""Boxes behind Q."""
PACE: Final = 0
"""Cycles from one box behind Q to the next, at least; to ask for one takes some 130."""
SPREAD: Final = 180
"""Cycles that a CTA begins later than the one before, where they do: all of a wave in 24,000."""


@dataclass(frozen=True)
class Behind:
    """Copies of a CTA that begins.

    Attributes:
        boxes, rows: asked for behind Q. ctas: that do so. apart: cycles that each begins later.
        cold: Q comes from memory.
    """

    boxes: int
    rows: int = KEYS
    ctas: int = 1
    apart: int = 0
    cold: bool = True

    @property
    def name(self) -> str:
        """Unique."""
        text = f"Q from {'memory' if self.cold else 'the L2'}, "
        text += f"{self.boxes} boxes of {self.rows} rows behind, {self.ctas} CTAs"
        return text + (f", each {self.apart} cycles later" if self.apart else "")

    def case(self) -> Case:
        """The micro-kernel; `answer` says what its output is."""
        of_keys = (MOST + 1) * KEYS
        keys, own = -(-self.ctas // SHARERS) * of_keys, CONSUMERS * QUERIES
        table = [
            (keys + k * own, k // SHARERS * of_keys, self.ctas * own * self.cold, k * self.apart)
            for k in range(self.ctas)
        ]
        total = keys + self.ctas * own * (ROUNDS if self.cold else 1)
        boxes = (KEYS, QUERIES, self.rows)
        case = micro_kernel(self.name, self._body(), table, PACE, (total, STEP_COLUMNS), boxes)
        return replace(case, block=2 * LANES)

    def _body(self) -> str:
        """One warp asks, and waits at the end; another one waits for Q."""
        kept = CONSUMERS * QUERIES * ROW_BYTES
        first = _copy(0, KEYS, DATA + kept, 0, "mov.u32 %r38, %r41; ") + "".join(
            _copy(1, QUERIES, DATA + k * QUERIES * ROW_BYTES, 1 + k,
                  f"add.u32 %r38, %r34, {k * QUERIES}; ")
            for k in range(CONSUMERS)
        )  # fmt: skip
        last = CONSUMERS + 1
        behind = "".join(
            f"mov.u32 %r53, %clock; P{k}: mov.u32 %r36, %clock; sub.u32 %r37, %r36, %r53; "
            f"setp.lt.u32 %q7, %r37, %n0; @%q7 bra P{k}; "
            + _copy(2, self.rows, DATA + kept + (1 + k) * KEYS * ROW_BYTES, last + k,
                    f"add.u32 %r38, %r41, {(1 + k) * KEYS}; ")
            for k in range(self.boxes)
        )  # fmt: skip
        queries = "".join(_wait(1 + k, "Q") for k in range(CONSUMERS))
        others = _wait(0) + "".join(_wait(last + k) for k in range(self.boxes))
        return (
            begin(self.ctas, last + self.boxes)
            + "mul.lo.u32 %r34, %r60, %r42; add.u32 %r34, %r34, %r40; "
            "shr.u32 %r57, %r0, 5; setp.ne.u32 %q8, %r57, 0; @%q8 bra QUERIES; "
            + first + behind + others + "mov.u32 %r53, %clock; sub.u32 %r54, %r53, %r50;"
            f"bra ENDED; QUERIES: {queries} mov.u32 %r53, %clock; sub.u32 %r54, %r53, %r50;"
            "setp.ne.u32 %q9, %r0, 32; @!%q9 st.volatile.shared.b32 [%r1+512], %r54;"
            "ENDED: bar.sync 0; ld.volatile.shared.b32 %r54, [%r1+512]; xor.b32 %r32, %r32, 1; "
            + FINISH
        )  # fmt: skip


def _copy(box: int, rows: int, to: int, barrier: int, row: str) -> str:
    return (
        f"{row} @!%q3 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1+{8 * barrier}], "
        f"{rows * ROW_BYTES}; mov.u32 %r33, 0; @!%q3 cp.async.bulk.tensor.2d.shared::cluster.global"
        f".tile.mbarrier::complete_tx::bytes [%r1+{to}], [%m{box}, {{%r33, %r38}}], "
        f"[%r1+{8 * barrier}]; "
    )


def _wait(barrier: int, side: str = "W") -> str:
    return (
        f"{side}{barrier}: mbarrier.try_wait.parity.shared.b64 %q6, [%r1+{8 * barrier}], %r32; "
        f"@!%q6 bra {side}{barrier}; "
    )


def answer(asked: Behind, launches: Sequence[np.ndarray]) -> dict[str, Any]:
    """Cycles until Q had come, and until all had: median, smallest and largest of rounds.

    Of each round it is the mean over CTAs; the first round of a launch, which fetches code and
    brings K and V to the L2, does not count.
    """
    words = [found[:-1].reshape(-1, WORDS)[:, 1:].reshape(-1, ROUNDS, 2) for found in launches]
    whole, first = np.concatenate([w[:, 1:].mean(axis=0) for w in words]).T
    return {
        "name": asked.name,
        "Q": [round(float(f(first)), 1) for f in (np.median, np.min, np.max)],
        "all": [round(float(f(whole)), 1) for f in (np.median, np.min, np.max)],
    }


WHO: Final = ((1, 0), (SMS, 0), (SMS, SPREAD))
"""CTAs, and cycles that each begins later."""
QUESTIONS: Final = tuple(
    Behind(boxes, rows, ctas, apart, cold)
    for cold, (ctas, apart), (boxes, rows) in product(
        (True, False), WHO, ((0, KEYS), (2, KEYS), (4, KEYS), (6, KEYS), (6, 8))
    )
)

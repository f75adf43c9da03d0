"""mbarrier objects: scripts of one thread, with the observable state after every step."""

from __future__ import annotations

import random
from collections.abc import Callable

from testing.hardware.case import Case, filled
from testing.hardware.micro.shared import BASE, SMEM, only

Step = tuple[str, int]
LIMIT = 40
"""Words that one script may record."""


class _Script:
    """Emits steps and stores what can be observed after each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.words = 0

    def log(self, register: str) -> None:
        self.lines.append(f"st.global.b32 [%p0+{4 * self.words}], {register};")
        self.words += 1

    def observe(self) -> None:
        """Both parities in one word."""
        for parity in (0, 1):
            self.lines.append(
                f"mbarrier.test_wait.parity.shared.b64 %q{parity + 1}, [%r1], {parity};"
            )
        self.lines.append("selp.b32 %r2, 1, 0, %q1; selp.b32 %r3, 2, 0, %q2; or.b32 %r2, %r2, %r3;")
        self.log("%r2")

    def step(self, kind: str, value: int) -> None:
        forms = {
            "init": f"mbarrier.init.shared.b64 [%r1], {value};",
            "inval": "mbarrier.inval.shared.b64 [%r1];",
            "arrive": f"mbarrier.arrive.shared.b64 %rd1, [%r1], {value};",
            "drop": f"mbarrier.arrive_drop.shared.b64 %rd1, [%r1], {value};",
            "nocomplete": f"mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], {value};",
            "arrive_tx": f"mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], {value};",
            "expect": f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], {value};",
            "complete": f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], {value};",
            "try0": "mbarrier.try_wait.parity.shared.b64 %q3, [%r1], 0, 1000; selp.b32 %r5, 1, 0, %q3;",
            "try1": "mbarrier.try_wait.parity.shared.b64 %q3, [%r1], 1, 1000; selp.b32 %r5, 1, 0, %q3;",
        }
        self.lines.append(forms[kind])
        if kind in ("arrive", "drop", "nocomplete", "arrive_tx"):
            self.lines.append(
                "mbarrier.pending_count.b64 %r4, %rd1; mbarrier.test_wait.shared.b64 %q4, [%r1], %rd1; selp.b32 %r6, 0x1000000, 0, %q4; or.b32 %r4, %r4, %r6;"
            )
            self.log("%r4")
        if kind.startswith("try"):
            self.log("%r5")
        if kind != "inval":
            self.observe()


def _case(name: str, steps: list[Step], group: str) -> Case:
    script = _Script()
    for kind, value in steps:
        script.step(kind, value)
    return Case(name=name, family="mbarrier", body=BASE + only(0, "\n".join(script.lines)),
                outputs=(filled(script.words, "u4"),), shared=SMEM, smem=1024, group=group)  # fmt: skip


HAND_WRITTEN: dict[str, list[Step]] = {
    "fresh": [("init", 1), ("try1", 0), ("try0", 0)],
    "one arrival": [("init", 1), ("arrive", 1), ("arrive", 1), ("arrive", 1)],
    "arrivals by count": [("init", 7), ("arrive", 3), ("arrive", 4), ("arrive", 7), ("arrive", 1)],
    "expect then complete": [("init", 1), ("arrive_tx", 64), ("complete", 16), ("complete", 48)],
    "complete before expect": [("init", 1), ("complete", 64), ("expect", 64), ("arrive", 1)],
    "complete before arrive.expect": [("init", 1), ("complete", 48), ("complete", 16), ("arrive_tx", 64)],
    "arrive last": [("init", 2), ("expect", 32), ("complete", 32), ("arrive", 1), ("arrive", 1)],
    "tx zero crossing": [("init", 2), ("arrive", 1), ("expect", 16), ("complete", 16), ("expect", 32), ("arrive", 1), ("complete", 32)],
    "expect zero": [("init", 1), ("arrive_tx", 0), ("expect", 0), ("complete", 0), ("arrive", 1)],
    "tx largest": [("init", 1), ("expect", (1 << 20) - 1), ("arrive", 1), ("complete", (1 << 20) - 1)],
    "tx most negative": [("init", 1), ("complete", (1 << 20) - 1), ("expect", (1 << 20) - 1), ("arrive", 1)],
    "largest count": [("init", (1 << 20) - 1), ("arrive", (1 << 20) - 2), ("arrive", 1), ("arrive", (1 << 20) - 1)],
    "drop": [("init", 3), ("drop", 1), ("arrive", 2), ("arrive", 1), ("arrive", 1)],
    "drop two": [("init", 5), ("drop", 2), ("arrive", 3), ("drop", 1), ("arrive", 2), ("arrive", 2)],
    "noComplete": [("init", 3), ("nocomplete", 2), ("arrive", 1), ("nocomplete", 1), ("arrive", 2)],
    "initialised again": [("init", 1), ("arrive", 1), ("inval", 0), ("init", 2), ("arrive", 1), ("arrive", 1)],
    "try_wait false and true": [("init", 1), ("try0", 0), ("arrive", 1), ("try0", 0), ("try1", 0), ("arrive", 1), ("try1", 0)],
}  # fmt: skip


def _random(seed: int) -> list[Step]:
    """A legal script: no over-arrival, tx within range, count never dropped to 0."""
    rng = random.Random(seed)
    expected = rng.randint(1, 6)
    steps: list[Step] = [("init", expected)]
    pending, tx = expected, 0
    for _ in range(LIMIT // 3):
        choices: list[Callable[[], Step]] = [
            lambda: ("arrive", rng.randint(1, pending)),
            lambda: ("expect", 16 * rng.randint(1, 9)),
        ]
        if pending:
            choices += [
                lambda: ("complete", 16 * rng.randint(1, 9)),
                lambda: ("arrive_tx", 16 * rng.randint(0, 4)),
            ]
        if expected > 1 and pending > 1:
            choices.append(lambda: ("drop", 1))
        kind, value = ("complete", tx) if not pending else rng.choice(choices)()
        if kind == "complete" and not value:
            continue
        steps.append((kind, value))
        tx += {"expect": value, "arrive_tx": value, "complete": -value}.get(kind, 0)
        pending -= {"arrive": value, "arrive_tx": 1, "drop": 1}.get(kind, 0)
        expected -= kind == "drop"
        if (
            not pending and tx < 0
        ):  # an expect_tx must bring it back: outside of the rules, stop here
            steps.pop()
            return steps
        if not pending and not tx:
            pending = expected
    return steps


PARITIES = (0, 1, 2, 3, 6, 7, 0x80000000, 0x80000001, 0xFFFFFFFF)
"""Of a wait; the ISA knows 0 and 1. An immediate of another value is refused by ptxas."""


def _parity(value: int) -> Case:
    """Waits for a phase by a register's value: of a fresh barrier, and after each of two phases."""
    script = _Script()
    script.step("init", 1)
    for _ in range(3):
        script.lines.append(
            "mbarrier.test_wait.parity.shared.b64 %q5, [%r1], %n0;"
            "mbarrier.try_wait.parity.shared.b64 %q6, [%r1], %n0, 1000; selp.b32 %r5, 1, 0, %q5;"
            "selp.b32 %r6, 2, 0, %q6; or.b32 %r5, %r5, %r6;"
        )
        script.log("%r5")
        script.step("arrive", 1)
    return Case(name=f"parity {value:#x}", family="mbarrier",
                body=BASE + only(0, "\n".join(script.lines)), numbers=(value,),
                outputs=(filled(script.words, "u4"),), shared=SMEM, smem=1024,
                group="parities of waits")  # fmt: skip


def cases() -> list[Case]:
    """Hand-written and random scripts, and waits by any parity."""
    out = [_case(name, steps, "phases and transactions") for name, steps in HAND_WRITTEN.items()]
    out += [_case(f"random {seed}", _random(seed), "random scripts") for seed in range(40)]
    return out + [_parity(value) for value in PARITIES]

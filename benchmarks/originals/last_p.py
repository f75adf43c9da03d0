"""The hole in Modular's 2Q kernel, from its PTX: delays that show it, and a wait that closes it.

    python -m benchmarks.originals.last_p [--picture FILE]

docs/findings/modular_2q_last_p.md says what it is. Barriers are known by their offsets in dynamic
shared memory, which both releases have in common.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.originals.cases import BOTH, CASES
from benchmarks.originals.compare import theirs
from benchmarks.originals.launches import Heard
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import Check, RunOptions
from sm100sim.report import Event, EventKind
from sm100sim.run import before_launch
from sm100sim.timeline import Row, draw

S_READY: Final = 230464
"""Offset of the barrier of S0; that of S1 follows."""
O1_READY: Final = 230576
MAY_STORE: Final = 230632
"""First of the barriers that let a group store P; what the group waits for is 32 bytes x its number
below."""
P_STORED: Final = {"P0, first part": 230400, "P1, first part": 230416, "P1, second part": 230424}
"""What the MMA warp waits for before it multiplies P by V."""
ROUNDS: Final = (200, 1000, 5000, 20000)
HOLE: Final = ("race-tmem", "mbarrier-phase-overrun")
PRODUCTS: Final = {0: "S0 = Q0 K", 128: "S1 = Q1 K", 256: "P0 V", 384: "P1 V"}
"""First column of Tensor Memory that an MMA writes -> its name."""
ROWS: Final = (
    Row("softmax group 0", 0), Row("softmax group 1", 4), Row("MMA warp", 12),
    Row("tensor pipe", "tensor"),
)  # fmt: skip
TITLE: Final = "Last tiles of a CTA: P1 V reads columns 0 ... 63, then group 1 writes the last P1"
LAST_TILES: Final = 9700
"""On the clock of the run."""
Change = Callable[[str], str]


def waits_on(ptx: str, offset: int) -> list[re.Match[str]]:
    """The waits for the barrier at an offset, in the order of the text: address, parity.

    Raises:
        ValueError: there is none.
    """
    places = set(re.findall(rf"add\.s32\s+(%r\d+), %r\d+, {offset};", ptx))
    waits = [
        found
        for found in re.finditer(
            r"mbarrier\.try_wait\.parity\S* \S+, \[(%r\d+)\], (%r\d+);.*?// end inline asm\n", ptx,
            re.DOTALL,
        )
        if found[1] in places
    ]  # fmt: skip
    if not waits:
        raise ValueError(f"offset: no wait for the barrier at {offset}")
    return waits


def delayed(ptx: str, offset: int, rounds: int) -> str:
    """Let the warp that waits first for a barrier count so many rounds after it, and do no more."""
    at = waits_on(ptx, offset)[0].end()
    loop = (
        "{ .reg .b32 %late; .reg .pred %more;\nmov.b32 %late, 0;\nLATE:\n"
        f"add.s32 %late, %late, 1;\nsetp.lt.u32 %more, %late, {rounds};\n@%more bra LATE;\n}}\n"
    )
    return ptx[:at] + loop + ptx[at:]


def mended(ptx: str) -> str:
    """Let group 1 also wait until the MMA that reads its P before has ended: a wait for O1.

    Tile i waits for phase i - 1, whose parity is the other one than that of S1's phase i.
    """
    symbol = re.findall(r"\bmha_dynamic_shared_memory\w*", ptx)[0]
    at = waits_on(ptx, MAY_STORE)[-1].end()
    parity = next(wait[2] for wait in waits_on(ptx, S_READY) if wait.start() > at)
    wait = (
        "{ .reg .b32 %group, %o1, %before; .reg .pred %other, %done;\nmov.u32 %group, %tid.x;\n"
        "shr.u32 %group, %group, 7;\nsetp.ne.u32 %other, %group, 1;\n@%other bra STORE;\n"
        f"mov.b32 %o1, {symbol};\nadd.s32 %o1, %o1, {O1_READY};\n"
        f"xor.b32 %before, {parity}, 1;\nWAIT_O1:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %done, [%o1], %before;\n@!%done bra WAIT_O1;\n"
        "STORE:\n}\n"
    )
    return ptx[:at] + wait + ptx[at:]


KERNELS: Final[dict[str, Change]] = {"as it is": str, "mended": mended}


def changed_late(ptx: str, change: Change, offset: int, rounds: int) -> str:
    """Both: a change and a delay."""
    return delayed(change(ptx), offset, rounds)


def run_changed(release: str, change: Change, **options: Any) -> tuple[torch.Tensor, Heard]:
    """The result and launches of the kernel with its PTX changed.

    Raises:
        RuntimeError: a launch stopped, e.g. in a deadlock.
    """
    original = next(case for case in CASES if release in case.releases and "2Q" in case.name)

    def other(request: LaunchRequest, given: RunOptions) -> tuple[LaunchRequest, RunOptions]:
        return replace(request, ptx=change(request.ptx)), given

    with before_launch(other, everywhere=True):
        return theirs(original, release, original.arguments(), **options)


def product(event: Event) -> str:
    """What an MMA computes, by the columns that it writes."""
    return PRODUCTS.get(event.a, "MMA") if event.kind is EventKind.MMA else "copy"


def picture(heard: Heard, path: Path) -> None:
    """Draw the last tiles of the first CTA, the two accesses of the first race marked."""
    ((_, report, _),) = heard
    number = next(k for k, f in enumerate(report.findings) if f.code == HOLE[0])
    last = max(event.end for event in report.events)
    window = (last - LAST_TILES, last)
    draw(report, path, ROWS, title=TITLE, label=product, window=window, finding=number)


def outcome(release: str, change: Change, right: torch.Tensor, **options: Any) -> str:
    """What a change, or another order of events, does to the result."""
    try:
        out, _ = run_changed(release, change, checks=Check.NONE, trace_cluster=None, **options)
    except RuntimeError as error:
        return str(error).partition("code='")[2].partition("'")[0] or str(error)
    rows = (out != right).any(-1)
    if not rows.any():
        return "same bits"
    far = (out.float() - right.float()).abs().max()
    return f"{int(rows.sum())} of {rows.numel()} rows differ, by {float(far):.2f} at most"


def told(heard: Heard) -> str:
    """The findings that concern the hole."""
    codes = Counter(finding.code for _, report, _ in heard for finding in report.findings)
    return ", ".join(f"{code} {codes[code]}" for code in HOLE if codes[code]) or "none of them"


def main() -> None:
    """Run the kernel as it is, delayed, and mended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="draw the last tiles of the first CTA")
    parser.add_argument("--release", choices=BOTH, default=BOTH[-1])
    given = parser.parse_args()
    right, heard = run_changed(given.release, str)
    print(f"{given.release} as it is: {told(heard)}")
    if given.picture:
        picture(heard, given.picture)
    out, mended_heard = run_changed(given.release, mended)
    same = "same bits" if torch.equal(out, right) else "other bits"
    print(f"mended: {told(mended_heard)}; {same}")
    for word, change in KERNELS.items():
        print(f"mode late, {word}: {outcome(given.release, change, right, mode='late')}")
    for name, offset in P_STORED.items():
        for rounds in ROUNDS:
            for word, change in KERNELS.items():
                late = partial(changed_late, change=change, offset=offset, rounds=rounds)
                seen = outcome(given.release, late, right)
                print(f"{name}, {rounds} rounds late, {word}: {seen}", flush=True)


if __name__ == "__main__":
    main()

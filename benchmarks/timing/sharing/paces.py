"""What leaves the L2 while the SMs' clock is low: rows of own SMs and shared ones, cool and hot.

    python -m benchmarks.timing.sharing.paces OUT.json     on a Hopper GPU, with torch
    python -m benchmarks.timing.sharing.paces --bare       each launch once, for a profiler

The same micro-kernels as in `operands`, on a GPU that did nothing before and behind products that
take much power: the driver then lowers the clock of SMs. If the L2 has a clock of its own, SMs get
the same bytes a second, and more bytes in each of their cycles.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.timing.questions import SMS
from benchmarks.timing.sharing.__main__ import gpcs_of
from benchmarks.timing.sharing.operands import (
    Sharing,
    by_groups,
    bytes_per_cycle,
    in_a_row,
    ordered,
)
from benchmarks.timing.sharing.skews import Groups
from testing.hardware.device import Device, opened
from testing.site.target import target

if TYPE_CHECKING:
    from benchmarks.timing.cycles import Stamps

WIDE: Final = (128, 128)
HEAT: Final = 120
"""Products of 8192 cubed in front of a launch: some 0.2 s."""
TIMES: Final = 3
START: Final = (0,) * SMS


def across(gpcs: Groups, many: int) -> Groups:
    """Sets of so many SMs, each of another GPC as far as there are so many."""
    places = [[g[k] for g in gpcs if k < len(g)] for k in range(max(map(len, gpcs)))]
    return [place[k : k + many] for place in places for k in range(0, len(place), many)]


def questions(gpcs: Groups) -> tuple[Sharing, ...]:
    """Rows of one SM, of SMs of one GPC, of SMs of several; tiles in orders of kernels."""
    halves = [gpc[k::2] for gpc in gpcs for k in range(2)]
    pairs = [gpc[k : k + 2] for gpc in gpcs for k in range(0, len(gpc), 2)]
    fours = [a + b for a, b in zip(pairs[::2], pairs[1::2], strict=False)]
    who = {
        "every SM its own": across(gpcs, 1),
        **{f"one SM of each of {n} GPCs the same": across(gpcs, n) for n in (2, 4, 8)},
        "neighbours the same": pairs,
        "half a GPC the same": halves,
        "a GPC the same": gpcs,
        "four SMs the same": fours,
        "all the same": [[sm for gpc in gpcs for sm in gpc]],
    }
    tiles = (((128, 64), True), ((64, 128), False), (WIDE, True))
    return (
        *(Sharing(name, WIDE, by_groups(groups), by_sm=True) for name, groups in who.items()),
        Sharing("every SM its own", WIDE, by_groups(who["every SM its own"]), True, late=START),
        Sharing("8 in a row the same A", WIDE, in_a_row(8)),
        *(Sharing(f"8 blocks of {'A' if a else 'B'} first", tile, ordered(tile, 8, along_a=a))
          for tile, a in tiles),
        Sharing("every SM its own", WIDE, by_groups(who["every SM its own"]), True,
                groups=1, columns=256),
        *(Sharing("alone", tile, (((0, 0),),), slots=slots) for tile in ((64, 64), WIDE)
          for slots in (1, 4)),
    )  # fmt: skip


class Around:
    """The driver, with something in front of each launch and clocks read around it."""

    def __init__(self, cu: Any, stamps: Stamps) -> None:
        """`stamps` is of the same context."""
        self._cu, self._stamps, self.mhz = cu, stamps, 0.0
        self.before: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        """All else is the driver's."""
        return getattr(self._cu, name)

    def cuLaunchKernelEx(self, *arguments: Any) -> Any:
        """Launch, and keep the MHz at which it passed."""
        status = []
        launch = self._cu.cuLaunchKernelEx
        _, self.mhz = self._stamps.around(lambda: status.append(launch(*arguments)), self.before)
        return status[0]


def heater() -> Callable[[], None]:
    """Products of random numbers, one after the other."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def heat() -> None:
        for _ in range(HEAT):
            torch.mm(a, b)

    return heat


def answers(device: Device, stamps: Stamps, asked: tuple[Sharing, ...]) -> Iterator[dict[str, Any]]:
    """Bytes a cycle and SM, and MHz, cool and hot."""
    around = device.cu = Around(device.cu, stamps)
    for name, before in (("cool", lambda: None), ("hot", heater())):
        around.before = before
        for one in asked:
            rates, clocks = [], []
            for _ in range(TIMES):
                found = []
                for steps in one.steps:
                    found.append(device.run(one.case(steps))[0])
                    clocks.append(around.mhz)
                rates.append(float(bytes_per_cycle(found[0], found[1], one).mean()))
            yield {
                "name": one.name, "before": name, "rates": np.round(rates, 2).tolist(),
                "mhz": np.round(clocks).tolist(),
            }  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Ask, or launch each once."""
    path = None if list(arguments) == ["--bare"] else target(__doc__, arguments)
    import torch

    from benchmarks.timing.cycles import Stamps

    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")  # before the driver's own calls
    device = opened()
    gpcs = gpcs_of(device)
    asked = questions(gpcs)
    if path is None:
        for one in asked:
            device.run(one.case(one.steps[1]))
            print(one.name, flush=True)
        return
    found: dict[str, Any] = {**device.describe(), "gpcs": gpcs, "rates": []}
    for answer in answers(device, Stamps(SMS), asked):
        found["rates"].append(answer)
        print(answer, flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

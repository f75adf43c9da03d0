"""What the machine says of judged kernels at the clock that they were measured with; no GPU.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.judges.at_clocks OUT.json \\
        --traces FOLDER [--only REGEX] [--warm]

An H200's L2 has a clock of its own (`benchmarks/timing/sharing/h200_paces.json`): while SMs slow
down, they get more bytes in each of their cycles. `predictions` has one clock for all. Here each
case has the clock that `measured.json` recorded, and what the L2 gives is scaled by it; memory is
in bytes a second anyway. `paced`: an SM gets at most what `together_kernels clocks` says of the
kernel, all SMs at once, instead of the same share for all. Values themselves; no draws.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.timing.judges.warm_round import MEASURED as WARM_MEASURED
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.predict.gpu import asked_of_l2, time_launch
from sm100sim.timing.records import LaunchTrace

MEASURED: Final = Path(__file__).with_name("measured.json")
PACES: Final = MEASURED.parents[1] / "sharing" / "together_clocks.json"
CHIP: Final = "h200"
OF_L2: Final = ("l2_bytes", "l2_shared_bytes", "l2_lane_bytes", "l2_write_bytes")
"""Values in bytes a cycle of SMs at the chip's own clock."""


def at_clock(draw: Draw, mhz: float, pace: float | None = None) -> Draw:
    """A draw for SMs of another clock; `pace`: bytes a cycle that an SM gets at most."""
    factor = draw["clock_mhz"] / mhz
    scaled = {name: draw[name] * factor for name in OF_L2 if name in draw.values}
    if pace is not None:
        scaled |= {"l2_shared_bytes": pace}
    return draw.having({**scaled, "clock_mhz": mhz})


def cycles(launch: LaunchTrace, draw: Draw, *, cold: bool = True) -> int:
    """What a launch takes that finds nothing in the L2, or all that it reads."""
    asked = asked_of_l2(launch, draw, cold=cold)
    return round(time_launch(launch, asked, cold=cold).cycles)


def main() -> None:
    """Ask, case by case, of which there is a trace."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--traces", type=Path, required=True, help="of `predictions`; one's own")
    parser.add_argument("--only", default="")
    parser.add_argument("--warm", action="store_true", help="cases whose tensors the L2 has")
    asked = parser.parse_args()
    rows = json.loads((WARM_MEASURED if asked.warm else MEASURED).read_text())["rows"]
    measured = {f"{row['runner']}: {row['name']}": row for row in rows if "mhz" in row}
    paces = {row["name"]: row["here"][0] for row in json.loads(PACES.read_text())}
    found: dict[str, Any] = {}
    draw = load_chip(CHIP).draw()
    for key, row in measured.items():
        trace = asked.traces / (re.sub(r"\W+", "_", key) + ".pkl")
        if not re.search(asked.only, key) or not trace.is_file():
            continue
        launch, mhz = pickle.loads(trace.read_bytes()), row["mhz"]
        here = partial(cycles, launch, cold=not asked.warm)
        entry = {"mhz": round(mhz), "measured": round(row["cycles"]), "today": here(draw),
                 "at its clock": here(at_clock(draw, mhz))}  # fmt: skip
        if not asked.warm and (pace := paces.get(row["name"])) is not None:
            entry["paced"] = cycles(launch, at_clock(draw, mhz, pace))
        found[key] = entry
        print(key, {k: f"{100 * (v / entry['measured'] - 1):+.1f}" for k, v in entry.items()
                    if k not in ("mhz", "measured")}, flush=True)  # fmt: skip
        asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

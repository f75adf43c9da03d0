"""What one mechanism or one value would make of the cases: which misses it explains, which hits go.

    CUTE_DSL_ARCH=sm_90a SM100SIM_CUTLASS=CHECKOUT python -m benchmarks.timing.judges.what_if \\
        [OUT.json] --traces FOLDER [--only REGEX]

Each value is moved until the case `AIM` has the cycles that the chip took, and the others follow:
a value explains misses with that cause if they close too and hits stay. Nothing of this is put into
a chip. The chip is taken without what it says of copies from memory, which came out of this. Cases
are those whose code is still the measured one: today's prediction is the kept one.
Without OUT.json `what_if.json` of this folder is written. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

from benchmarks.timing.judges.launches import begin
from benchmarks.timing.judges.predictions import CHIP, PREDICTED, everything, kept
from benchmarks.timing.judges.what_if_table import AIM
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import happenings
from sm100sim.timing.model.happenings import Happening
from sm100sim.timing.predict.gpu import asked_of_l2, time_launch
from sm100sim.timing.records import Action, DynamicEvent, LaunchTrace

FOUND: Final = PREDICTED.with_name("what_if.json")
MEASURED: Final = PREDICTED.parent.with_name("h200_cycles_first.json")
LATER: Final = PREDICTED.with_name("later_first.json")
AS_IT_IS: Final = "as it is"
ALL_WAIT: Final = "who shares rows that come from memory waits for memory too"
MOST: Final = {
    "copy_latency": 2000, "copy_row_cycles": 8, "copy_bytes": 16, "copy_issue_cycles": 1000,
    "l2_shared_bytes": 16, "hbm_latency": 8000, "arrive_latency": 1000, "wake_latency": 1000,
    "wait_latency": 1000, "named_latency": 400, "named_warp": 50, "branch_cycles": 300,
    "read_latency": 300, "icache_next": 200, "icache_jump": 500, "shared_latency": 300,
    "shuffle_latency": 300, "mufu_latency": 100, "mufu_port_cycles": 12, "product_writes": 0.9,
    "wgmma_latency": 800, "wgmma_register_latency": 800, "alu_cycles": 6, "operand_cycles": 20,
}  # fmt: skip
"""Values of the chip that are tried, and how far."""
HALVINGS: Final = 9
ASKED_SINCE: Final = "copy_memory_latency"
LOADS: Final = (Action.COPY_LOAD, Action.CP_ASYNC, Action.GLOBAL)


def drawn() -> Draw:
    """The chip's values but for `ASKED_SINCE`."""
    draw = load_chip(CHIP).draw()
    return replace(draw, values={k: v for k, v in draw.values.items() if k != ASKED_SINCE})


def cycles_of(launch: LaunchTrace, values: Mapping[str, float]) -> float:
    """Cycles of a launch that finds nothing in the L2, with some values of the chip changed."""
    draw = drawn()
    draw = replace(draw, values={**draw.values, **values})
    return time_launch(launch, asked_of_l2(launch, draw), cold=True).cycles


@contextmanager
def all_wait() -> Iterator[None]:
    """Loads of rows of which one sharer's come from memory take as long for all who share them.

    The machine spreads the latency of memory over those who ever ask. Who asks in step waits with
    the first.
    """
    rules = {kind: happenings.RULES[kind] for kind in LOADS}

    def slow(event: DynamicEvent, draw: Draw) -> Happening | None:
        found = rules[event.kind](event, draw)
        if found is None or not event.fresh or event.detail[:1] in (("st",), ("red",)):
            return found
        more = (1 - event.fresh) * draw["hbm_latency"]
        return replace(found, latency=found.latency + more)

    with mock.patch.dict(happenings.RULES, dict.fromkeys(LOADS, slow)):
        yield


def reaching(launch: LaunchTrace, name: str, aim: float) -> float:
    """The value of the chip at which a launch takes `aim` cycles, or the farthest that is tried."""
    near, far = load_chip(CHIP).parameters[name].value, float(MOST[name])
    if cycles_of(launch, {name: far}) < aim:
        return far
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if cycles_of(launch, {name: middle}) < aim else (near, middle)
    return far


def measured() -> dict[str, float]:
    """Cycles that the chip took, by case."""
    rows = json.loads(MEASURED.read_text())["rows"]
    return {f"{r['runner']}: {r['name']}": r["cycles"] for r in rows if "cycles" in r}


def traces(folder: Path, only: str) -> Iterator[tuple[str, LaunchTrace]]:
    """Cases that were measured and whose kernels are still those that were."""
    later, chip = json.loads(LATER.read_text()), measured()
    for runner, name, _, trace in everything():
        key = f"{runner}: {name}"
        if key not in chip or "cycles" not in later.get(key, {}) or not re.search(only, key):
            continue
        launch = kept(folder, key, trace)
        if round(cycles_of(launch, {})) == later[key]["cycles"]:
            yield key, launch


def changes(launch: LaunchTrace, aim: float) -> Iterator[tuple[str, dict[str, float]]]:
    """Each value, moved until `launch` takes `aim` cycles."""
    for name in MOST:
        yield name, {name: reaching(launch, name, aim)}


def main() -> None:
    """Ask every case, what-if by what-if."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", default=FOUND)
    parser.add_argument("--traces", type=Path, required=True, help="keeps traces; one's own only")
    parser.add_argument("--only", default="", help="regular expression over runner and name")
    asked = parser.parse_args()
    begin()
    cases = dict(traces(asked.traces, asked.only))
    found: dict[str, Any] = {"cases": [*cases], "changes": {}}

    def keep(name: str, values: Mapping[str, float]) -> None:
        cycles = [round(cycles_of(launch, values)) for launch in cases.values()]
        found["changes"][name] = {"values": dict(values), "cycles": cycles}
        print(name, dict(values), flush=True)
        asked.out.write_text(json.dumps(found, ensure_ascii=False) + "\n")

    keep(AS_IT_IS, {})
    with all_wait():
        keep(ALL_WAIT, {})
    for name, values in changes(cases[AIM], measured()[AIM]):
        keep(name, values)


if __name__ == "__main__":
    main()

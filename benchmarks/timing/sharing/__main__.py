"""Asks a Hopper GPU what its SMs share.

python -m benchmarks.timing.sharing RESULTS.json [MODULE]     on a machine with a GPU

MODULE: skews, starts, cold, behind, lanes, tiles, exchange, accesses, kept, places, orders, rows or
boxes; then the questions of that one and no others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import kept
from benchmarks.timing.micro import answer, answered
from benchmarks.timing.questions import SMS
from benchmarks.timing.sharing import (
    accesses,
    behind,
    cold,
    exchange,
    lanes,
    rows,
    skews,
    starts,
)
from benchmarks.timing.sharing.operands import (
    SLOTS,
    WORDS,
    Sharing,
    bytes_per_cycle,
    in_a_row,
    questions,
)
from benchmarks.timing.sharing.pairs import COUNTS, ORDERED, PAIRS, Order, Pair, one_of
from testing.hardware.device import Device, DeviceError, opened
from testing.site.target import options

PERCENT = (0, 5, 50, 95, 100)
EVICTING = 1 << 28
"""Bytes that are written before a launch that is to find nothing in the L2."""


def arrivals(device: Device, pair: Pair) -> dict[str, Any]:
    """Cycles of one step: percentiles over CTAs, and those of neighbouring and other SMs."""
    (short,), (long,) = (device.run(pair.case(count)) for count in COUNTS)
    sm, one = one_of(short, long, pair)
    entry = {"name": pair.name, "percentiles": np.percentile(one, PERCENT).round(2).tolist()}
    if pair.distance:
        near = sm // 2 == sm[np.arange(pair.grid) ^ pair.distance] // 2
        for name, chosen in (("neighbours", one[near]), ("others", one[~near])):
            if len(chosen):
                entry[name] = [len(chosen), *np.percentile(chosen, PERCENT).round(2).tolist()]
    return entry


def gpcs_of(device: Device) -> list[list[int]]:
    """SMs that share a GPC: those that were ever in one cluster."""
    of = {sm: {sm} for sm in range(SMS)}
    for size in (2, 4, 8, 6, 7, 5, 3):
        pair = Pair("", 1, size, 0)
        (found,) = device.run(pair.case(COUNTS[0]))
        sms = found.reshape(pair.grid, -1)[:, 0].tolist()
        for k in range(0, pair.grid, size):
            together = set().union(*(of[sm] for sm in sms[k : k + size]))
            for sm in together:
                of[sm] = together
    return [list(group) for group in sorted({tuple(sorted(group)) for group in of.values()})]


def _whole(long: np.ndarray, asked: Sharing) -> np.ndarray:
    """Bytes a cycle over the slowest CTA's whole time, by round."""
    cycles = long[: len(asked.table) * WORDS].reshape(-1, WORDS)[:, 2:].max(axis=0)
    return np.asarray(asked.size * (asked.steps[1] + asked.slots) / cycles)


def rates(device: Device, asked: Sharing, gpcs: list[list[int]]) -> dict[str, Any]:
    """Bytes a cycle of the CTAs: percentiles, the mean, and the mean of each group of SMs."""
    (short,), (long,) = (device.run(asked.case(steps)) for steps in asked.steps)
    each = bytes_per_cycle(short, long, asked)
    sms = long[: len(each) * WORDS : WORDS]
    groups = [each[np.isin(sms, group)] for group in gpcs]
    return {
        "name": asked.name,
        "mean": round(float(each.mean()), 2),
        "percentiles": np.percentile(each, PERCENT).round(2).tolist(),
        "by group": [round(float(group.mean()), 2) for group in groups if len(group)],
        "whole": round(float(np.median(_whole(long, asked))), 2),
    }


def begins(device: Device) -> Iterator[dict[str, Any]]:
    """When CTAs begin: each launch between two looks at the timer. The first one loads code."""
    for asked in starts.questions():
        device.run(asked.case())
        cases = (starts.ticks(), asked.case(), starts.ticks())
        (first,), (found,), (last,) = (device.run(case) for case in cases)
        yield starts.answer(asked, first, last, found)


def evicting(device: Device) -> Any:
    """Memory that is written over before a launch.

    Raises:
        DeviceError: there is none.
    """
    code, place = device.cu.cuMemAlloc(EVICTING)
    if int(code):
        raise DeviceError(code.name)
    return place


def from_memory(device: Device) -> Iterator[dict[str, Any]]:
    """Copies and stores whose rows are in no cache, and beside them some that are in the L2."""
    place = evicting(device)
    asked: tuple[cold.Cold | cold.Stores, ...] = (*cold.cold_questions(), *cold.store_questions())
    for question in asked:
        device.cu.cuMemsetD8(place, 1, EVICTING)
        (found, *_) = device.run(question.case())
        yield cold.answer(question, found)


def of_boxes(device: Device) -> Iterator[dict[str, Any]]:
    """Boxes of rows from memory, which no SM shares."""
    place = evicting(device)
    for question in rows.box_questions():
        device.cu.cuMemsetD8(place, 1, EVICTING)
        yield cold.answer(question, device.run(question.case())[0])


def of_beginnings(device: Device) -> Iterator[dict[str, Any]]:
    """Boxes asked for behind others. Keys are in the L2 after the first round."""
    place = evicting(device)
    for question in behind.QUESTIONS:
        found = []
        for _ in range(behind.LAUNCHES):
            device.cu.cuMemsetD8(place, 1, EVICTING)
            found.append(device.run(question.case())[0])
        yield behind.answer(question, found)


def of_lanes(device: Device) -> Iterator[dict[str, Any]]:
    """mbarriers, copies and loads of lanes."""
    place = evicting(device)
    for question in lanes.QUESTIONS:
        yield answer(question, device.run)
    for asked in lanes.questions():
        device.cu.cuMemsetD8(place, 1, EVICTING)
        (found, *_) = device.run(asked.case())
        yield asked.answer(found)


def of_clusters(device: Device) -> Iterator[dict[str, Any]]:
    """Bytes a cycle that CTAs get from the others of their cluster, and whether they are right."""
    for asked in exchange.questions():
        short, long = (device.run(asked.case(count)) for count in exchange.COUNTS)
        each = exchange.bytes_per_cycle(short[0], long[0], asked)
        yield {
            "name": asked.name,
            "mean": round(float(each.mean()), 2),
            "percentiles": np.percentile(each, PERCENT).round(2).tolist(),
            "right": all(
                bool((sums.reshape(asked.grid, -1) == asked.sums(count)[:, None]).all())
                for count, (_, sums) in zip(exchange.COUNTS, (short, long), strict=True)
            ),
        }


def of_warps(device: Device) -> Iterator[dict[str, Any]]:
    """Shuffles, shared memory and stores of an SM's warps, and warp groups that multiply."""
    yield from accesses.answers(device.run)


def of_caches(device: Device) -> Iterator[dict[str, Any]]:
    """Loads that the L1 answers, and what it forgets."""
    yield from kept.answers(device.run)


def of_places(device: Device) -> Iterator[dict[str, Any]]:
    """Where warps of CTAs of several sizes lie. The first launch loads code."""
    for asked in starts.PLACES:
        device.run(asked.case())
        yield asked.answer(device.run(asked.case())[0])


def of_orders(device: Device) -> Iterator[dict[str, Any]]:
    """Barriers of clusters and fences."""
    yield from answered(ORDERED, device.run, Order.ask)


def of_rows(device: Device) -> Iterator[dict[str, Any]]:
    """Rows of memory, by where those of CTAs lie."""
    place = evicting(device)
    for asked in rows.questions():
        device.cu.cuMemsetD8(place, 1, EVICTING)
        yield asked.answer(device.run(asked.case())[0])


ANSWERS = {
    "cold": from_memory, "behind": of_beginnings, "lanes": of_lanes, "exchange": of_clusters,
    "accesses": of_warps, "kept": of_caches, "places": of_places, "orders": of_orders,
    "rows": of_rows, "boxes": of_boxes,
}  # fmt: skip
"""Modules whose answers are a list."""


def rated(which: str, gpcs: list[list[int]]) -> tuple[Sharing, ...]:
    """Questions about operands: of a module, or those of `operands`."""
    if which == "tiles":
        return skews.tiles()
    return skews.questions(gpcs) if which == "skews" else questions(gpcs)


def main(out: Path, which: str = "") -> int:
    """Ask everything, or the questions of one module; returns the exit status."""
    device = opened()
    if which == "starts":
        seen = {**device.describe(), "gpcs": gpcs_of(device), "starts": [*begins(device)]}
        out.write_text(json.dumps(seen) + "\n")
        return 0
    if which in ANSWERS:
        answers = [*ANSWERS[which](device)]
        out.write_text(json.dumps({**device.describe(), "answers": answers}, indent=1) + "\n")
        return 0
    found: dict[str, Any] = {**device.describe(), "arrivals": [], "rates": []}
    for pair in () if which else PAIRS:
        found["arrivals"].append(arrivals(device, pair))
        out.write_text(json.dumps(found, indent=1) + "\n")
    found["gpcs"] = gpcs_of(device)
    (first,) = device.run(Sharing("", (64, 64), in_a_row(1)).case(SLOTS))
    found["sms of CTAs"] = first.reshape(SMS, -1)[:, 0].tolist()
    for asked in rated(which, found["gpcs"]):
        found["rates"].append(rates(device, asked, found["gpcs"]))
        out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("which", nargs="?", default="", help="the module whose questions are asked")
    given = parser.parse_args()
    sys.exit(main(given.file, given.which))

"""When each CTA of a launch begins and ends, on a Hopper GPU and on the clocked machine.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.spans_asked FOLDER      no GPU
    python -m benchmarks.timing.waits.spans run FOLDER OUT.json     on a machine with a GPU
    python -m benchmarks.timing.waits.spans show OUT.json           a table; no GPU

Every CTA writes two records and waits are left alone; of persistent CTAs also each wait for Q,
which begins a tile. Beside them: cycles of the kernel as it is, and of some kernels all waits, of
few CTAs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.timing.waits.records import BEGIN, END, WAITS, WORDS, decoded

ROUNDS: Final = 15
ENDS, ALL_WAITS = " | ends", " | waits"
"""Behind a kernel's name: it writes begins and ends, or all waits."""
Span = tuple[int, int, int]
"""SM, begin in nanoseconds since the launch's first, and cycles from begin to end."""


def spans(words: npt.NDArray[np.uint32], warps: int, records: int) -> list[Span]:
    """When each CTA was on which SM: from its first warp's begin to its last one's end."""
    rows = words.reshape(-1, warps, records, WORDS)
    begin = rows[:, :, 0]
    if not (begin[..., 0] == BEGIN).all():
        raise ValueError("a warp has written no begin")
    last = np.where(rows[..., 0] == END, np.arange(records), 0).max(axis=2)
    end = np.take_along_axis(rows, last[..., None, None], axis=2)[:, :, 0]
    origin = begin[:, :1, 1]
    since = [(x - origin).astype(np.int32).astype(int) for x in (begin[..., 1], end[..., 1])]
    length = since[1].max(axis=1) - since[0].min(axis=1)
    ns = (begin[:, 0, 3] - begin[0, 0, 3]).astype(np.int32).astype(int)
    found = zip(begin[:, 0, 2].tolist(), (ns - ns.min()).tolist(), length.tolist(), strict=True)
    return list(found)


def tiles(words: npt.NDArray[np.uint32], warps: int, records: int) -> list[list[int]]:
    """Cycles of a persistent CTA's first warp from a wait for Q to the next, and to its end."""
    ctas = decoded(words, warps, records)
    return [[(b.before - a.before) % 2**32 for a, b in pairwise(cta[0][1:])] for cta in ctas]


def placed_again(lengths: Sequence[float], places: int, gap: float) -> float:
    """When the last of CTAs ends that take the first free place, in their order."""
    free = [0.0] * places
    for length in lengths:
        heapq.heapreplace(free, free[0] + gap + length)
    return max(free)


def usual(kernel: Mapping[str, Any]) -> list[float]:
    """The median CTA's cycles, by query tile of a head."""
    lengths = [length for _, _, length in kernel["spans"]]
    return [median(lengths[k :: kernel["across"]]) for k in range(kernel["across"])]


def places(kernel: Mapping[str, Any]) -> int:
    """How many CTAs ran at once: those that began before a first one could be half done."""
    half = min(length for _, _, length in kernel["spans"]) / 2
    return sum(begin * kernel["mhz" + ENDS] / 1e3 < half for _, begin, _ in kernel["spans"])


def first_of_sms(kernel: Mapping[str, Any]) -> float:
    """Mean cycles of the first CTA of each SM; only where an SM holds one at a time."""
    first: dict[int, Span] = {}
    for sm, begin, length in sorted(kernel["spans"], key=lambda span: span[1]):
        first.setdefault(sm, (sm, begin, length))
    return mean(length for _, _, length in first.values())


def evenly(kernel: Mapping[str, Any], gap: float, launch: float) -> float:
    """Cycles of a launch whose CTAs all take what the median one of their query tile takes."""
    even, across = usual(kernel), kernel["across"]
    lengths = [even[k % across] for k in range(len(kernel["spans"]))]
    return launch + placed_again(lengths, places(kernel), gap)


def launch_part(kernel: Mapping[str, Any], gap: float, launch: float) -> float:
    """How much longer a launch took than with even CTAs, as a share of it."""
    took: float = median(kernel["cycles" + ENDS])
    return 1 - evenly(kernel, gap, launch) / took


Ask = argparse.Namespace


def _measured(
    name: str, kind: str, known: Mapping[str, Any], tools: tuple[Any, Any, Ask], t: dict[str, Any]
) -> dict[str, Any]:
    """A launch of a kind: its cycles, and what it wrote. Tools: launches, a launcher, how to."""
    import torch

    from benchmarks.timing.cycles import row
    from benchmarks.timing.judges.cases import ROUNDED, error_of
    from benchmarks.timing.waits.__main__ import middle
    from benchmarks.timing.waits.records import counted

    launches, launcher, asked = tools
    if kind:
        shape = (known[kind]["written"], known["warps"], known[kind]["records"], WORDS)
        t[WAITS] = torch.zeros(shape, dtype=torch.int32, device="cuda")
    t["out"].fill_(float("nan"))
    made = launcher.prepared(launches[name + kind], {n: x.data_ptr() for n, x in t.items()})
    stream = torch.cuda.current_stream().cuda_stream
    took = row(name, kind, asked.stamps, lambda: made(stream), asked)
    error = error_of(t["out"], asked.case.problem.expected(t))
    if not error <= ROUNDED:
        return {f"failed{kind}": f"wrong: error {error}"}
    found: dict[str, Any] = {
        "cycles" + kind: [round(x) for x in took["runs"]], "mhz" + kind: round(took["mhz"])
    }  # fmt: skip
    if not kind:
        return found
    words = t[WAITS].cpu().numpy().view(np.uint32)
    size = (known["warps"], known[kind]["records"])
    if kind == ALL_WAITS:
        return {**found, "waits": middle([counted(cta) for cta in decoded(words, *size)])}
    found["spans"] = spans(words, *size)
    return {**found, "tiles": tiles(words, *size)} if known["tiles"] else found


def run(folder: Path, out: Path) -> None:
    """Make the launches, and keep what they wrote."""
    import torch

    from benchmarks.hopper.times.clocks import card
    from benchmarks.hopper.times.launcher import Launcher
    from benchmarks.hopper.times.recorded import load
    from benchmarks.hopper.times.timing import Flush
    from benchmarks.timing.cycles import Stamps
    from benchmarks.timing.judges.cases import CASES

    said = json.loads((folder / "said.json").read_text())
    launches, launcher, flush = load(folder), Launcher(folder), Flush(cold=True)
    stamps = Stamps(torch.cuda.get_device_properties(0).multi_processor_count, flush)
    found: dict[str, Any] = {"card": card(), "kernels": {}}
    for name, known in said.items():
        case = next(c for c in CASES if c.name == known["case"])
        asked = argparse.Namespace(flush=flush, rounds=ROUNDS, stamps=stamps, case=case)
        t = case.drawn()
        answer: dict[str, Any] = {"across": known["across"]}
        for kind in ("", ENDS, ALL_WAITS):
            if name + kind in launches:
                answer |= _measured(name, kind, known, (launches, launcher, asked), t)
        found["kernels"][name] = answer
        print(name, [key for key in answer if "failed" in key], flush=True)
        out.write_text(json.dumps(found, ensure_ascii=False) + "\n")
        del t
        torch.cuda.empty_cache()


def show(measured: Path, gap: float, launch: float) -> Iterator[str]:
    """A line a kernel: cycles, and with records how much more.

    Of CTAs with a tile each also the first and the last tile's, the deviation within a tile, those
    of the first CTAs of SMs, and the launch's part.
    """
    for name, kernel in json.loads(measured.read_text())["kernels"].items():
        took = [median(kernel["cycles" + kind]) for kind in ("", ENDS)]
        line = f"| {name} | {took[0]:,.0f} | {took[1] / took[0] - 1:+.1%} |"
        if "tiles" not in kernel:
            lengths = np.array([length for _, _, length in kernel["spans"]])
            tile = np.array(usual(kernel))[np.arange(len(lengths)) % kernel["across"]]
            line += (
                f" {usual(kernel)[0]:,.0f} | {usual(kernel)[-1]:,.0f} | "
                f"{np.std(lengths / tile):.1%} | {first_of_sms(kernel):,.0f} | "
                f"{launch_part(kernel, gap, launch):+.2%} |"
            )
        yield line


def main(arguments: list[str]) -> int:
    """Run or show; returns the exit status."""
    match arguments:
        case ["run", folder, out]:
            run(Path(folder), Path(out))
        case ["show", out]:
            from sm100sim.timing.chips import load_chip

            draw = load_chip("h200").draw()
            print("\n".join(show(Path(out), draw["cta_cycles"], draw["launch_cycles"])))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

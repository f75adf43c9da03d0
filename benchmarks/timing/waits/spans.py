"""When each CTA of a launch begins and ends, on a Hopper GPU and on the clocked machine.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.spans_asked FOLDER      no GPU
    python -m benchmarks.timing.waits.spans run FOLDER OUT.json     on a machine with a GPU
    python -m benchmarks.timing.waits.spans show OUT.json           a table; no GPU

Every CTA writes two records and waits are left alone; of persistent CTAs also each wait for Q, which
begins a tile. Beside them: cycles of the kernel as it is, and of some kernels all waits, of few CTAs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Mapping, Sequence
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
    """Of each persistent CTA's first warp: cycles from one wait for Q to the next, and to its end."""
    ctas = decoded(words, warps, records)
    return [[(b.before - a.before) % 2**32 for a, b in pairwise(cta[0][1:])] for cta in ctas]


def placed_again(lengths: Sequence[float], places: int, gap: float) -> float:
    """When the last of CTAs ends that take the first free place, in their order."""
    free = [0.0] * places
    for length in lengths:
        heapq.heapreplace(free, free[0] + gap + length)
    return max(free)


def summary(kernel: Mapping[str, Any], gap: float) -> dict[str, float]:
    """What a launch's cycles are made of, where each CTA has one tile.

    mean, of the first on each SM, of the others; waves: as many as SMs' mean; packed: in the order
    of the launch with each CTA's own cycles; even: with the median of all CTAs of a query tile.
    """
    found, across = kernel["spans"], kernel["across"]
    lengths = [length for _, _, length in found]
    order = sorted(range(len(found)), key=lambda k: found[k][1])
    first, seen = set[int](), set[int]()
    for k in order:
        if found[k][0] not in seen:
            seen.add(found[k][0])
            first.add(k)
    usual = [median(lengths[k::across]) for k in range(across)]
    even = [usual[k % across] for k in range(len(lengths))]
    sms = len(seen)
    whole = [length for k, length in enumerate(lengths) if k % across < across - 1 or across == 1]
    return {
        "mean": mean(lengths), "first": mean(lengths[k] for k in first),
        "whole": median(whole), "last": usual[-1],
        "spread": float(np.std(whole) / np.mean(whole)),
        "packed": placed_again(lengths, sms, gap), "even": placed_again(even, sms, gap),
        "ideal": sum(length + gap for length in lengths) / sms,
    }  # fmt: skip


def run(folder: Path, out: Path) -> None:
    """Make the launches, and keep what they wrote."""
    import torch

    from benchmarks.hopper.times.clocks import card
    from benchmarks.hopper.times.launcher import Launcher
    from benchmarks.hopper.times.recorded import load
    from benchmarks.hopper.times.timing import Flush
    from benchmarks.timing.cycles import Stamps, row
    from benchmarks.timing.judges.cases import CASES, ROUNDED
    from benchmarks.timing.waits.__main__ import middle
    from benchmarks.timing.waits.records import counted

    said = json.loads((folder / "said.json").read_text())
    launches, launcher, flush = load(folder), Launcher(folder), Flush(cold=True)
    stamps = Stamps(torch.cuda.get_device_properties(0).multi_processor_count, flush)
    asked = argparse.Namespace(flush=flush, rounds=ROUNDS)
    found: dict[str, Any] = {"card": card(), "kernels": {}}
    for name, known in said.items():
        case = next(c for c in CASES if c.name == known["case"])
        torch.manual_seed(1)
        t = {
            key: torch.randn(size, device="cuda").to(case.dtype(key))
            for key, size in case.shapes().items()
        }
        answer: dict[str, Any] = {"across": known["across"]}
        for kind in ("", ENDS, ALL_WAITS):
            if name + kind not in launches:
                continue
            if kind:
                shape = (known[kind]["written"], known["warps"], known[kind]["records"], WORDS)
                t[WAITS] = torch.zeros(shape, dtype=torch.int32, device="cuda")
            t["out"].fill_(float("nan"))
            launch = launcher.prepared(
                launches[name + kind], {n: x.data_ptr() for n, x in t.items()}
            )
            measured = row(
                name, case.family, stamps,
                lambda made=launch: made(torch.cuda.current_stream().cuda_stream), asked,
            )  # fmt: skip
            expected = case.problem.expected(t)
            error = float((t["out"].float() - expected).norm() / expected.norm())
            del expected
            if not error <= ROUNDED:
                answer[f"failed{kind}"] = f"wrong: error {error}"
                continue
            answer[f"cycles{kind}"] = [round(x) for x in measured["runs"]]
            answer[f"mhz{kind}"] = round(measured["mhz"])
            if kind:
                words = t[WAITS].cpu().numpy().view(np.uint32)
                size = (known["warps"], known[kind]["records"])
            if kind == ENDS:
                answer["spans"] = spans(words, *size)
                if known["tiles"]:
                    answer["tiles"] = tiles(words, *size)
            if kind == ALL_WAITS:
                answer["waits"] = middle([counted(cta) for cta in decoded(words, *size)])
        found["kernels"][name] = answer
        print(name, median(answer.get("cycles", [0])), median(answer.get("cycles" + ENDS, [0])),
              [k for k in answer if "failed" in k], flush=True)  # fmt: skip
        out.write_text(json.dumps(found) + "\n")
        del t, launch
        torch.cuda.empty_cache()


def show(measured: Path) -> str:
    """A line for each kernel."""
    lines = []
    for name, kernel in json.loads(measured.read_text())["kernels"].items():
        took = [median(kernel.get(key, [0])) for key in ("cycles", "cycles" + ENDS)]
        lines.append(f"{name}: {took[0]:,.0f}, with records {took[1]:,.0f}")
        if "spans" in kernel and "tiles" not in kernel:
            said = summary(kernel, 312)
            lines.append("    " + ", ".join(f"{k} {x:,.3f}" for k, x in said.items()))
        if "tiles" in kernel:
            each = [t for cta in kernel["tiles"] for t in cta[:-1]]
            lines.append(f"    tiles: median {median(each):,.0f}, mean {mean(each):,.0f}; ctas "
                         f"{[x[2] for x in kernel['spans']][:5]}")  # fmt: skip
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run or show; returns the exit status."""
    match arguments:
        case ["run", folder, out]:
            run(Path(folder), Path(out))
        case ["show", out]:
            print(show(Path(out)))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

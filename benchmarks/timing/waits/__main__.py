"""Waits of kernels, one by one, on a Hopper GPU and on the clocked machine.

    python -m benchmarks.timing.waits run FOLDER OUT.json     on a machine with a GPU
    python -m benchmarks.timing.waits show FOLDER OUT.json    a table; no GPU

FOLDER: what `benchmarks.timing.waits.asked` wrote. Of the CTAs that write, the middle one of each
record is kept; nothing of a kernel is in the L2 when it begins.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing.waits.records import BEGIN, RECORDS, WAITS, WORDS, Record, counted, decoded

Waits = Sequence[Sequence[Sequence[float]]]
Roles = dict[tuple[float, ...], list[int]]


def middle(ctas: Sequence[Waits]) -> Waits:
    """The median CTA: of each record of a warp the median begin and length.

    CTAs whose warp made other waits than the first one's are left out for that warp.
    """
    found = []
    for warp in range(len(ctas[0])):
        way = [r[0] for r in ctas[0][warp]]
        alike = [c[warp] for c in ctas if [r[0] for r in c[warp]] == way]
        found.append(np.median(np.array(alike, float), axis=0).tolist())
    return found


def roles(waits: Waits) -> Roles:
    """Warps by the waits that they make, in order."""
    found: Roles = {}
    for number, warp in enumerate(waits):
        found.setdefault(tuple(r[0] for r in warp), []).append(number)
    return found


def _sums(waits: Waits, warps: Sequence[int]) -> dict[int, tuple[float, float]]:
    """How often each wait is made, and its cycles, by a warp of some; whole times under `BEGIN`."""
    found: dict[int, tuple[float, float]] = {BEGIN: (1, 0)}
    for number in warps:
        for site, _, cycles in waits[number]:
            if site < BEGIN:
                times, before = found.get(int(site), (0, 0))
                found[int(site)] = (times + 1 / len(warps), before + cycles / len(warps))
        if waits[number]:
            begin, end = waits[number][0][1], waits[number][-1][1]
            found[BEGIN] = (1, found[BEGIN][1] + (end - begin) / len(warps))
    return found


def compared(chip: Waits, machine: Waits, sites: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Rows: who waits where, how often, cycles a wait on either, what that makes of the CTA."""
    for warps in roles(machine).values():
        if not machine[warps[0]]:
            continue
        who = f"{warps[0]}–{warps[-1]}" if len(warps) > 1 else str(warps[0])
        theirs, ours = _sums(chip, warps), _sums(machine, warps)
        for site, (times, cycles) in ours.items():
            seen = theirs.get(site, (0, 0))[1]
            name = "from begin to end"
            if site < BEGIN:
                name = f"{sites[site]['kind']}, line {sites[site]['line']}"
            yield (
                f"| {who} | {name} | {times:.0f} | {seen / times:,.0f} | {cycles / times:,.0f} | "
                f"{cycles - seen:+,.0f} |"
            )


def show(folder: Path, measured: Path) -> str:
    """The table of each kernel that was measured."""
    said = json.loads((folder / "machine.json").read_text())
    lines = []
    for name, answer in json.loads(measured.read_text())["kernels"].items():
        lines += ["", f"## {name}", ""]
        if "failed" in answer:
            lines.append(answer["failed"])
            continue
        lines += ["| warps | wait | times | chip | machine | machine less chip, in all |",
                  "|---|---|---|---|---|---|"]  # fmt: skip
        machine = said[name]["machine"]
        lines += compared(answer["waits"], machine, said[name]["sites"])
    return "\n".join(lines)


def placed(ctas: Sequence[Sequence[Sequence[Record]]], words: np.ndarray) -> list[list[int]]:
    """SM, nanoseconds and cycles of the first warp of each CTA that wrote."""
    return [
        [cta[0][0].behind, int(row[0, 0, 3]), (cta[0][-1].before - cta[0][0].before) % 2**32]
        for cta, row in zip(ctas, words, strict=True)
        if cta[0]
    ]


def measure(folder: Path, out: Path) -> None:
    """Make the launches, and keep what they wrote."""
    import torch

    from benchmarks.hopper.times.clocks import card
    from benchmarks.hopper.times.launcher import Launcher
    from benchmarks.hopper.times.recorded import load
    from benchmarks.hopper.times.timing import Flush
    from benchmarks.timing.judges.cases import ROUNDED, error_of
    from benchmarks.timing.waits.cases import WAITED

    said = json.loads((folder / "machine.json").read_text())
    launches, launcher, flush = load(folder), Launcher(folder), Flush(cold=True)
    found: dict[str, Any] = {"card": card(), "kernels": {}}
    for case in (case for case in WAITED if case.name in launches):
        known = said[case.name]
        shape = (known["written"], known["warps"], RECORDS, WORDS)
        t = case.drawn()
        t[WAITS] = torch.zeros(shape, dtype=torch.int32, device="cuda")
        run = launcher.prepared(launches[case.name], {n: x.data_ptr() for n, x in t.items()})
        for _ in range(2):  # the first one loads the code
            flush()
            run(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        error = error_of(t["out"], case.problem.expected(t))
        if not error <= ROUNDED:
            found["kernels"][case.name] = {"failed": f"wrong: error {error}"}
            continue
        words = t[WAITS].cpu().numpy().view(np.uint32)
        ctas = decoded(words, known["warps"], RECORDS)
        waits = middle([counted(cta) for cta in ctas])
        found["kernels"][case.name] = {"waits": waits, "placed": placed(ctas, words)}
        print(case.name, "measured", flush=True)
        out.write_text(json.dumps(found) + "\n")
        del t, run
        torch.cuda.empty_cache()


def main(arguments: list[str]) -> int:
    """Run or show; returns the exit status."""
    match arguments:
        case ["run", folder, out]:
            measure(Path(folder), Path(out))
        case ["show", folder, out]:
            print(show(Path(folder), Path(out)))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

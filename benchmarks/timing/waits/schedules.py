"""The same PTX by several schedules of ptxas: what they take on a Hopper GPU and on the machine.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.schedules ask FOLDER    no GPU
    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.schedules machine OUT.json    no GPU
    python -m benchmarks.timing.waits.schedules run FOLDER OUT.json     on a machine with a GPU
    python -m benchmarks.timing.waits.schedules show CHIP.json MACHINE.json       a table

Kernels are those of `spans_asked`: as they are, with a begin and an end that each CTA writes, and
with a warp group that begins later than the one before by as many cycles as a parameter says; each
by two versions of ptxas. None of it changes a loop's PTX, and ptxas schedules the loop anew.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, Final

from benchmarks.timing.gemms import tau
from benchmarks.timing.waits.records import WAITS, WORDS

ENDS, LATE, OTHER, JUDGED = " | ends", " | late", " | other ptxas", " | as judged"
KINDS: Final = (JUDGED, *(kind + by for by in ("", OTHER) for kind in ("", ENDS, LATE)))
CYCLES: Final = (0, 20, 40, 80, 160)
"""That a warp group begins later than the one before; the last parameter of such a kernel."""
ROUNDS: Final = 9
Both = tuple[float, float]
"""Cycles of the chip and of the machine."""


def ask(folder: Path) -> None:
    """Write the launches."""
    import hashlib

    from benchmarks.hopper.times.record_fa4 import APART, recorded, side_of
    from benchmarks.hopper.times.recorded import save
    from benchmarks.timing.judges.launches import ARCH, begin, heard
    from benchmarks.timing.waits.spans_asked import FEW, offered
    from sm100sim.timing.sass.tools import assembled

    begin()
    launches, images, said = {}, {}, {}
    for case in offered():
        for kind in KINDS:
            sides = []
            for apart in APART:
                request, t = request_of(case, kind, apart)
                sides.append(side_of(request, t))
            cubin = assembled(request.ptx, ARCH, ptxas=assembler(kind))
            if kind == JUDGED:
                cubin = heard(case, t)[1]
            image = hashlib.sha256(cubin).hexdigest()[:16] + ".cubin"
            launches[case.name + kind] = recorded(request, image, *sides)
            images[image] = cubin
        words = prod(request.grid) * prod(request.block) // 32 * FEW * WORDS
        said[case.name] = {"words": words}
        print(case.name, flush=True)
    save(folder, launches, images)
    (folder / "said.json").write_text(json.dumps(said) + "\n")


def assembler(kind: str) -> str | None:
    """The ptxas of a kind: this package's, or Triton's."""
    from benchmarks.timing.judges.launches import triton_ptxas

    return triton_ptxas() if kind.endswith(OTHER) else None


def request_of(case: Any, kind: str, apart: int) -> tuple[Any, Any]:
    """The launch of a kind, and its tensors."""
    from benchmarks.timing.waits import spans_asked

    plain = kind.removesuffix(OTHER).removesuffix(JUDGED)
    if plain != LATE:
        request, t, _ = spans_asked.asked(case, lambda ptx: ptx, plain, apart)
        return request, t
    request, t, _ = spans_asked.asked(case, late, "", apart)
    return replace(request, params=(*request.params, struct.pack("<I", 0))), t


def late(ptx: str) -> str:
    """Return the module whose warp groups that multiply begin later, each by the last parameter.

    Raises:
        ValueError: it has no warps that take more registers, or takes no parameters.
    """
    take, entry = ptx.find("setmaxnreg.inc"), re.search(r"\.entry\s+[\w$.]+\s*\(([^)]*)\)", ptx)
    if take < 0 or entry is None:
        raise ValueError("ptx: no warps that take more registers, or no parameters")
    at = ptx.index("\n", take) + 1
    text = (
        ".reg .b32 %l_from, %l_now, %l_by, %l_group; .reg .pred %l_on;\n"
        "mov.u32 %l_from, %clock; ld.param.b32 %l_by, [begins_later];\n"
        "mov.u32 %l_group, %tid.x; shr.u32 %l_group, %l_group, 7;\n"
        "mul.lo.u32 %l_by, %l_by, %l_group;\n"
        "BEGINS_LATER:\nmov.u32 %l_now, %clock; sub.u32 %l_now, %l_now, %l_from;\n"
        "setp.lt.u32 %l_on, %l_now, %l_by;\n@%l_on bra BEGINS_LATER;\n"
    )
    place = entry.end(1)
    head = f"{ptx[:place].rstrip()},\n\t.param .u32 begins_later\n"
    return head + ptx[place:at] + text + ptx[at:]


def machine(out: Path) -> None:
    """Ask the machine for all of them, and keep what it says; what is kept already stays."""
    from benchmarks.timing.judges.launches import begin
    from benchmarks.timing.waits.asked import cycles
    from benchmarks.timing.waits.spans_asked import offered

    begin()
    found = json.loads(out.read_text()) if out.is_file() else {}
    for case in offered():
        for kind in KINDS:
            if case.name + kind in found:
                continue
            found[case.name + kind] = cycles(case, *request_of(case, kind, 0), assembler(kind))
            print(case.name + kind, found[case.name + kind], flush=True)
            out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def run(folder: Path, out: Path) -> None:
    """Make the launches, kinds of a kernel in turn, and keep their cycles."""
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
        case = next(c for c in CASES if c.name == name)
        t = case.drawn()
        t[WAITS] = torch.zeros(known["words"], dtype=torch.int32, device="cuda")
        expected = case.problem.expected(t)
        asked = argparse.Namespace(flush=flush, rounds=ROUNDS, stamps=stamps, expected=expected)
        for kind in KINDS:
            for cycles in CYCLES if LATE in kind else (0,):
                launch = launches[name + kind]
                if LATE in kind:
                    params = (*launch.params[:-1], struct.pack("<I", cycles))
                    launch = replace(launch, params=params)
                key = name + kind + (f" | {cycles}" if LATE in kind else "")
                found["kernels"][key] = _cycles(launcher, launch, t, asked)
        print(name, flush=True)
        out.write_text(json.dumps(found, ensure_ascii=False) + "\n")
        del t, expected, asked
        torch.cuda.empty_cache()


def _cycles(launcher: Any, launch: Any, t: dict[str, Any], asked: Any) -> list[int] | str:
    """Cycles of each run, or how wrong the result is."""
    import torch

    from benchmarks.timing.cycles import row
    from benchmarks.timing.judges.cases import ROUNDED, error_of

    t["out"].fill_(float("nan"))
    made = launcher.prepared(launch, {key: tensor.data_ptr() for key, tensor in t.items()})
    stream = torch.cuda.current_stream().cuda_stream
    measured = row("", "", asked.stamps, lambda: made(stream), asked)
    error = error_of(t["out"], asked.expected)
    return [round(x) for x in measured["runs"]] if error <= ROUNDED else f"wrong: {error}"


def joined(chip: Mapping[str, Any], said: Mapping[str, float]) -> dict[str, list[Both]]:
    """Of each kernel what the chip and the machine take, by kind; who begins later by 0 cycles."""
    names = [key.removesuffix(JUDGED) for key in said if key.endswith(JUDGED)]
    return {
        name: [
            (median(chip[name + kind + " | 0" * (LATE in kind)]), said[name + kind])
            for kind in KINDS
        ]
        for name in names
    }


def later(chip: Mapping[str, Any], name: str, by: str = "") -> list[float]:
    """What warp groups that begin later change of a kernel's time, as a share, by `CYCLES`."""
    took = [median(chip[f"{name}{LATE}{by} | {cycles}"]) for cycles in CYCLES]
    return [x / took[0] - 1 for x in took]


def show(chip: Mapping[str, Any], said: Mapping[str, float]) -> Iterator[str]:
    """Rows: errors by kind, their mean and deviation, and what warp groups that begin later do.

    Then the orders: tau by kind, and of means.
    """
    rows = joined(chip, said)
    for name, both in rows.items():
        errors = [m / c - 1 for c, m in both]
        change = max((x for by in ("", OTHER) for x in later(chip, name, by)), key=abs)
        yield (
            f"| {name} | {', '.join(f'{e:+.1%}' for e in errors)} | {mean(errors):+.1%} | "
            f"{stdev(errors):.1%} | {change:+.1%} |"
        )
    for ladder in dict.fromkeys(name.rsplit("-", 1)[0] for name in rows):
        chosen = [both for name, both in rows.items() if name.startswith(ladder)]
        each = [tau([both[k] for both in chosen]) for k in range(len(KINDS))]
        means = [(mean(c for c, _ in both), mean(m for _, m in both)) for both in chosen]
        yield f"{ladder}: tau {', '.join(f'{x:.2f}' for x in each)}; of means {tau(means):.2f}"


def main(arguments: list[str]) -> int:
    """Ask, run or show; returns the exit status."""
    match arguments:
        case ["ask", folder]:
            ask(Path(folder))
        case ["machine", out]:
            machine(Path(out))
        case ["run", folder, out]:
            run(Path(folder), Path(out))
        case ["show", chip, said]:
            found = json.loads(Path(chip).read_text())["kernels"]
            print("\n".join(show(found, json.loads(Path(said).read_text()))))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Kernels without some of their instructions: what each kind is worth, on the chip and the machine.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.without ask FOLDER [REGEX]       no GPU
    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.without machine OUT.json [REGEX] no GPU
    python -m benchmarks.timing.waits.without run FOLDER OUT.json      on a machine with a GPU
    python -m benchmarks.timing.waits.without show CHIP.json MACHINE.json              a table

In a kernel's PTX an addition stands for each exponential, maximum or conversion that is left out:
it takes an issue slot and none of the units that are asked about. Or moves stand for all
arithmetic, and ptxas drops nearly all of them. Results are wrong then, and nobody looks at them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.timing.judges.cases import OURS, Case
from benchmarks.timing.judges.problems import Attention

_TWO, _THREE = r"(\s+)([\w%]+),\s*([\w%]+)", r"(\s+)([\w%]+),\s*([\w%]+),\s*([\w%]+)"
EXPONENTIAL, MAXIMUM = rf"ex2\.approx\.ftz\.f32{_TWO};", rf"max\.ftz\.NaN\.f32{_THREE};"
CONVERSION, SHUFFLE = rf"cvt\.rn\.bf16x2\.f32{_THREE};", rf"shfl\.sync\.bfly\.b32{_THREE}, [^;]*;"
FUSED, SUM = rf"fma\.rn\.ftz\.f32{_THREE},[^;]*;", rf"add(?:\.rn)?(?:\.ftz)?\.f32{_THREE};"
ADDED, MOVED = r"add.ftz.f32\1\2, \3, \4;", r"mov.b32\1\2, \3;"
REWRITES: Final = {
    "exponentials": {EXPONENTIAL: r"add.ftz.f32\1\2, \3, \3;"},
    "maxima": {MAXIMUM: ADDED},
    "conversions": {CONVERSION: ADDED},
    "shuffles": {SHUFFLE: MOVED},
    "arithmetic": dict.fromkeys((EXPONENTIAL, MAXIMUM, CONVERSION, FUSED, SUM), MOVED),
}
"""What is left out: patterns of the PTX, and what stands in their place."""
SLOW: Final = ("exponentials", "maxima", "conversions")
WITHOUT: Final = {
    "": (), " | no exponentials": ("exponentials",), " | no maxima": ("maxima",),
    " | no conversions": ("conversions",), " | none of them": SLOW,
    " | nor shuffles": (*SLOW, "shuffles"), " | no arithmetic": ("shuffles", "arithmetic"),
}  # fmt: skip
"""Kinds of a kernel, by what its name ends with."""
ROUNDS: Final = 9
ASKED: Final = {
    Attention(1024, 64): ("one consumer",), Attention(2048, 64): ("fewer consumers",),
    Attention(1024, 128): ("one consumer", "48 keys"),
    Attention(2048, 128): ("two consumers", "64 keys"),
    Attention(2048, 96): ("one tile a CTA",), Attention(8192, 96): ("as chosen",),
}  # fmt: skip
CASES: Final = tuple(
    Case(OURS, problem, name) for problem, names in ASKED.items() for name in names
)
"""Kernels that are missed, and beside them some that are not."""


def left_out(ptx: str, kinds: tuple[str, ...]) -> str:
    """The module without some kinds of instructions.

    Raises:
        ValueError: it has none of a kind.
    """
    for kind in kinds:
        for pattern, instead in REWRITES[kind].items():
            ptx, count = re.subn(pattern, instead, ptx)
            if not count:
                raise ValueError(f"ptx: no {kind} to leave out, {pattern}")
    return ptx


def request_of(case: Case, kind: str, apart: int) -> tuple[Any, Any]:
    """The launch of a kind, and its tensors."""
    from benchmarks.timing.judges.launches import heard, tensors_of

    t = tensors_of(case, apart)
    request = heard(case, t)[0]
    return replace(request, ptx=left_out(request.ptx, WITHOUT[kind])), t


def chosen(only: str) -> Iterator[tuple[Case, str]]:
    """Cases whose name a regular expression is found in, each with every kind."""
    return ((case, kind) for case in CASES if re.search(only, case.name) for kind in WITHOUT)


def ask(folder: Path, only: str) -> None:
    """Write the launches."""
    from benchmarks.hopper.times.record_fa4 import APART, recorded, side_of
    from benchmarks.hopper.times.recorded import save
    from benchmarks.timing.judges.launches import ARCH, begin
    from sm100sim.timing.sass.tools import assembled

    begin()
    launches, images = {}, {}
    for case, kind in chosen(only):
        requests = [request_of(case, kind, apart) for apart in APART]
        sides, (request, _) = [side_of(*both) for both in requests], requests[0]
        cubin = assembled(request.ptx, ARCH)
        image = hashlib.sha256(cubin).hexdigest()[:16] + ".cubin"
        launches[case.name + kind] = recorded(request, image, *sides)
        images[image] = cubin
        print(case.name + kind, flush=True)
    save(folder, launches, images)


def machine(out: Path, only: str) -> None:
    """Ask the machine for cycles of all launches, and keep what it says."""
    from benchmarks.timing.judges.launches import begin
    from benchmarks.timing.waits.asked import cycles

    begin()
    found = json.loads(out.read_text()) if out.is_file() else {}
    for case, kind in chosen(only):
        found[case.name + kind] = cycles(case, *request_of(case, kind, 0))
        print(case.name + kind, found[case.name + kind], flush=True)
        out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def run(folder: Path, out: Path) -> None:
    """Make the launches, kinds of a kernel in turn, and keep their cycles."""
    import torch

    from benchmarks.hopper.times.clocks import card
    from benchmarks.hopper.times.launcher import Launcher
    from benchmarks.hopper.times.recorded import load
    from benchmarks.hopper.times.timing import Flush
    from benchmarks.timing.cycles import Stamps, row

    launches, launcher, flush = load(folder), Launcher(folder), Flush(cold=True)
    stamps = Stamps(torch.cuda.get_device_properties(0).multi_processor_count, flush)
    found: dict[str, Any] = {"card": card(), "cycles": {}, "mhz": {}}
    asked = argparse.Namespace(flush=flush, rounds=ROUNDS, stamps=stamps)
    stream = torch.cuda.current_stream().cuda_stream
    for case in CASES:
        t = case.drawn()
        for name in (case.name + kind for kind in WITHOUT if case.name + kind in launches):
            made = launcher.prepared(launches[name], {n: x.data_ptr() for n, x in t.items()})
            took = row(name, "", stamps, partial(made, stream), asked)
            found["cycles"][name] = [round(x) for x in took["runs"]]
            found["mhz"][name] = round(took["mhz"])
        out.write_text(json.dumps(found, ensure_ascii=False) + "\n")
        del t
        torch.cuda.empty_cache()


def show(chip: Mapping[str, Any], said: Mapping[str, float]) -> Iterator[str]:
    """A row a kernel: the chip's cycles as it is, and of each kind the machine's error."""
    for name in dict.fromkeys(key.partition(" | ")[0] for key in said):
        took = {kind: median(chip["cycles"][name + kind]) for kind in WITHOUT}
        cells = [
            f"{took[kind] / took['']:.2f}, {said[name + kind] / took[kind] - 1:+.1%}"
            for kind in WITHOUT
        ]
        yield f"| {name} | {took['']:,.0f} | {' | '.join(cells)} |"


def main(arguments: list[str]) -> int:
    """Ask, run or show; returns the exit status."""
    match arguments:
        case ["ask", folder, *only]:
            ask(Path(folder), *only or [""])
        case ["machine", out, *only]:
            machine(Path(out), *only or [""])
        case ["run", folder, out]:
            run(Path(folder), Path(out))
        case ["show", chip, said]:
            found = json.loads(Path(chip).read_text())
            print("\n".join(show(found, json.loads(Path(said).read_text()))))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

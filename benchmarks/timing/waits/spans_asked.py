"""The launches of `benchmarks.timing.waits.spans`, and the machine's answers. No GPU is needed.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.spans_asked FOLDER [--only REGEX]

Kernels are this package's of the two ladders whose order the machine turns, and of d64 with one
tile a CTA two more that hold boxes back until Q has come (`held`).
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import asdict, replace
from math import prod
from typing import Any, Final

import torch

from benchmarks.hopper.times.record_fa4 import APART, recorded, side_of
from benchmarks.hopper.times.recorded import Recorded, save
from benchmarks.timing.judges.cases import CASES, OURS, Case
from benchmarks.timing.judges.launches import ARCH, asked_for, begin, heard, tensors_of
from benchmarks.timing.judges.our_variants import SMS
from benchmarks.timing.waits.asked import every
from benchmarks.timing.waits.held import held
from benchmarks.timing.waits.records import RECORDS, WAITS, WORDS
from benchmarks.timing.waits.rewrite import rewritten
from benchmarks.timing.waits.spans import ALL_WAITS, ENDS
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.sass.tools import assembled

LADDERS: Final = ("fa4_cute d64-1024", "fa4_cute d128-2048")
HELD: Final = "fa4_cute d64-1024 one tile a CTA"
TURNS: Final = {"": None, ", 2 boxes behind Q": 1, ", none behind Q": 0}
"""What is held back: turns of the load warp before it waits for Q, None: it never waits."""
WAITED: Final = (HELD, "fa4_cute d64-1024 2 stages")
"""All waits of these are asked for, too."""
FEW: Final = 24
"""Records of a persistent warp: a tile each, and two."""


def offered() -> list[Case]:
    """The kernels of the two ladders."""
    return [c for c in CASES if c.family == OURS and c.ladder in LADDERS]


def asked(case: Case, change: Callable[[str], str], kind: str, apart: int) -> Any:
    """The launch with the records of a kind, its tensors, and what a reader needs to know."""
    t = tensors_of(case, apart)
    request = heard(case, t)[0]
    request = replace(request, ptx=change(request.ptx))
    warps, ctas = prod(request.block) // 32, prod(request.grid)
    if not kind:
        return request, t, {}
    alone = ctas <= SMS
    if kind == ENDS:
        # The first wait of the text is a consumer's for Q.
        records, step = (FEW, 1) if alone else (2, 1)
        options: dict[str, Any] = {"kinds": ["mbarrier"] * alone, "most": int(alone)}
    else:
        records, step, options = RECORDS, every(ctas), {}
    changed = rewritten(request.ptx, warps=warps, records=records, step=step, **options)
    written = -(-ctas // step)
    t[WAITS] = torch.zeros(written * warps * records * WORDS + apart, dtype=torch.int32)[apart:]
    params = (*request.params, struct.pack("<Q", t[WAITS].data_ptr()))
    said = {"records": records, "written": written, "sites": [asdict(s) for s in changed.sites]}
    return replace(request, ptx=changed.ptx, params=params), t, said


def record(
    case: Case, change: Callable[[str], str], kind: str
) -> tuple[Recorded, str, bytes, LaunchRequest, dict[str, Any]]:
    """What to store of a launch: it, its image's name, the image, the request, and what it says."""
    sides = []
    for apart in APART:
        request, t, said = asked(case, change, kind, apart)
        sides.append(side_of(request, t))
    cubin = assembled(request.ptx, ARCH)
    image = hashlib.sha256(cubin).hexdigest()[:16] + ".cubin"
    return recorded(request, image, *sides), image, cubin, request, said


def main() -> None:
    """Write the launches of all kernels."""
    folder, cases = asked_for(__doc__, offered())
    begin()
    launches, images, found = {}, {}, {}
    for case in cases:
        for suffix, turns in TURNS.items() if case.name == HELD else [("", None)]:
            name = case.name + suffix
            entry: dict[str, Any] = {"case": case.name}
            kinds = ("", ENDS, *[ALL_WAITS] * (case.name in WAITED))
            for kind in kinds:

                def change(ptx: str, turns: int | None = turns) -> str:
                    return ptx if turns is None else held(ptx, turns)

                launches[name + kind], image, images[image], request, said = record(
                    case, change, kind
                )
                entry |= {kind: said} if kind else {}
            alone = prod(request.grid) <= SMS
            entry |= {"warps": prod(request.block) // 32, "tiles": alone}
            found[name] = {**entry, "across": 1 if alone else request.grid[0]}
            print(name, flush=True)
    save(folder, launches, images)
    (folder / "said.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

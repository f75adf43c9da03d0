"""The kernels whose waits are asked for, rewritten: launches for a GPU, and the machine's answers.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.waits.asked FOLDER [--only REGEX]

No GPU is needed. `benchmarks.timing.waits` makes the launches on one and shows both.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np
import torch

from benchmarks.foreign.torch_on_host import cuda_tensors_on_host
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.record_fa4 import APART, overheard, recorded, side_of
from benchmarks.hopper.times.record_fa4 import ask as launched_by_fa4
from benchmarks.hopper.times.recorded import Recorded, save
from benchmarks.timing.judges.cases import FA4, OURS, QUACK, Case
from benchmarks.timing.judges.launches import (
    ARCH,
    alike,
    asked_for,
    begin,
    executed,
    extents,
    fill,
    heard,
    tensors_of,
    traced_of,
    triton_ptxas,
)
from benchmarks.timing.judges.our_variants import SMS
from benchmarks.timing.waits.cases import WAITED, Uneven
from benchmarks.timing.waits.records import RECORDS, WAITS, WORDS, Record, Waits, counted, decoded
from benchmarks.timing.waits.rewrite import KINDS, rewritten
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.chips import load_chip
from sm100sim.timing.model import Residents
from sm100sim.timing.model.machine import replay
from sm100sim.timing.predict.gpu import asked_of_l2, places_of, resident_ctas, time_launch
from sm100sim.timing.predict.memory import from_memory
from sm100sim.timing.records import LaunchTrace
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.tools import assembled
from sm100sim.timing.sass.trace import traced

CTAS: Final = 64
"""That write, at least; fewer where a launch has no more."""
CHIP: Final = "h200"


@dataclass(frozen=True)
class Asked:
    """A case with the clock read at its waits.

    Attributes:
        request: the launch; its last parameter is the address of records.
        sites: kind, line and text of each wait. warps: of a CTA. step: every so many CTAs write.
    """

    case: Case
    request: LaunchRequest
    tensors: dict[str, torch.Tensor]
    sites: tuple[dict[str, Any], ...]
    warps: int
    step: int

    @property
    def written(self) -> int:
        """CTAs that write."""
        return -(-prod(self.request.grid) // self.step)


def _assembler(case: Case) -> str | None:
    return triton_ptxas() if case.family.startswith("Triton") else None


def every(ctas: int) -> int:
    """Every so many CTAs of a launch one writes.

    An odd number: an even one meets the same query tile of each head, always the first to ask.
    """
    return (max(ctas // CTAS, 1) - 1) | 1


def _fa4(case: Case, t: dict[str, torch.Tensor]) -> LaunchRequest:
    """FlashAttention-4's launch, which is not made."""
    p = case.problem
    assert isinstance(p, Uneven)
    sizes = (p.batch, p.length, p.length, p.heads, p.heads, p.dim, p.dim_v)
    with cuda_tensors_on_host(SMS, claim_cuda=True), overheard() as (requests, _):
        launched_by_fa4(Problem("full", *sizes, causal=p.causal), t)
    (request,) = requests
    return request


def ask(case: Case, apart: int = 0) -> Asked:
    """Rewrite the kernel that a case launches, for tensors `apart` bytes from one another."""
    t = tensors_of(case, apart)
    fill(case, t)
    request = _fa4(case, t) if case.family == FA4 else heard(case, t)[0]
    warps = prod(request.block) // 32
    step = every(prod(request.grid))
    # Triton's barriers follow one another; ours are the turns that consumers take.
    kinds = [kind for kind in KINDS if case.family == OURS or kind != "barrier"]
    changed = rewritten(
        request.ptx, warps=warps, records=RECORDS, step=step, kinds=kinds,
        peeks=case.family in (QUACK, FA4),
    )  # fmt: skip
    size = -(-prod(request.grid) // step) * warps * RECORDS * WORDS
    t[WAITS] = torch.zeros(size + apart, dtype=torch.int32)[apart:]
    params = (*request.params, struct.pack("<Q", t[WAITS].data_ptr()))
    request = replace(request, ptx=changed.ptx, params=params)
    return Asked(case, request, t, tuple(map(asdict, changed.sites)), warps, step)


def _clocks(launch: LaunchTrace) -> list[list[float]]:
    """When the machine reads the clock, by warp of the CTA that begins first."""
    draw = asked_of_l2(launch, load_chip(CHIP).draw())
    trace = from_memory(launch, draw, places_of(launch, draw))[0].traces[0]
    copies = resident_ctas(launch, draw)
    issued = np.array(replay(trace, draw, Residents(copies), stand_room=1).issued)
    reads = [
        k
        for k, i in enumerate(trace.kernel.instructions)
        if re.search(r"SR_CLOCKLO|SR_CLOCK\b", i.operands)
    ]
    at, found = 0, []
    for stream in trace.streams:
        times = issued[at : at + len(stream.order)][np.isin(stream.order, reads)]
        at += len(stream.order)
        found.append(times.tolist())
    return found


def machine(asked: Asked) -> Waits:
    """The machine's answer: the run says which waits a warp made, the machine when.

    Raises:
        ValueError: a warp read the clock another number of times than its records say.
    """
    recording = executed(asked.request, (0,))
    words = asked.tensors[WAITS].numpy().view(np.uint32)
    size = asked.warps * RECORDS * WORDS
    ((ran),) = decoded(words[:size], asked.warps, RECORDS)
    ptxas = _assembler(asked.case)
    kernel = compiled(asked.request.ptx, ARCH, asked.request.kernel, ptxas=ptxas)
    launch = alike(traced(kernel, recording), 1)
    tensors = {name: t for name, t in asked.tensors.items() if name != WAITS}
    launch = replace(launch, tensors=tuple(sorted(extents(tensors), key=lambda e: e.address)))
    return counted([_timed(*both) for both in zip(ran, _clocks(launch), strict=True)])


def cycles(
    case: Case, request: LaunchRequest, t: dict[str, torch.Tensor], ptxas: str | None = None
) -> int:
    """What the machine says that a case's launch takes, by this package's ptxas or another."""
    fill(case, t)
    kernel = compiled(request.ptx, ARCH, request.kernel, ptxas=ptxas)
    launch = traced_of(case, request, t, kernel)
    draw = asked_of_l2(launch, load_chip(CHIP).draw())
    return round(time_launch(launch, draw, cold=True).cycles)


def _timed(records: Sequence[Record], times: Sequence[float]) -> list[Record]:
    """Records of a warp with the machine's clock: one reading for its begin and end, two a wait."""
    if records and len(times) < 2 * len(records) - 2:
        raise ValueError(f"{len(times)} readings of the clock for {len(records)} records")
    pairs = [times[0], *times[: 2 * len(records) - 3], times[-1], times[-1]]
    clocks = np.array(pairs[: 2 * len(records)]).round().astype(int).reshape(-1, 2).tolist()
    return [Record(r.site, *pair) for r, pair in zip(records, clocks, strict=True)]


def record(case: Case) -> tuple[Recorded, str, bytes, dict[str, Any]]:
    """What to store of a case: the launch, its image and the image's name, and the machine's."""
    sides = []
    for apart in APART:
        asked = ask(case, apart)
        sides.append(side_of(asked.request, asked.tensors))
    cubin = assembled(asked.request.ptx, ARCH, ptxas=_assembler(case))
    image = hashlib.sha256(cubin).hexdigest()[:16] + ".cubin"
    said = {
        "sites": asked.sites, "warps": asked.warps, "step": asked.step, "written": asked.written,
        "machine": machine(ask(case)),
    }  # fmt: skip
    return recorded(asked.request, image, *sides), image, cubin, said


def main() -> None:
    """Rewrite the kernels and ask the machine."""
    folder, cases = asked_for(__doc__, WAITED)
    begin()
    launches, images, found = {}, {}, {}
    for case in cases:
        launches[case.name], image, images[image], found[case.name] = record(case)
        print(case.name, len(found[case.name]["sites"]), "waits", flush=True)
    save(folder, launches, images)
    (folder / "machine.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

"""Random programs in one and in several threads: accesses, barriers, faults, ordered or not."""

from __future__ import annotations

import random
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from sm100sim.report import Report
from testing.harness import SMEM, run_ptx

TYPES = {1: ("b8", "%h9"), 2: ("b16", "%h9"), 4: ("b32", "%r9"), 8: ("b64", "%rd9")}
SLICE = 4096
"""Bytes of global memory that belong to a cluster."""
BUFFER = np.zeros(SLICE * 16, np.uint8)
"""Always the same, because messages name addresses."""
START = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; and.b32 %r4, %r2, 31;
mov.u32 %r9, 5; mov.b64 %rd9, 5; mov.b16 %h9, 5; mov.u32 %r30, dyn;"""
BATCH = 40


def access(draw: random.Random, guard: str) -> str:
    """A load or store of shared or global memory, most of them in the cluster's own slice."""
    size = draw.choice([1, 1, 2, 2, 4, 8])
    kind, register = TYPES[size]
    per_warp, per_lane, at = draw.choice([0, 1, 2]), draw.choice([0, 1]), draw.randrange(4) * size
    offset = f"mul.lo.u32 %r5, %r3, {per_warp * size}; mad.lo.u32 %r5, %r4, {per_lane * size}, %r5;"
    if draw.random() < 0.5:
        where, address = "shared", "add.u32 %r5, %r5, %r30;"
        place = f"[%r5+{at}]"
    else:
        stride = draw.choice([SLICE] * 12 + [0, 64])
        where, place = "global", f"[%rd1+{at}]"
        address = f"mad.lo.u32 %r5, %r1, {stride}, %r5; cvt.u64.u32 %rd1, %r5;"
        address += "add.u64 %rd1, %rd1, %p0;"
    if draw.random() < 0.5:
        return f"{offset}{address}{guard}ld.{where}.{kind} {register}, {place};"
    return f"{offset}{address}{guard}st.{where}.{kind} {place}, {register};"


def program(draw: random.Random) -> str:
    lines = [START]
    for k in range(draw.randrange(4, 12)):
        guard = draw.choice(["", "", f"setp.eq.u32 %q1, %r3, {draw.randrange(4)}; @%q1 "])
        if draw.random() < 0.2:
            guard = f"setp.eq.u32 %q1, %r1, {draw.randrange(9)}; @%q1 "
        what = draw.random()
        if what < 0.15:
            line = "bar.sync 0;"
        elif what < 0.3:
            line = f"{guard}add.u32 %r2{draw.randrange(1, 9)}, %r3{draw.randrange(1, 9)}, 1;"
        else:
            line = access(draw, guard)
        if draw.random() < 0.3:
            line = f"mov.u32 %r20, 0; L{k}: {line}\nadd.u32 %r20, %r20, 1;"
            line += f"setp.lt.u32 %q2, %r20, 3; @%q2 bra L{k};"
        lines.append(line)
    if draw.random() < 0.1:
        lines.append(f"setp.eq.u32 %q1, %r1, {draw.randrange(9)}; @%q1 trap;")
    return "\n".join(lines)


def options_of(draw: random.Random) -> dict[str, Any]:
    return {
        "grid": (draw.choice([2, 5, 9]), 1, 1),
        "checks": draw.choice(["all", "all, strict-lanes", "races"]),
        "max_findings": draw.choice([64, 64, 3]),
        "mode": draw.choice(["fast", "late", "random"]),
        "seed": draw.randrange(1000),
        "trace_cluster": draw.choice([None, 0, 3]),
    }


def told(report: Report) -> dict[str, Any]:
    ignored = {"seconds", "prepare_seconds", "options", "places"}
    return {f.name: getattr(report, f.name) for f in fields(report) if f.name not in ignored}


@pytest.mark.parametrize("batch", range(3))
def test_threads_change_nothing(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        draw = random.Random(seed)
        body, options = program(draw), options_of(draw)
        seen = []
        for threads in (1, 2 + seed % 2):
            BUFFER[:] = np.arange(BUFFER.size) % 251
            report = run_ptx(
                body, BUFFER, block=128, smem=2048, shared=SMEM, threads=threads,
                raise_on_fault=False, **options,
            )  # fmt: skip
            seen.append((BUFFER.tobytes(), told(report)))
        assert seen[0] == seen[1], f"seed {seed}"

"""Tensor copies in tile mode: swizzles, narrow boxes, edges, fills, strides, stores, reductions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from testing.hardware.case import Case, MapArgs
from testing.hardware.micro import samples
from testing.hardware.micro.shared import (
    BASE,
    DATA,
    SENTINEL,
    SMEM,
    bounded_wait,
    dump,
    fill,
    init,
    only,
)

BYTES = {"UINT8": 1, "UINT16": 2, "UINT32": 4, "INT32": 4, "UINT64": 8, "INT64": 8, "FLOAT16": 2,
         "BFLOAT16": 2, "FLOAT32": 4, "FLOAT64": 8, "FLOAT32_FTZ": 4, "TFLOAT32": 4}  # fmt: skip
SPAN = (256, 32, 64, 128)
REDUCTIONS = {"UINT32": "add min max inc dec and or xor", "INT32": "add min max and or xor",
              "UINT64": "add min max and or xor", "INT64": "min max and or xor", "FLOAT16": "add min max",
              "BFLOAT16": "add min max", "FLOAT32": "add"}  # fmt: skip


def _tensor(seed: int, args: MapArgs) -> np.ndarray:
    size = (
        args.sizes[-1] * args.strides[-1] if args.strides else args.sizes[0] * BYTES[args.element]
    )
    words = samples.random_bits((size + 63) // 64 * 16, np.uint32, seed)
    if args.element == "FLOAT32":  # sums that interact
        words = samples.random_f32(words.size, 120, 130, seed)
    return words


def shape(element: str, sizes: tuple[int, ...], box: tuple[int, ...], **more: Any) -> MapArgs:
    """A packed tensor whose rows are padded to 16 bytes."""
    strides, at = [], (sizes[0] * BYTES[element] + 15) // 16 * 16
    for size in sizes[1:]:
        strides.append(at)
        at *= size
    return MapArgs(0, element, sizes, tuple(strides), box, **more)


def counts(args: MapArgs) -> tuple[int, ...]:
    """Elements that one copy moves along each dimension."""
    steps = args.steps or (1,) * len(args.box)
    return (args.box[0], *(-(-b // s) for b, s in zip(args.box[1:], steps[1:], strict=True)))


def _image(args: MapArgs) -> int:
    """Bytes of shared memory to show: the box at the widest pitch, rounded up."""
    rows = prod(counts(args)[1:])
    pitch = max(args.box[0] * BYTES[args.element], SPAN[args.swizzle] if args.swizzle else 0)
    return (rows * pitch + 1023) // 1024 * 1024


def load(name: str, group: str, args: MapArgs, start: tuple[int, ...], seed: int = 5) -> Case:
    """One load into sentinels; shows the shared memory and whether exactly the box's bytes completed."""
    total = prod(counts(args)) * BYTES[args.element]
    size, rank = _image(args), len(args.sizes)
    issue = init() + (
        f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {total};"
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1+{DATA}], [%m0, {{{', '.join(map(str, start))}}}], [%r1];"
    )  # fmt: skip
    body = (
        BASE
        + fill(size)
        + only(0, issue)
        + bounded_wait()
        + dump(size)
        + f"st.global.b32 [%p1+{size}], %r9;"
    )
    out = np.full(size + 4, 0xA5, np.uint8)
    return Case(
        name,
        "tma",
        body,
        (_tensor(seed, args),),
        (out,),
        maps=(args,),
        shared=SMEM,
        smem=DATA + size,
        group=group,
    )


def store(
    name: str, group: str, args: MapArgs, start: tuple[int, ...], op: str = "", seed: int = 6
) -> Case:
    """One store or reduction from shared memory; shows the tensor."""
    size, rank = _image(args), len(args.sizes)
    source = samples.random_bits(size // 4, np.uint32, seed)
    if args.element == "FLOAT32" and op:
        source = samples.random_f32(size // 4, 120, 130, seed)
    verb, mod = ("cp.reduce", f".{op}") if op else ("cp", "")
    issue = (
        f"{verb}.async.bulk.tensor.{rank}d.global.shared::cta{mod}.tile.bulk_group [%m0, {{{', '.join(map(str, start))}}}], [%r1+{DATA}];"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    )  # fmt: skip
    moved = MapArgs(1, args.element, args.sizes, args.strides, args.box, args.steps, args.swizzle)
    return Case(name, "tma", BASE + fill(size, "F", "%p0") + only(0, issue), (source,), (_tensor(seed + 1, args),), maps=(moved,),
                shared=SMEM, smem=DATA + size, group=group)  # fmt: skip


STARTS_2D = ((0, 0), (1, 3), (-1, -2), (3, 15))
"""Starts in units of 16 bytes and rows: inside, shifted, before the origin, over the far corner."""


def swizzled() -> list[Case]:
    """Every swizzle, boxes as wide as the span and narrower, several element sizes."""
    out = []
    for swizzle in range(4):
        for element in ("UINT8", "BFLOAT16", "FLOAT32", "INT64"):
            for width in (w for w in (16, 32, 48, 64, 96, 128, 256) if w <= SPAN[swizzle]):
                if element == "UINT8" and width == 256:
                    continue
                item = BYTES[element]
                args = shape(element, (208 // item, 20), (width // item, 9), swizzle=swizzle)
                narrow = " narrow" if swizzle and width < SPAN[swizzle] else ""
                for units, row in STARTS_2D if element == "BFLOAT16" else STARTS_2D[1:2]:
                    start = (units * 16 // item, row)
                    name = f"swizzle {swizzle} {element} {width} B at {start}"
                    out.append(load(f"load {name}", f"swizzled loads{narrow}", args, start))
                    if units >= 0:
                        out.append(store(f"store {name}", f"swizzled stores{narrow}", args, start))
    return out


SHAPES = {1: ((75,), (24,)), 2: ((75, 9), (24, 4)), 3: ((37, 6, 5), (16, 3, 2)), 4: ((37, 6, 5, 4), (16, 3, 2, 2)),
          5: ((37, 6, 5, 4, 3), (8, 3, 2, 2, 2))}  # fmt: skip


def ranks() -> list[Case]:
    """One to five dimensions; starts inside, before, over the end and fully outside."""
    out = []
    for rank, (sizes, box) in SHAPES.items():
        starts = {"inside": (8,) + (1,) * (rank - 1), "before": (-8,) + (-1,) * (rank - 1),
                  "over the end": (sizes[0] // 8 * 8 - 8,) + tuple(s - 1 for s in sizes[1:]),
                  "outside": (sizes[0] // 8 * 8 + 8,) + tuple(s + 3 for s in sizes[1:]),
                  "far outside": (-80,) + (-100,) * (rank - 1)}  # fmt: skip
        for where, start in starts.items():
            args = shape("FLOAT16", sizes, box)
            out.append(load(f"load {rank}d {where}", "dimensions and edges", args, start))
            out.append(
                load(
                    f"load {rank}d {where} NaN",
                    "dimensions and edges",
                    shape("FLOAT16", sizes, box, nan_fill=True),
                    start,
                )
            )
            if min(start) >= 0:
                out.append(store(f"store {rank}d {where}", "dimensions and edges", args, start))
                out.append(
                    store(f"add {rank}d {where}", "dimensions and edges", args, start, "add")
                )
    return out


def fills() -> list[Case]:
    """Out-of-bounds fill of every element type, zero and NaN."""
    out = []
    for element, item in BYTES.items():
        for nan in (False, True) if "FLOAT" in element else (False,):
            args = shape(element, (80 // item, 5), (48 // item, 4), nan_fill=nan)
            for k, (units, row) in enumerate(((-1, -1), (3, 3), (9, 9))):
                start = (units * 16 // item, row)
                out.append(
                    load(
                        f"fill {element} {'NaN' if nan else 'zero'} {k}",
                        "fill per type",
                        args,
                        start,
                    )
                )
    return out


def strided() -> list[Case]:
    """Element strides of the outer dimensions."""
    out = []
    for step in (2, 3, 5, 8):
        for box in (4, 7, 9, 16):
            args = shape("FLOAT32", (20, 30), (8, box), steps=(1, step))
            for start in ((0, 0), (4, -3), (12, 23)):
                out.append(
                    load(f"load step {step} box {box} at {start}", "element strides", args, start)
                )
            out.append(store(f"store step {step} box {box}", "element strides", args, (4, 17)))
    return out


def reductions() -> list[Case]:
    """Every operation of every element type, inside and clipped."""
    out = []
    for element, names in REDUCTIONS.items():
        item = BYTES[element]
        for op in names.split():
            for swizzle in (0, 3):
                args = shape(element, (208 // item, 20), (128 // item, 8), swizzle=swizzle)
                for start in ((32 // item, 2), (144 // item, 15)):
                    out.append(
                        store(
                            f"{op} {element} swizzle {swizzle} at {start}",
                            "reductions",
                            args,
                            start,
                            op,
                        )
                    )
    return out


def refused() -> list[Case]:
    """What the chip answers with an error."""
    args = shape("FLOAT16", (64, 20), (32, 8))
    return [store("store at a negative row", "errors", args, (0, -1)), store("store at a negative column", "errors", args, (-8, 0)),
            store("add at a negative row", "errors", args, (0, -1), "add"), load("load at an unaligned column", "errors", args, (3, 0))]  # fmt: skip


def cases() -> list[Case]:
    """All tensor copies."""
    return [*swizzled(), *ranks(), *fills(), *strided(), *reductions(), *refused()]


__all__ = ["SENTINEL", "cases", "load", "shape", "store"]

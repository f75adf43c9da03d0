"""Questions about tensor copies that documents leave open, asked of a Hopper GPU.

    python -m benchmarks.hopper.probes CASES.json
    python benchmarks/hopper/replay.py CASES.json RESULTS.json
    python -m benchmarks.hopper.answers show CASES.json RESULTS.json
    python -m benchmarks.hopper.answers pack CASES.json RESULTS.json DATA.json

Every program fills 4 KiB of shared memory with 0xEE, issues one copy, waits for a bounded number of
tries, and writes shared memory and the wait's outcome to %p1.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import TensorMap
from testing.harness import SMEM, aligned_copy, kernel_text, only

BOX = 4096
"""Bytes of shared memory that are filled and shown, from dyn + 1024 on."""

FILL = (
    "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; mov.u32 "
    "%r3, 0;"
    "F: st.shared.b32 [%r2+1024], 0xEEEEEEEE; add.u32 %r2, %r2, 128; add.u32 %r3, %r3, 128;"
    f"setp.lt.u32 %q1, %r3, {BOX}; @%q1 bra F; fence.proxy.async.shared::cta; bar.warp.sync -1;"
)
WAIT = (
    "mov.u32 %r9, 0; W: mbarrier.try_wait.parity.shared.b64 %q0, [%r1], 0; add.u32 %r9, %r9, 1; "
    "setp.gt.u32 %q2, %r9, 20000;"
    "@%q2 bra GONE; @!%q0 bra W; GONE: selp.b32 %r8, 1, 0, %q0;"
)
SHOW = (
    "shl.b32 %r2, %r0, 2; add.u32 %r4, %r2, %r1; cvt.u64.u32 %rd1, %r2; add.s64 %rd1, %rd1, %p1; "
    "mov.u32 %r3, 0;"
    "S: ld.shared.b32 %r5, [%r4+1024]; st.global.b32 [%rd1], %r5; add.u32 %r4, %r4, 128; add.s64 "
    "%rd1, %rd1, 128;"
    f"add.u32 %r3, %r3, 128; setp.lt.u32 %q1, %r3, {BOX}; @%q1 bra S; st.global.b32 [%p1+{BOX}], "
    f"%r8;"
)


def load(tm: TensorMap, start: tuple[int, ...], at: int = 1024, expect: int | None = None) -> str:
    """A load of one box into dyn + `at`."""
    coords = "{" + ", ".join(map(str, start)) + "}"
    return (
        FILL
        + only(
            0,
            (
                f"mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;"
                f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], "
                f"{tm.box_bytes if expect is None else expect};"
                f"cp.async.bulk.tensor.{tm.rank}d.shared::cluster.global.tile"
                f".mbarrier::complete_tx::bytes [%r1+{at}], [%m0, {coords}], [%r1];"
            ),
            "T",
        )
        + "bar.warp.sync -1;"
        + WAIT
        + SHOW
    )


def store(tm: TensorMap, start: tuple[int, ...], op: str = "") -> str:
    """A store (or reduction) of a box of 0xEE bytes, or of the pattern that `op` names."""
    coords = "{" + ", ".join(map(str, start)) + "}"
    name = "cp.reduce.async.bulk.tensor" if op else "cp.async.bulk.tensor"
    return (
        FILL.replace("0xEEEEEEEE", "%n0")
        + only(
            0,
            (
                f"{name}.{tm.rank}d.global.shared::cta.{op + '.' if op else ''}tile.bulk_group "
                f"[%m0, {coords}], [%r1+1024];"
                "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
            ),
            "T",
        )
        + "mov.u32 %r8, 1; bar.warp.sync -1;"
        + SHOW
    )


def tensor(source: np.ndarray, box: tuple[int, ...], element: str, **fields: Any) -> TensorMap:
    """Map of a C-contiguous array; its address is 0 until the program is launched."""
    return TensorMap(
        element,
        0,
        tuple(reversed(source.shape)),
        tuple(reversed(source.strides[:-1])),
        box,
        **fields,
    )


NUMBERS = aligned_copy(np.arange(64 * 64, dtype=np.uint16).reshape(64, 64))
FLOATS = aligned_copy(
    np.array(
        [
            1.0,
            1e-40,
            -1e-40,
            1.0009765,
            1.00048828125,
            1.0001,
            3.14159274,
            -2.71828175,
            1.5e-38,
            np.inf,
            -np.inf,
            65504.0,
            1.00146484375,
            0.0,
            -0.0,
            123456.789,
        ]
        * 8,
        np.float32,
    ).reshape(4, 32)
)


SPECIALS = aligned_copy(
    np.array(
        [
            0x7F800001,
            0x7FC00000,
            0x7FFFFFFF,
            0xFF800001,
            0x7F7FFFFF,
            0xFF7FF000,
            0x7F802000,
            0x7FC01234,
            0xFFFFE000,
            0x7F800FFF,
            0x7F801000,
            0x7F7FEFFF,
            1,
            0x1000,
            0x1001,
            0x3000,
        ]
        * 2,
        np.uint32,
    ).reshape(1, 32)
)


def bulk(size: int, form: str, value: str) -> str:
    """cp.reduce.async.bulk of `size` bytes of %n0 onto %p0."""
    return (
        FILL.replace("0xEEEEEEEE", value)
        + only(
            0,
            (
                f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [%p0], [%r1+1024], "
                f"{size};"
                "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
            ),
            "T",
        )
        + "mov.u32 %r8, 1; bar.warp.sync -1;"
        + SHOW
    )


def more_questions() -> Iterator[tuple[str, np.ndarray, TensorMap, str, int]]:
    """Second set: special values, other element sizes, narrow stores, reductions without a
    tensor."""
    for element in ("TFLOAT32", "TFLOAT32_FTZ", "FLOAT32_FTZ"):
        tm = tensor(SPECIALS, (32, 1), element)
        yield f"special values {element}", SPECIALS, tm, load(tm, (0, 0)), 0
    for element, dtype, coordinates in (
        ("UINT8", np.uint8, (8, 15, -1)),
        ("FLOAT32", np.uint32, (2, -1)),
        ("INT64", np.uint64, (1, -1)),
    ):
        view = NUMBERS.view(dtype)
        tm = tensor(view, (64 // view.itemsize, 4), element)
        for x in coordinates:
            yield f"inner coordinate {x} {element}", NUMBERS, tm, load(tm, (x, 0)), 0
        x = 16 // view.itemsize
        yield f"inner coordinate {-x} {element}", NUMBERS, tm, load(tm, (-x, 62)), 0
    for inner in (8, 24, 56):
        tm = tensor(NUMBERS, (inner, 8), "UINT16", swizzle=TmaSwizzle.B128)
        yield f"narrow load over the edge {inner}", NUMBERS, tm, load(tm, (-8, 60)), 0
        yield (
            f"narrow store {inner}",
            NUMBERS,
            tm,
            store(tm, (8, 3)).replace("[%r2+1024], %n0", "[%r2+1024], %r2"),
            0,
        )
        yield (
            f"narrow store over the edge {inner}",
            NUMBERS,
            tm,
            store(tm, (40, 60)).replace("[%r2+1024], %n0", "[%r2+1024], %r2"),
            0,
        )
        yield f"narrow add {inner}", NUMBERS, tm, store(tm, (0, 0), "or"), 0x80008000
    tm = tensor(NUMBERS, (64, 1), "UINT16")
    half = aligned_copy(np.clip(FLOATS[:, :16], -65504, 65504).astype(np.float16))
    yield "bulk add f32 subnormal", FLOATS, tm, bulk(128, "add.f32", "0x00000001"), 0
    yield "bulk add f16", half, tm, bulk(128, "add.noftz.f16", "0x00013C01"), 0
    yield "bulk add bf16", NUMBERS, tm, bulk(256, "add.noftz.bf16", "0x3F814001"), 0
    yield "bulk min bf16", NUMBERS, tm, bulk(256, "min.bf16", "0x00807F81"), 0
    yield "bulk max f16", half, tm, bulk(128, "max.f16", "0x80007E01"), 0
    yield "bulk inc u32", NUMBERS, tm, bulk(256, "inc.u32", "0x00100000"), 0
    yield "bulk max s64", NUMBERS, tm, bulk(256, "max.s64", "0x80000000"), 0
    for name, source, element in (("bf16", NUMBERS, "BFLOAT16"), ("f16", half, "FLOAT16")):
        tm = tensor(source.reshape(-1, 16), (16, 4), element)
        for op in ("min", "max", "add"):
            for value in (0x80000001, 0x7F817F7F, 0xFC007C00, 0x33333333):
                yield f"{op} {name} with {value:08x}", source, tm, store(tm, (0, 0), op), value


def questions() -> Iterator[tuple[str, np.ndarray, TensorMap, str, int]]:
    """(name, global array, map, program, value of %n0)."""
    for swizzle, inners in ((1, (8,)), (2, (8, 16, 24)), (3, (8, 16, 24, 32, 40, 48, 56))):
        for inner in inners:
            tm = tensor(NUMBERS, (inner, 8), "UINT16", swizzle=TmaSwizzle(swizzle))
            yield f"narrow load swizzle {swizzle} inner {inner}", NUMBERS, tm, load(tm, (0, 0)), 0
    narrow = tensor(NUMBERS, (16, 4, 2), "UINT16", swizzle=TmaSwizzle.B128)
    cube = TensorMap("UINT16", 0, (64, 8, 8), (128, 1024), narrow.box, swizzle=TmaSwizzle.B128)
    yield "narrow load 3d swizzle 3 inner 16", NUMBERS, cube, load(cube, (0, 0, 0)), 0
    for swizzle in (0, 3):
        tm = tensor(NUMBERS, (64, 4), "UINT16", swizzle=TmaSwizzle(swizzle))
        for x in (1, 3, 4, -1, -5, 61):
            yield f"inner coordinate {x} swizzle {swizzle}", NUMBERS, tm, load(tm, (x, 0)), 0
        for at in (1040, 1088, 1152, 1280, 1536):
            yield f"destination +{at} swizzle {swizzle}", NUMBERS, tm, load(tm, (0, 0), at), 0
        yield f"store at -1 row swizzle {swizzle}", NUMBERS, tm, store(tm, (0, -1)), 0x01010101
        yield f"store at -8 column swizzle {swizzle}", NUMBERS, tm, store(tm, (-8, 0)), 0x01010101
        yield f"store at 3 column swizzle {swizzle}", NUMBERS, tm, store(tm, (3, 0)), 0x01010101
    for element in ("FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64", "FLOAT32_FTZ", "TFLOAT32"):
        source = NUMBERS if element.endswith("16") else FLOATS
        size = 2 if element.endswith("16") else 8 if element.endswith("64") else 4
        view = source.view({2: np.uint16, 4: np.float32, 8: np.uint64}[size])
        tm = tensor(view, (32 // size, 2), element, nan_fill=True)
        yield f"NaN fill {element}", source, tm, load(tm, (0, -1)), 0
    for element in ("FLOAT32", "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ"):
        tm = tensor(FLOATS, (16, 1), element)
        yield f"conversion {element}", FLOATS, tm, load(tm, (0, 0)), 0
        yield f"stored conversion {element}", FLOATS, tm, store(tm, (0, 0)), 0x3F801234
    for step, box in ((2, 9), (3, 9), (4, 8), (2, 1), (8, 7)):
        tm = tensor(NUMBERS, (64, box), "UINT16", element_strides=(1, step))
        yield f"element stride {step} box {box}", NUMBERS, tm, load(tm, (0, 1)), 0
        yield f"element stride {step} box {box} stored", NUMBERS, tm, store(tm, (0, 1)), 0x01010101
    tm = tensor(NUMBERS, (64, 8), "UINT16", element_strides=(2, 1))
    yield "element stride of dimension 0", NUMBERS, tm, load(tm, (0, 0)), 0
    tm = tensor(FLOATS, (16, 1), "FLOAT32")
    yield "add f32 subnormal", FLOATS, tm, store(tm, (0, 0), "add"), 0x00000001
    yield "add f32 nan", FLOATS, tm, store(tm, (0, 0), "add"), 0x7FC01234
    half = aligned_copy(np.clip(FLOATS[:, :16], -65504, 65504).astype(np.float16))
    for op in ("min", "max", "add"):
        tm = tensor(half, (16, 4), "FLOAT16")
        yield f"{op} f16 nan", half, tm, store(tm, (0, 0), op), 0x7E017E01
        yield f"{op} f16 subnormal", half, tm, store(tm, (0, 0), op), 0x00010001
    tm = tensor(NUMBERS.view(np.uint16), (16, 4), "BFLOAT16")
    yield "add bf16", NUMBERS, tm, store(tm, (0, 0), "add"), 0x3F813F81


def record(path: str) -> None:
    """Write the programs."""
    cases = []
    for name, source, tm, body, number in [*questions(), *more_questions()]:
        out = np.zeros(BOX + 4, np.uint8)
        text = kernel_text(body, (source, out, tm.encode(), number), shared=SMEM).replace(
            ".target sm_100a", ".target sm_90a"
        )
        encoded = [base64.b64encode(x.tobytes()).decode() for x in (source, out)]
        raw = base64.b64encode(tm.encode()).decode()
        params = [
            ["buffer", 0],
            ["buffer", 1],
            ["map", raw, 0, 0],
            ["value", base64.b64encode(struct.pack("<I", number)).decode()],
        ]
        cases.append(
            {
                "name": name,
                "ptx": text,
                "kernel": "k",
                "grid": [1, 1, 1],
                "block": [32, 1, 1],
                "cluster": [1, 1, 1],
                "smem": 1024 + BOX + 1024,
                "params": params,
                "buffers": encoded,
            }
        )
    Path(path).write_text(json.dumps(cases))
    print(f"{len(cases)} programs")


if __name__ == "__main__":
    record(sys.argv[1])

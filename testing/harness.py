"""Small PTX programs for the simulator's tests and for the questions asked of a GPU.

`run_ptx` wraps a body into a kernel and launches it; `lanewise` applies a few instructions to one
value per thread.  Buffers become `.b64` pointer parameters %p0, %p1, ...; integers `.b32` %n0, ...;
`bytes` of length 128 become tensor maps whose generic addresses are in %m0, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.report import Report
from sm100sim.run import run

DECLARE = """
.reg .pred %q<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<64>; .reg .f64 %fd<16>;
"""


SMEM = ".extern .shared .align 1024 .b8 dyn[];"
"""Dynamic shared memory; starts at window offset 0x400."""


def aligned(count: int, dtype: Any, alignment: int = 256) -> npt.NDArray[Any]:
    """Zeros whose address is a multiple of `alignment`."""
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size].view(dtype)


def aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`array` at an aligned address, same shape."""
    out = aligned(array.size, array.dtype)
    out[:] = array.ravel()
    return out.reshape(array.shape)


def only(thread: int, body: str, label: str = "SKIP") -> str:
    """`body` for one thread of the CTA (uses %q15 and %r40)."""
    return f"mov.u32 %r40, %tid.x; setp.ne.u32 %q15, %r40, {thread}; @%q15 bra {label}; {body} {label}:"


def kernel_text(
    body: str, arguments: Sequence[Any], regs: str = "", shared: str = "", directives: str = ""
) -> str:
    """A module with one kernel `k` around `body`; `shared`: module-level declarations."""
    params, loads, counts = [], [], {"p": 0, "n": 0, "m": 0}
    for k, argument in enumerate(arguments):
        kind = (
            "p" if isinstance(argument, np.ndarray) else "m" if isinstance(argument, bytes) else "n"
        )
        name = f"%{kind}{counts[kind]}"
        counts[kind] += 1
        if kind == "m":
            params.append(f".param .align 64 .b8 a{k}[{len(argument)}]")
            loads.append(f"mov.b64 {name}, a{k}; cvta.param.u64 {name}, {name};")
        else:
            width = "b64" if kind == "p" else "b32"
            params.append(f".param .{width} a{k}")
            loads.append(f"ld.param.{width} {name}, [a{k}];")
    return (
        f".version 8.8\n.target sm_100a\n.address_size 64\n{shared}\n.visible .entry k(\n"
        + ",\n".join(params)
        + f"\n)\n{directives}\n{{\n.reg .b64 %p<8>; .reg .b64 %m<8>; .reg .b32 %n<8>;\n{DECLARE}{regs}\n"
        + "\n".join(loads)
        + f"\n{body}\nret;\n}}\n"
    )


def run_ptx(
    body: str,
    *arguments: Any,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: int | tuple[int, int, int] = 32,
    cluster: tuple[int, int, int] = (1, 1, 1),
    smem: int = 0,
    regs: str = "",
    shared: str = "",
    directives: str = "",
    **options: Any,
) -> Report:
    """Launch `body` as a kernel; further keyword arguments are `RunOptions` fields."""
    params = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            params.append(int(argument.ctypes.data).to_bytes(8, "little"))
        elif isinstance(argument, bytes):
            params.append(argument)
        else:
            params.append((int(argument) & 0xFFFFFFFF).to_bytes(4, "little"))
    request = LaunchRequest(
        ptx=kernel_text(body, arguments, regs, shared, directives),
        kernel="k",
        grid=grid,
        block=(block, 1, 1) if isinstance(block, int) else block,
        cluster=cluster,
        smem_bytes=smem,
        params=tuple(params),
    )
    buffers = [a for a in arguments if isinstance(a, np.ndarray)] or [np.zeros(1, np.uint8)]
    return run(request, RunOptions(**options), buffers=buffers)


WIDTH = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}
PREFIX = {1: "%h", 2: "%h", 4: "%r", 8: "%rd"}


def lanewise(
    body: str, *inputs: np.ndarray, out: Any, outputs: int = 1, **options: Any
) -> list[np.ndarray]:
    """Run `body` once per element and return the outputs.

    Element k of input j is in register `in{j}` and output j is read from `out{j}`: the names stand
    for %h, %r or %rd registers, chosen by the item size, and are replaced in `body`.
    """
    count = len(inputs[0])
    padded = (count + 31) // 32 * 32
    arrays = [np.resize(np.ascontiguousarray(a), padded) for a in inputs]
    results = [np.zeros(padded, out) for _ in range(outputs)]
    text = ["mov.u32 %r63, %tid.x; mov.u32 %r62, %ctaid.x; mad.lo.s32 %r63, %r62, 32, %r63;"]
    for k, array in enumerate(arrays):
        size = array.itemsize
        text.append(
            f"mad.wide.u32 %rd63, %r63, {size}, %p{k}; ld.global.{WIDTH[size]} {PREFIX[size]}{k}, [%rd63];"
        )
        body = body.replace(f"in{k}", f"{PREFIX[size]}{k}")
    size = results[0].itemsize
    for k in range(outputs):
        body = body.replace(f"out{k}", f"{PREFIX[size]}{10 + k}")
    text.append(body)
    for k in range(outputs):
        pointer = f"%p{len(arrays) + k}"
        text.append(
            f"mad.wide.u32 %rd63, %r63, {size}, {pointer}; st.global.{WIDTH[size]} [%rd63], {PREFIX[size]}{10 + k};"
        )
    run_ptx("\n".join(text), *arrays, *results, grid=(padded // 32, 1, 1), **options)
    return [r[:count] for r in results]

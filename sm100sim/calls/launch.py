"""`sm100sim.launch`: run a kernel from its PTX text and arguments, or from a finished request."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, overload

from ..launch_request import Dim3, LaunchRequest
from ..options import RunOptions
from ..ptx.program import Kernel
from ..report import Report
from ..run import read_module, run
from .arguments import packed

Extents = int | Sequence[int]
ARGUMENTS = ("grid", "block", "args", "kernel", "cluster", "smem_bytes")
"""What may be said of PTX text by name."""


@overload
def launch(
    program: LaunchRequest, options: RunOptions | None = None, buffers: Iterable[Any] = ()
) -> Report: ...
@overload
def launch(
    program: str,
    options: RunOptions | None = None,
    buffers: Iterable[Any] = (),
    *,
    grid: Extents,
    block: Extents | None = None,
    args: Iterable[Any] = (),
    kernel: str | None = None,
    cluster: Extents = 1,
    smem_bytes: int = 0,
) -> Report: ...
def launch(
    program: LaunchRequest | str,
    options: RunOptions | None = None,
    buffers: Iterable[Any] = (),
    **call: Any,
) -> Report:
    """Execute a kernel on the virtual SM100.

    Args:
        program: the text of a PTX module, or a `LaunchRequest`, with which only `options` and
            `buffers` may be given.
        options: how to run; the current options if not given.
        buffers: host memory that the kernel may access, besides the arrays among `args` and what
            `register` has made known.
        grid: CTAs, one to three numbers.
        block: threads per CTA, one to three numbers; may be left out if the PTX has `.reqntid`.
        args: one value per kernel parameter: numpy arrays and CPU tensors for pointers, numbers,
            None for a null pointer, bytes for structures and tensor maps.
        kernel: name of the entry; may be left out if the module has only one.
        cluster: CTAs per cluster, one to three numbers.
        smem_bytes: dynamic shared memory per CTA, bytes.

    Raises:
        SimulationFault: a rule was broken, or there was a deadlock or livelock (unless the options
            say otherwise).
        PtxError: the PTX cannot be read.
        ValueError: a launch that the hardware would refuse, or an argument that does not fit.
        TypeError: an argument of the wrong kind, or one that does not exist; names it.
    """
    for name in call:
        if name in RunOptions.__dataclass_fields__:
            raise TypeError(f"{name}: an option; give options=sm100sim.RunOptions({name}=...)")
        if name not in ARGUMENTS:
            raise TypeError(f"{name}: no such argument; choose from {', '.join(ARGUMENTS)}")
    if isinstance(program, str):
        return _launch_text(program, options, tuple(buffers), **call)
    if not isinstance(program, LaunchRequest):
        raise TypeError(
            f"program: expected PTX text or a LaunchRequest, got {type(program).__name__}"
        )
    if call:
        names = ", ".join(call)
        raise TypeError(f"{names}: a LaunchRequest says this itself; give PTX text instead")
    return run(program, options, buffers)


def _launch_text(
    ptx: str,
    options: RunOptions | None,
    buffers: tuple[Any, ...],
    *,
    grid: Extents,
    block: Extents | None = None,
    args: Iterable[Any] = (),
    kernel: str | None = None,
    cluster: Extents = 1,
    smem_bytes: int = 0,
) -> Report:
    if not isinstance(args, Iterable):
        raise TypeError(f"args={args!r}: expected a list, one value per parameter")
    entry = _entry(ptx, kernel)
    params, memory = packed(entry.params, tuple(args))
    request = LaunchRequest(
        ptx=ptx,
        kernel=entry.name,
        grid=_extents("grid", grid),
        block=_block(entry, block),
        cluster=_extents("cluster", cluster),
        smem_bytes=smem_bytes,
        params=params,
    )
    return run(request, options, (*memory, *buffers))


def _entry(ptx: str, name: str | None) -> Kernel:
    kernels = read_module(ptx).kernels
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    what = "say which" if name is None else f"{name!r} is not in the PTX"
    raise ValueError(f"kernel: {what}; it has {', '.join(kernels) or 'none'}")


def _block(entry: Kernel, block: Extents | None) -> Dim3:
    if block is not None:
        return _extents("block", block)
    required = entry.directives.get("reqntid")
    if not isinstance(required, tuple):
        raise ValueError(f"block: say how many threads; {entry.name} has no .reqntid")
    return required


def _extents(name: str, value: Extents) -> Dim3:
    """One to three numbers as three."""
    try:
        given = [operator.index(n) for n in (value if isinstance(value, Sequence) else (value,))]
    except TypeError:
        given = []
    if not 1 <= len(given) <= 3:
        raise TypeError(f"{name}={value!r}: expected one to three whole numbers")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z

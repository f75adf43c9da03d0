"""Compile one kernel specification to PTX and cubin with CuTe DSL; no GPU and no driver needed."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from ...plan.facts.hardware import SM100A
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.combine_spec import CombineSpec
from ...plan.spec.params import KernelParams
from .settings import set_default

_Result = TypeVar("_Result")
_LISTEN_SECONDS = 0.1
"""A signal may arrive in any thread; the main thread hears of it when it wakes."""
_one_at_a_time = threading.Lock()
"""The DSL traces into process-wide state, the kernel's entry name included."""


class _Specification(Protocol):
    """What a specification says of the launch of its kernel."""

    @property
    def params(self) -> KernelParams: ...

    @property
    def smem_bytes(self) -> int: ...

    @property
    def num_threads(self) -> int: ...

    @property
    def cluster_size(self) -> int: ...

    @property
    def arch(self) -> str: ...


@dataclass(frozen=True)
class CompiledArtifact:
    """One compiled kernel, launchable without the DSL.

    Attributes:
        ptx: PTX text for ``arch``.
        cubin: device binary for it.
        kernel_name: entry name in both.
        params: parameters in declaration order.
        smem_bytes: dynamic shared memory of the launch.
        threads: threads per CTA.
        cluster: CTAs per cluster in x, y, z.
        arch: architecture, as the compiler names it.
    """

    ptx: str
    cubin: bytes
    kernel_name: str
    params: KernelParams
    smem_bytes: int
    threads: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    arch: str = SM100A

    @classmethod
    def of(cls, spec: _Specification, ptx: str, cubin: bytes, kernel_name: str) -> CompiledArtifact:
        """Return what ``spec`` was compiled to, with the launch that ``spec`` describes."""
        return cls(
            ptx=ptx,
            cubin=cubin,
            kernel_name=kernel_name,
            params=spec.params,
            smem_bytes=spec.smem_bytes,
            threads=spec.num_threads,
            cluster=(spec.cluster_size, 1, 1),
            arch=spec.arch,
        )


def has_compiler() -> bool:
    """Return whether CuTe DSL is installed."""
    return find_spec("cutlass") is not None


def compile_kernel(spec: AttentionSpec | CombineSpec) -> CompiledArtifact:
    """Compile ``spec``; imports CuTe DSL on first use.

    Raises:
        RuntimeError: when the compiled entry is not the one that was asked for.
    """

    def trace(options: str) -> Any:
        # By name: type checkers do not follow into traced code, whose types exist only in a trace.
        return import_module("fa4_cute.host.compile.tracing").trace_kernel(spec, options)

    ptx, cubin, name = compile_traced(trace, spec.arch)
    if not name.startswith(spec.name):
        raise RuntimeError(f"compiled entry {name!r} is not the kernel {spec.name!r}")
    return CompiledArtifact.of(spec, ptx, cubin, name)


def compile_traced(trace: Callable[[str], Any], arch: str = SM100A) -> tuple[str, bytes, str]:
    """Return PTX, cubin and entry name of a kernel compiled for ``arch``.

    The DSL works in a thread where no interrupt arrives: one in the middle of a callback of MLIR
    ends the process. The caller's interrupt is raised when the kernel is compiled.

    Args:
        trace: compiles with the DSL's options that it is given, and returns the DSL's result.
        arch: target as the DSL names it; sm_90a serves kernels without Tensor Memory.

    Raises:
        RuntimeError: when the PTX does not hold exactly one kernel.
    """
    set_default("CUTE_DSL_ARCH", SM100A)

    def work() -> tuple[str, bytes]:
        # The DSL hands PTX and cubin over as files; the directory keeps them out of the caller's.
        with _one_at_a_time, tempfile.TemporaryDirectory(prefix="fa4_cute_") as directory:
            compiled = trace(f"--gpu-arch={arch} --keep-ptx --keep-cubin --dump-dir={directory}")
            return str(compiled.__ptx__), bytes(compiled.__cubin__)

    ptx, cubin = _away_from_interrupts(work)
    return ptx, cubin, entry_name(ptx)


def _away_from_interrupts(work: Callable[[], _Result]) -> _Result:
    """Do ``work`` where no signal handler of Python runs, which is outside of the main thread.

    An interrupt waits until the work has ended, and is then handed to whoever handled it before.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: Future[_Result] = Future()
    context = copy_context()

    def act() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    with _interrupts_later():
        threading.Thread(target=act, name="fa4_cute compiling").start()
        while not done.done():
            wait([done], _LISTEN_SECONDS)
    return done.result()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Note interrupts inside the block, and handle the first when it has ended."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *interrupt: came.append(interrupt))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(*came[0])


def entry_name(ptx: str) -> str:
    """Return the name of the only entry of ``ptx``.

    Raises:
        RuntimeError: when there is none, or more than one.
    """
    names = [line.split()[2].rstrip("(") for line in ptx.splitlines() if ".visible .entry" in line]
    if len(names) != 1:
        raise RuntimeError(f"expected one kernel entry in the PTX, found {names}")
    return names[0]

"""What a call costs on the host: microseconds from the Python call to the launch, which is a no-op.

::

    python -m benchmarks.call_cost                  # this package, and FlashAttention-4 beside it
    python -m benchmarks.call_cost --json FILE
    python -m benchmarks.call_cost --device         # with cuLaunchKernelEx, on a CUDA device

A call here is a repeated one: the same shapes and options, on one core, torch's allocation of O
included. Tensors are small and lie in host memory. The figure is the fastest of many short batches,
since a machine with other work on it adds to all the others.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.call_cost.cases import CALLS, FURTHER, Case, half
from fa4_cute.host.ask import request
from fa4_cute.host.compile import cache
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.run import calls, device
from fa4_cute.plan.facts.hardware import SM100A
from testing.launches import no_launch

BATCH = 20
SECONDS = 2.0


def fastest(call: Callable[[], Any], seconds: float = SECONDS) -> float:
    """Return the microseconds of one call in the fastest of as many batches as time allows."""
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(BATCH):
            call()
        best = min(best, time.perf_counter() - start)
    return best / BATCH * 1e6


def empty_kernel(spec: Any) -> CompiledArtifact:
    """Return a kernel with the parameters of ``spec`` that does nothing, for compute 9.0."""
    kinds = {"tensor_map": ".align 64 .b8 {}[128]", "u64": ".u64 {}", "u32": ".u32 {}",
             "f32": ".f32 {}"}  # fmt: skip
    params = ", ".join(".param " + kinds[p.kind].format(p.name) for p in spec.params.params)
    ptx = f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry {spec.name}({params})"
    size = spec.config.smem_used if hasattr(spec, "config") else spec.smem_bytes
    return CompiledArtifact(ptx + "{ret;}", spec.name.encode(), spec.name, spec.params, size, 1)


@contextmanager
def empty_kernels() -> Iterator[None]:
    """Launch kernels that do nothing, on whatever CUDA device there is."""
    from cuda.bindings import driver

    launcher = device.CudaLauncher(driver, lambda made, _: made.ptx.encode() + b"\0")
    with ExitStack() as stack:
        replace = stack.enter_context
        replace(mock.patch.object(cache, "compiled", functools.cache(empty_kernel)))
        replace(mock.patch.object(device, "launcher", return_value=launcher))
        replace(mock.patch.object(device, "refusal_of", return_value=None))
        # The calls of a B200, whatever the device: an empty kernel runs anywhere.
        replace(mock.patch.object(request, "arch_for", return_value=SM100A))
        replace(mock.patch.object(calls, "kept", calls.Kept()))
        yield


class _Compiled(dict[Any, Any]):
    """A cache of FlashAttention-4 that has every kernel; none of them does anything."""

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        return _nothing


def _nothing(*_: Any) -> None: ...


def flash_attention_4() -> float | None:
    """Return the microseconds of FlashAttention-4's own Python path on the tensors of ``dense``.

    None where it is not installed. Its tensors say that they are CUDA tensors, by a class
    attribute, which costs nothing.
    """
    try:
        from flash_attn.cute import flash_attn_func, interface
    except ImportError:
        return None
    q, k, v = half(2, 32, 8, 64), half(2, 32, 2, 64), half(2, 32, 2, 64)
    settings = {"FLASH_ATTENTION_ARCH": "sm_100", "FLASH_ATTENTION_NUM_SMS": "148"}
    with (
        mock.patch.dict(os.environ, settings),
        mock.patch.object(torch.Tensor, "is_cuda", True, create=True),
        mock.patch.object(interface._flash_attn_fwd, "compile_cache", _Compiled()),
    ):
        return fastest(lambda: flash_attn_func(q, k, v, causal=True))


def measured(where: str, cases: Mapping[str, Case], seconds: float = SECONDS) -> dict[str, float]:
    """Return microseconds by the name of the call.

    Raises:
        RuntimeError: a call takes the long way each time.
    """
    found: dict[str, float] = {}
    for name, make in cases.items():
        call = make(where)
        call()
        if len(calls.kept) != len(found) + 1:
            raise RuntimeError(f"{name}: the call cannot be repeated")
        found[name] = fastest(call, seconds)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--device", action="store_true", help="launch, on a CUDA device")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad(), empty_kernels() if arguments.device else no_launch():
        cases = CALLS if arguments.device else CALLS | FURTHER
        found = measured("cuda" if arguments.device else "cpu", cases)
        other = None if arguments.device else flash_attention_4()
    what = "with cuLaunchKernelEx" if arguments.device else "without the launch"
    print(f"microseconds of one call {what}, the fastest of many batches of {BATCH}:")
    for name, value in found.items():
        beside = f"  1/{other / value:.1f} of FlashAttention-4" if other else ""
        print(f"{name:20} {value:8.2f}{beside}")
    if other:
        print(f"{'FlashAttention-4':20} {other:8.2f}  its own Python path, the dense call")
    if arguments.json:
        figures = {"dense": found["dense"], "paged": found["paged"], "worst": max(found.values())}
        figures |= {} if other is None else {"flash_attention_4": other}
        rounded = {name: round(value, 2) for name, value in figures.items()}
        arguments.json.write_text(json.dumps({"flash_attention_4": None} | rounded) + "\n")


if __name__ == "__main__":
    main()

"""Run recorded PTX programs on a Hopper GPU through the driver, with nothing but the standard
library.

Usage: replay.py CASES.json RESULTS.json.  Each case runs under a watchdog; a program that hangs or
faults loses its context, and a fresh worker process goes on with the next case.
"""

from __future__ import annotations

import base64
import ctypes as ct
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LIMIT_SECONDS = 3.0
MAX_DYNAMIC_SMEM, CLUSTER_DIMENSION = 8, 4
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES and CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""
NOT_READY = 600


class LaunchAttribute(ct.Structure):
    """`CUlaunchAttribute`."""

    _fields_ = [("id", ct.c_uint), ("pad", ct.c_uint), ("value", ct.c_uint * 16)]


class LaunchConfig(ct.Structure):
    """`CUlaunchConfig`."""

    _fields_ = [
        ("grid", ct.c_uint * 3),
        ("block", ct.c_uint * 3),
        ("smem", ct.c_uint),
        ("stream", ct.c_void_p),
        ("attributes", ct.POINTER(LaunchAttribute)),
        ("count", ct.c_uint),
    ]


class Refused(RuntimeError):
    """A driver call failed; the context may be lost."""


class Gpu:
    """One context on device 0."""

    def __init__(self) -> None:
        self.cu = ct.CDLL("libcuda.so.1")
        self._check(self.cu.cuInit(0), "cuInit")
        context = ct.c_void_p()
        self._check(
            self.cu.cuDevicePrimaryCtxRetain(ct.byref(context), 0), "cuDevicePrimaryCtxRetain"
        )
        self._check(self.cu.cuCtxSetCurrent(context), "cuCtxSetCurrent")

    def _check(self, status: int, what: str) -> None:
        if status:
            name = ct.c_char_p()
            self.cu.cuGetErrorName(status, ct.byref(name))
            raise Refused(f"{what}: {(name.value or b'?').decode()}")

    def _allocate(self, data: bytes) -> int:
        pointer = ct.c_uint64()
        self._check(
            self.cu.cuMemAlloc_v2(ct.byref(pointer), ct.c_size_t(max(len(data), 256))), "cuMemAlloc"
        )
        self._check(self.cu.cuMemcpyHtoD_v2(pointer, data, ct.c_size_t(len(data))), "cuMemcpyHtoD")
        return pointer.value

    def _function(self, case: dict[str, Any]) -> tuple[ct.c_void_p, ct.c_void_p]:
        log = ct.create_string_buffer(4096)
        options = (ct.c_int * 2)(5, 6)  # error log buffer and its size
        values = (ct.c_void_p * 2)(ct.cast(log, ct.c_void_p), ct.c_void_p(4096))
        module, function = ct.c_void_p(), ct.c_void_p()
        status = self.cu.cuModuleLoadDataEx(
            ct.byref(module), case["ptx"].encode() + b"\0", 2, options, values
        )
        if status:
            raise Refused(f"cuModuleLoadDataEx: {log.value.decode(errors='replace')[:300]}")
        self._check(
            self.cu.cuModuleGetFunction(ct.byref(function), module, case["kernel"].encode()),
            "function",
        )
        self._check(self.cu.cuFuncSetAttribute(function, MAX_DYNAMIC_SMEM, case["smem"]), "smem")
        return module, function

    def _launch(self, function: ct.c_void_p, case: dict[str, Any], storage: list[Any]) -> None:
        attribute = LaunchAttribute(id=CLUSTER_DIMENSION)
        attribute.value[0], attribute.value[1], attribute.value[2] = case["cluster"]
        use_cluster = case["cluster"] != [1, 1, 1]
        config = LaunchConfig(
            (ct.c_uint * 3)(*case["grid"]),
            (ct.c_uint * 3)(*case["block"]),
            case["smem"],
            None,
            ct.pointer(attribute) if use_cluster else None,
            int(use_cluster),
        )
        pointers = (ct.c_void_p * len(storage))(*[ct.addressof(s) for s in storage])
        self._check(
            self.cu.cuLaunchKernelEx(ct.byref(config), function, pointers, None), "cuLaunchKernelEx"
        )
        start = time.monotonic()
        while (status := self.cu.cuStreamQuery(None)) == NOT_READY:
            if time.monotonic() - start > LIMIT_SECONDS:
                raise TimeoutError("the kernel did not end")
            time.sleep(0.0005)
        self._check(status, "kernel")

    def run(self, case: dict[str, Any]) -> list[str]:
        """Buffers after the launch, base64; tensor maps are given the device address of their
        buffer."""
        module, function = self._function(case)
        buffers = [base64.b64decode(b) for b in case["buffers"]]
        device = [self._allocate(b) for b in buffers]
        storage: list[Any] = []
        for kind, value, *rest in case["params"]:
            if kind == "buffer":
                storage.append(ct.c_uint64(device[value]))
            elif kind == "map":
                raw = bytearray(base64.b64decode(value))
                raw[:8] = (device[rest[0]] + rest[1]).to_bytes(8, "little")
                space = ct.create_string_buffer(192)
                offset = -ct.addressof(space) % 64
                storage.append((ct.c_char * 128).from_buffer(space, offset))
                storage[-1].raw = bytes(raw)
            else:
                storage.append(ct.create_string_buffer(base64.b64decode(value)))
        self._launch(function, case, storage)
        results = []
        for pointer, data in zip(device, buffers, strict=True):
            back = ct.create_string_buffer(len(data))
            self._check(
                self.cu.cuMemcpyDtoH_v2(back, ct.c_uint64(pointer), ct.c_size_t(len(data))),
                "cuMemcpyDtoH",
            )
            self.cu.cuMemFree_v2(ct.c_uint64(pointer))
            results.append(base64.b64encode(back.raw).decode())
        self.cu.cuModuleUnload(module)
        return results


def worker(path: str, first: int) -> None:
    """Run cases from `first` on; one JSON line each; ends after a case that cost the context."""
    cases, gpu = json.loads(Path(path).read_text()), Gpu()
    for index in range(first, len(cases)):
        lost = False
        try:
            answer: dict[str, Any] = {"buffers": gpu.run(cases[index])}
        except (Refused, TimeoutError) as error:
            answer = {"error": str(error)}
            lost = not str(error).startswith("cuModuleLoadDataEx")
        print(json.dumps({"index": index, **answer}), flush=True)
        if lost:
            os._exit(0)


def main() -> None:
    """Run all cases and write the results."""
    cases_path, results_path = sys.argv[1:3]
    count = len(json.loads(Path(cases_path).read_text()))
    results: dict[int, Any] = {}
    while len(results) < count:
        first = len(results)
        command = [sys.executable, __file__, "--worker", cases_path, str(first)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            lines, problem = done.stdout.splitlines(), done.stderr[-300:]
        except subprocess.TimeoutExpired as error:
            lines, problem = (error.stdout or b"").decode().splitlines(), "worker timed out"
        for line in lines:
            answer = json.loads(line)
            results[answer.pop("index")] = answer
        if len(results) == first:
            results[first] = {"error": f"worker: {problem}"}
    Path(results_path).write_text(json.dumps([results[k] for k in range(count)]))
    print(f"{count} cases, {sum('error' in r for r in results.values())} errors")


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(sys.argv[2], int(sys.argv[3]))
    else:
        main()

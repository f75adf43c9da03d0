"""Ask a CUDA device of compute capability 9.0 everything that the tests replay; write the records.

    python -m testing.hardware.record [--out DIRECTORY] [--part NAME ...]

Needs cuda-python, numpy, torch and pytest; no CuTe DSL. Parts, in this order:

    cvt .. bulk   micro-kernels, one record file per family (`testing/hardware/micro`)
    launch        the package's launch code: the tests that skip without a device
    setmaxnreg    which register trades never end; last, because such a kernel holds the GPU until
                  its process is killed

A family's file holds the outputs of each case, the digest of its PTX and inputs, or the name of the
driver's error.  Every micro-kernel runs twice; outputs that differ between the two runs are not
recorded.  A kernel that faults takes the context with it, so that the work is done by child
processes, each of which goes on where the one before it stopped.
"""

from __future__ import annotations

import argparse
import json
import pickle
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from testing.hardware import records
from testing.hardware.device import Device, DeviceError, digest
from testing.hardware.micro import MODULES, family

OTHER_PARTS = {
    "launch": ("-m", "pytest", "-q", "-o", "addopts=", "-o", "filterwarnings=", "tests/host/test_device_hardware.py"),
    "setmaxnreg": ("-m", "testing.hardware.registers", "{out}/setmaxnreg.json"),
}  # fmt: skip
"""Arguments of Python for the parts that are no family of micro-kernels."""
SILENCE_SECONDS = 25.0
"""A child that reports nothing for so long hangs."""


def _send(value: Any) -> None:
    raw = pickle.dumps(value)
    sys.stdout.buffer.write(struct.pack("<I", len(raw)) + raw)
    sys.stdout.buffer.flush()


def child(name: str, first: int) -> None:
    """Run the cases of a family from index `first` on; stops after the first fault."""
    device = Device()
    for index in range(first, len(family(name))):
        case = family(name)[index]
        _send(("start", index))
        try:
            one = device.run(case)
            two = device.run(case)
        except DeviceError as error:
            text = str(error)
            _send(("error", index, text))
            if not text.startswith("CUDA_ERROR_INVALID_PTX"):
                return
            continue
        if digest(one) != digest(two):
            _send(("unstable", index))
        else:
            _send(("result", index, one))
    _send(("end", len(family(name))))


def _parent(name: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    first, cases = 0, family(name)
    while first < len(cases):
        process = subprocess.Popen(
            [sys.executable, "-m", "testing.hardware.record", "--child", name, str(first)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        first = _collect(process, cases, results, first)
        process.kill()
        process.wait()
    return results


def _collect(process: Any, cases: Any, results: dict[str, Any], first: int) -> int:
    """Read a child's reports; the index at which the next child starts."""
    import threading

    at, alive = first, [time.monotonic()]

    def watch() -> None:
        while process.poll() is None:
            if time.monotonic() - alive[0] > SILENCE_SECONDS:
                process.kill()
            time.sleep(0.5)

    threading.Thread(target=watch, daemon=True).start()
    while True:
        head = process.stdout.read(4)
        if len(head) < 4:
            if cases[at].name not in results:
                results[cases[at].name] = "hang or crash"
            return at + 1
        kind, index, *rest = pickle.loads(process.stdout.read(struct.unpack("<I", head)[0]))
        alive[0] = time.monotonic()
        if kind == "end":
            return len(cases)
        at = index
        if kind == "result":
            results[cases[index].name] = rest[0]
        elif kind == "error":
            results[cases[index].name] = rest[0]
        elif kind == "unstable":
            results[cases[index].name] = "unstable"


def _record_family(name: str, out: Path) -> None:
    start = time.monotonic()
    results = _parent(name)
    path = records.write(out, name, results)
    wrong = {k: v for k, v in results.items() if isinstance(v, str)}
    spent = time.monotonic() - start
    print(
        f"{name}: {len(results)} cases, {len(wrong)} without result, "
        f"{path.stat().st_size} bytes, {spent:.1f} s",
        flush=True,
    )
    for case, text in wrong.items():
        print(f"    {case}: {text[:300]}", flush=True)


def _describe(out: Path) -> None:
    """Write which machine it was."""
    code = "import json; from testing.hardware.device import Device; print(json.dumps(Device().describe()))"
    machine = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    described = json.loads(machine.stdout)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    described["driver"] = subprocess.run(
        query, capture_output=True, text=True, check=False
    ).stdout.strip()
    (out / "machine.json").write_text(json.dumps(described, indent=1) + "\n")
    print(described, flush=True)


def main() -> int:
    """Command line; the number of parts that failed."""
    known = [*MODULES, *OTHER_PARTS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=records.DIRECTORY)
    parser.add_argument("--part", nargs="*", default=known, choices=known, metavar="NAME")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], int(options.child[1]))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    _describe(options.out)
    failed = 0
    for name in sorted(options.part, key=known.index):
        if name in MODULES:
            _record_family(name, options.out)
            continue
        print(f"{name}:", flush=True)
        arguments = [text.format(out=options.out) for text in OTHER_PARTS[name]]
        failed += subprocess.run([sys.executable, *arguments], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())

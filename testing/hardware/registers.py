"""Which setmaxnreg kernels end on the chip: each runs in a process of its own with a time limit.

    python -m testing.hardware.registers OUT.json

A kernel that waits for ever holds the GPU until its process is killed, so this runs last. After
each one a kernel that fits shows that the GPU still answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from testing.hardware.case import Case
from testing.hardware.device import Device, DeviceError
from testing.hardware.micro.barriers import dec, inc, trade

SECONDS = 8.0
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        trade("fits: dec 40, inc 216 at 128", 128, (dec(40), inc(216))),
        trade("8 over per thread: dec 32, inc 232 at 128", 128, (dec(32), inc(232))),
        trade("16 over per thread: dec 40, inc 232 at 128", 128, (dec(40), inc(232))),
        trade("no dec: inc 72 at 64, one group", 64, (inc(72),)),
        trade("no dec: inc 128 at 64, one group", 64, (inc(128),)),
    )
}


def child(name: str) -> None:
    """Run one case; print how many registers the function has and the sum of its result."""
    device = Device()
    case = CASES[name]
    _, function = device._function(case)
    attribute = device.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
    print(int(device.cu.cuFuncGetAttribute(attribute, function)[1]), flush=True)
    print(int(device.run(case)[0].sum()), flush=True)


def ended(name: str) -> dict[str, Any]:
    """Outcome of a case."""
    command = [sys.executable, "-m", "testing.hardware.registers", "--child", name]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=SECONDS)
        ends = process.returncode == 0
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        ends = False
    words = out.split()
    return {
        "ends": ends,
        "registers": int(words[0]) if words else None,
        "sum": int(words[1]) if len(words) > 1 else None,
        "seconds": round(time.monotonic() - start, 1),
        "error": err.strip()[-200:],
    }


def main() -> None:
    """Command line."""
    first = next(iter(CASES))
    found = {}
    for name in CASES:
        found[name] = ended(name)
        print(name, found[name], flush=True)
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
        if not found[name]["ends"]:
            print("  afterwards", ended(first), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        try:
            child(sys.argv[2])
        except DeviceError as error:
            sys.exit(f"{error}")
    else:
        main()

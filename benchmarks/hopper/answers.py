"""Answers of a Hopper GPU to the programs of ``benchmarks.hopper.probes``: shown, or kept as data.

    python -m benchmarks.hopper.answers show CASES.json RESULTS.json
    python -m benchmarks.hopper.answers pack CASES.json RESULTS.json DATA.json
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.hopper.probes import BOX


def show(cases_path: str, results_path: str) -> None:
    """Print what came back."""
    cases, results = (json.loads(Path(p).read_text()) for p in (cases_path, results_path))
    for case, result in zip(cases, results, strict=True):
        print(f"== {case['name']}: ", end="")
        if "error" in result:
            print(result["error"][:200])
            continue
        memory, out = (np.frombuffer(base64.b64decode(b), np.uint8) for b in result["buffers"])
        print("complete" if out[BOX] else "NOT complete")
        before = np.frombuffer(base64.b64decode(case["buffers"][0]), np.uint8)
        changed = np.flatnonzero(memory != before)
        if changed.size:
            print(
                "  global changed",
                [int(changed[0]), int(changed[-1]), changed.size],
                memory[changed[:16]].tolist(),
            )
        for at in range(0, BOX, 16):
            line = out[at : at + 16]
            if (line != 0xEE).any() and at < 2048:
                print(f"  +{at:4d} {line.view(np.uint16)[:8].tolist()} {line.tobytes().hex()}")


def squeeze(data: bytes) -> str:
    """Compressed base64 text."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def pack(cases_path: str, results_path: str, data_path: str) -> None:
    """Write programs and results as tests/sim/data/tma-probes-h200.json."""
    cases, results = (json.loads(Path(p).read_text()) for p in (cases_path, results_path))
    sources: list[str] = []
    rows = []
    for case, result in zip(cases, results, strict=True):
        source = case["buffers"][0]
        if source not in sources:
            sources.append(source)
        body = case["ptx"].split("ld.param.b32 %n0, [a3];\n")[1].rsplit("\nret;", 1)[0]
        raw, number = (base64.b64decode(case["params"][k][1]) for k in (2, 3))
        row = {
            "name": case["name"],
            "map": raw[:64].hex(),
            "number": int.from_bytes(number, "little"),
            "source": sources.index(source),
            "body": body,
        }
        if "error" in result:
            row["error"] = result["error"]
        else:
            after, shared = (base64.b64decode(b) for b in result["buffers"])
            before = np.frombuffer(base64.b64decode(source), np.uint8)
            changed = np.flatnonzero(before != np.frombuffer(after, np.uint8))
            if changed.size:
                first, last = int(changed[0]), int(changed[-1])
                row["changed"] = [first, squeeze(after[first : last + 1])]
            row["shared"] = squeeze(shared)
        rows.append(row)
    head = json.dumps([squeeze(base64.b64decode(s)) for s in sources])
    lines = ",\n".join(json.dumps(row) for row in rows)
    Path(data_path).write_text(f'{{"sources": {head},\n"rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"show": show, "pack": pack}
    commands[sys.argv[1]](*sys.argv[2:])

"""Whether the machine code stays: SHA-256 of the PTX of every kernel of ``testing.kernels``.

    python -m testing.ptx_hashes            compile all, compare, name what differs (exit status 1)
    python -m testing.ptx_hashes --write    record what the kernels are compiled to now
    python -m testing.ptx_hashes --keep D   also write the PTX of each kernel into directory D
    python -m testing.ptx_hashes NAME ..    only kernels whose names contain one of these

The entry name is masked: it says what a kernel is specialised on, and a rename must not matter.
The record holds for one version of the DSL, which it names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fa4_cute.host.compile.cache import compiled
from testing.kernels import KERNELS

RECORD: Final = Path(__file__).parent / "ptx_hashes.json"


def dsl_version() -> str:
    """Return the version of the compiler that the record holds for."""
    return version("nvidia-cutlass-dsl")


def masked_ptx(name: str) -> str:
    """Compile kernel ``name`` and return its PTX with the entry name masked.

    A cached kernel serves: it was compiled by the same compiler, from the same sources.
    """
    artifact = compiled(KERNELS[name])
    return artifact.ptx.replace(artifact.kernel_name, "KERNEL")


def ptx_hash(name: str) -> str:
    """Return the SHA-256 of the masked PTX of kernel ``name``."""
    return hashlib.sha256(masked_ptx(name).encode()).hexdigest()


def recorded() -> dict[str, str]:
    """Return the recorded hashes.

    Raises:
        RuntimeError: when another version of the DSL is installed than the record was made with.
    """
    record = json.loads(RECORD.read_text())
    if record["dsl"] != dsl_version():
        raise RuntimeError(f"recorded with DSL {record['dsl']}, installed is {dsl_version()}")
    found: dict[str, str] = record["sha256"]
    return found


def _chosen(parts: list[str]) -> Iterable[str]:
    return [n for n in KERNELS if not parts or any(part in n for part in parts)]


def main(arguments: list[str] | None = None) -> int:
    """Compare or write the record; the exit status is 1 when something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="parts of the names of kernels; none takes all")
    parser.add_argument("--write", action="store_true", help="record the hashes")
    parser.add_argument("--keep", type=Path, help="directory for the PTX")
    given = parser.parse_args(arguments)
    before = json.loads(RECORD.read_text())["sha256"] if given.write else recorded()
    found = {}
    for name in _chosen(given.names):
        ptx = masked_ptx(name)
        found[name] = hashlib.sha256(ptx.encode()).hexdigest()
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
            (given.keep / f"{name.replace('/', '-').replace(' ', '_')}.ptx").write_text(ptx)
        if found[name] != before.get(name):
            print(f"{name}: {'differs' if name in before else 'is new'}", flush=True)
    differing = [name for name in found if found[name] != before.get(name)]
    print(f"{len(found) - len(differing)} of {len(found)} kernels are as recorded")
    if given.write:
        hashes = {name: found.get(name, before.get(name)) for name in KERNELS}
        RECORD.write_text(json.dumps({"dsl": dsl_version(), "sha256": hashes}, indent=1) + "\n")
        return 0
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether the DSL's libraries for CUDA 12 and for CUDA 13 write the same PTX.

    FA4_CUTE_CACHE=0 CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.side_by_side.libraries cu12 \
        [--only REGEX]

Compiles, and does not execute, the launches of decoding steps, chunks over a cache, packed
sequences and short prompts in the columns with CUDA 13, by the libraries that are imported, and
records the SHA-256 of their PTX without the line `.version` under the name that is given; with
`--only` of rows that match. The libraries of the environment are those for CUDA 12. To import the
others: `pip install --no-deps --target F` with `nvidia-cutlass-dsl` and its `-libs-base`,
`-libs-core` and `-libs-cu13`, all of one version, and
`PYTHONPATH=F/nvidia_cutlass_dsl/dsl_packages:F`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.timing.side_by_side.records import load
from sm100sim.launch_request import LaunchRequest

RECORD: Final = Path(__file__).with_name("libraries.json")
NAMES: Final = ("cu12", "cu13")
COMPILED: Final = ("fa4_cute, CUDA 13", "FA4, CUDA 13")
"""Columns whose PTX the DSL writes begin so."""
Hashes = dict[str, list[str]]
"""Of each launch of a row, by "column: problem"."""


def entries() -> list[str]:
    """The rows of problems that are no family, whose PTX the DSL writes for CUDA 13."""
    return [
        f"{row['column']}: {row['name']}" for row in load()
        if row["family"] == "other" and "cycles" in row and row["column"].startswith(COMPILED)
    ]  # fmt: skip


def ptx_hash(ptx: str) -> str:
    """SHA-256 of PTX without its version."""
    return hashlib.sha256(re.sub(r"(?m)^\.version.*$", "", ptx).encode()).hexdigest()


def compiled(only: str = "") -> Iterator[tuple[str, list[str]]]:
    """The rows that match and the hashes of their launches, by the imported libraries."""
    from benchmarks.timing.side_by_side import problems
    from benchmarks.timing.side_by_side.callers import records

    wanted = [name for name in entries() if re.search(only, name)]
    for column in problems.COLUMNS:
        for other in problems.OTHERS:
            name = f"{column.name}: {other.name}"
            if name not in wanted:
                continue
            seen = list[str]()

            def none(request: LaunchRequest, seen: list[str] = seen) -> list[int]:
                seen.append(request.ptx)
                return []

            records(column, other.problem, none, other.lengths)
            yield name, [ptx_hash(ptx) for ptx in seen]


def recorded() -> dict[str, Hashes]:
    """The hashes by the libraries of each name."""
    return dict(json.loads(RECORD.read_text())) if RECORD.exists() else {}


def differing(found: Mapping[str, Hashes]) -> list[str]:
    """Rows whose PTX is not the same by all libraries."""
    first, *others = (found[name] for name in NAMES)
    return [row for row in first if any(other.get(row) != first[row] for other in others)]


def counts(found: Mapping[str, Hashes]) -> dict[str, int]:
    """Rows, launches and kernels that were compared, and rows that differ."""
    launches = [each for row in found[NAMES[0]].values() for each in row]
    return {"rows": len(found[NAMES[0]]), "launches": len(launches),
            "kernels": len({*launches}), "differing": len(differing(found))}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Add the hashes of the imported libraries to the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=NAMES, help="whose libraries are imported")
    parser.add_argument("--only", default="", help="regular expression over column: problem")
    given = parser.parse_args(arguments)
    import sm100sim

    warnings.simplefilter("ignore")
    sm100sim.activate(sm_count=148)  # before the DSL is imported
    found = recorded()
    found[given.name] = {**found.get(given.name, {}), **dict(compiled(given.only))}
    RECORD.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

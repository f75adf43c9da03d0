"""The faults of ``benchmarks.source_mutants``: the rows of ``faults.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from benchmarks.source_anchors import Fault

TABLE: Final = Path(__file__).with_name("faults.toml")


def _read(text: str) -> tuple[Fault, ...]:
    return tuple(
        Fault(place, old, new, tuple(killers.split()), **dict(*more))
        for storey in tomllib.loads(text).values()
        for place, rows in storey.items()
        for old, new, killers, *more in rows
    )


FAULTS: Final[tuple[Fault, ...]] = _read(TABLE.read_text())

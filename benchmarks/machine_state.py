"""Which clocked machine predictions for a B200 are of: chip, draws, a digest of its sources."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

CHIP, DRAWS = "b200", 16
ROOT: Final = Path(__file__).resolve().parents[1]
MODEL: Final = ("sm100sim/timing", "sm100sim/engine/clock")
SUFFIXES: Final = (".py", ".toml", ".c", ".h")
SHOWS: Final = "profile"
"""What only shows what the machine says."""

DAYS: Final = {
    "d451a46e": "23 November", "6c4bd19e": "23 November", "2a70fc5f": "23 November",
    "7471afa3": "23 November", "8aef9a07": "24 November", "d65fcfd5": "30 November",
}  # fmt: skip
"""State of the machine -> the day of the first records of it, where a page says that."""


def states(rows: Iterable[Mapping[str, Any]]) -> str:
    """Of which states of the machine records are, and of which day those are."""
    by = Counter(row.get("model", "") for row in rows)
    several = by.total() > 1
    told = [
        (f"{name} of {DAYS[name]}" if name in DAYS else name or "not kept")
        + f" ({count})" * several
        for name, count in sorted(by.items())
    ]
    return f"state of the clocked machine, by a digest of its sources: {', '.join(told)}"


def digest_of(folders: Iterable[str]) -> str:
    """Digest of the sources and data in some folders of this repository, in hexadecimal digits."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and SHOWS not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()


def model() -> str:
    """What the clocked machine is: eight digits of its sources and chips."""
    return digest_of(MODEL)[:8]

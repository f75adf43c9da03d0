"""Which clocked machine predictions for a B200 are of: chip, draws, a digest of its sources."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

CHIP, DRAWS = "b200", 16
ROOT: Final = Path(__file__).resolve().parents[1]
MODEL: Final = ("sm100sim/timing", "sm100sim/engine/clock")
SUFFIXES: Final = (".py", ".toml", ".c", ".h")
SHOWS: Final = "profile"
"""What only shows what the machine says."""


def model() -> str:
    """What the clocked machine is: eight digits of its sources and chips."""
    digest = hashlib.sha256()
    for folder in MODEL:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and SHOWS not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:8]

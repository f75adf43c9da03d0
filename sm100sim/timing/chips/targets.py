"""Which chip PTX is for, and whether it runs on another one."""

from __future__ import annotations

import re
from typing import Final

from .load import chip_names, load_chip

CHIPS: Final = {"90": "h100", "100": "b200", "103": "b300"}
"""Architecture that PTX is for -> the chip of a profile that names none."""
OTHERWISE: Final = "b200"
_TARGET: Final = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.M)


def chip_of(ptx: str) -> str:
    """Return the chip that PTX is for."""
    target = _TARGET.search(ptx)
    return CHIPS.get(target[1], OTHERWISE) if target else OTHERWISE


def refuse_other(ptx: str, chip: str) -> None:
    """Refuse a chip that does not run the PTX: PTX runs on later chips, "sm_100a" on its own.

    Raises:
        ValueError: it does not; names those that do.
    """
    target, arch = _TARGET.search(ptx), load_chip(chip).arch
    if target is None:
        return
    number, chips = int(arch.strip("sm_af")), chip_names()
    if int(target[1]) > number or (target[2] == "a" and int(target[1]) != number):
        runs = [name for name in chips if load_chip(name).arch.rstrip("a") == f"sm_{target[1]}"]
        raise ValueError(
            f"chip: {chip} is {arch}, and the PTX is for sm_{target[1]}{target[2]}; nearest "
            f"supported choice: {' or '.join(runs) or 'PTX for a chip among ' + ', '.join(chips)}"
        )

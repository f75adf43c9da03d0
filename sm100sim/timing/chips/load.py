"""Reads chips, and draws the values that are only known to lie in a range."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
STATUSES: Final = ("measured", "published", "inferred", "range")


@dataclass(frozen=True)
class Parameter:
    """A value of a chip.

    Attributes:
        value: what a single prediction uses, in `unit`. low, high: what it may be; equal to it
            where only one value is known.
        status: measured (by a program of this repository), published (on this chip, by `source`),
            inferred (from another chip, or arithmetic), or range (only bounds are known).
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    status: str
    source: str

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"{self.name}: status {self.status!r} is none of {STATUSES}")
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.name}: {self.value} is not in [{self.low}, {self.high}]")


@dataclass(frozen=True)
class Draw:
    """One value for each parameter of a chip; number 0 has the values themselves."""

    chip: str
    arch: str
    number: int
    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        try:
            return self.values[name]
        except KeyError:
            raise NotImplementedError(
                f"chip {self.chip} has no {name}; it knows {', '.join(sorted(self.values))}"
            ) from None

    def having(self, others: Mapping[str, float]) -> Draw:
        """Return the draw with other values, or further ones, by name."""
        return replace(self, values={**self.values, **others})


@dataclass(frozen=True)
class Chip:
    """A chip: its name, its architecture as PTX names it, and its parameters by name."""

    name: str
    arch: str
    parameters: Mapping[str, Parameter]

    def draw(self, number: int = 0, seed: int = 0) -> Draw:
        """Return the values of one draw.

        A number and a seed give the same place in every parameter's range, whatever the kernel and
        the chip. So kernels are compared draw by draw.
        """
        if number < 0:
            raise ValueError(f"number: {number}; draws count from 0")
        chosen = {
            name: p.value if number == 0 else p.low + (p.high - p.low) * place(name, number, seed)
            for name, p in self.parameters.items()
        }
        return Draw(self.name, self.arch, number, chosen)


def place(name: str, number: int, seed: int) -> float:
    """Return where in [0, 1) of its range a parameter lies in a draw."""
    digest = hashlib.sha256(f"{seed}/{number}/{name}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2.0**48


def chip_names() -> tuple[str, ...]:
    """Return the chips that have a file."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def load_chip(name: str) -> Chip:
    """Return a chip by the name of its file, e.g. "h200".

    Raises:
        ValueError: there is no such chip, or its file contradicts itself.
    """
    if name not in chip_names():
        raise ValueError(f"chip: {name!r} is none of {', '.join(chip_names())}")
    document = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    sources = document["sources"]
    found = {} if "base" not in document else _taken_over(document)
    for key, entry in document["values"].items():
        found[key] = _parameter(key, entry, sources)
    return Chip(document["name"], document["arch"], found)


def _taken_over(document: Mapping[str, Any]) -> dict[str, Parameter]:
    """Parameters of the chip that this one is based on; measured there, they are inferred here."""
    base = load_chip(document["base"]).parameters
    if document.get("same_chip", True):
        return dict(base)
    return {
        key: p if p.status == "range" else replace(p, status="inferred") for key, p in base.items()
    }


def _parameter(name: str, entry: Mapping[str, Any], sources: Mapping[str, str]) -> Parameter:
    if entry["source"] not in sources:
        raise ValueError(f"{name}: no source {entry['source']!r}")
    value = float(entry["value"])
    low, high = float(entry.get("low", value)), float(entry.get("high", value))
    source = sources[entry["source"]]
    return Parameter(name, value, low, high, entry["unit"], entry["status"], source)

"""The rows of the side-by-side page in their file: one a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

RECORDS: Final = Path(__file__).with_name("rows.json")
STATES: Final = Path(__file__).with_name("states.json")
"""Pairs of states of the machine, what rows of the first were equal when repeated in the other,
and why the others are, where that has to be said; or, `moved`, by how much rows move that the page
holds against those of the other all the same."""
Row = Mapping[str, Any]


def key(row: Row) -> tuple[str, str, int]:
    """What a row is of: its column, and the problem."""
    return row["column"], row.get("name", row["family"]), row.get("length", 0)


def load(path: Path = RECORDS) -> list[dict[str, Any]]:
    """The rows of a file."""
    return list(json.loads(path.read_text())) if path.exists() else []


def save(rows: Sequence[Row], path: Path = RECORDS) -> None:
    """Write rows in the order of their keys."""
    write(sorted(rows, key=key), path)


def write(rows: Sequence[Row], path: Path) -> None:
    """Write rows, one a line."""
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def merged(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Rows with new ones of a column and a problem in the place of all that it had.

    Where a program is not here, what it said before stays.
    """
    known = {key(row)[:2] for row in old}
    new = [row for row in new if not (_is_absent(row) and key(row)[:2] in known)]
    replaced = {key(row)[:2] for row in new}
    return [*(row for row in old if key(row)[:2] not in replaced), *new]


def _is_absent(row: Row) -> bool:
    """Whether a row says that its program is not installed."""
    return str(row.get("failed", "")).startswith(FileNotFoundError.__name__)


def equal_states() -> list[dict[str, Any]]:
    """Pairs of states whose rows are equal."""
    return [pair for pair in load(STATES) if "moved" not in pair]


def same_state(state: str, pairs: Sequence[Row]) -> set[str]:
    """A state of the machine and all that are one with it, as repeated rows say."""
    found = {state}
    while more := {s for p in pairs if found & {*p["states"]} for s in p["states"]} - found:
        found |= more
    return found


def shares(busy: Mapping[str, float]) -> dict[str, float]:
    """Of the units that work for at least a twentieth of the time, the busiest first."""
    found = sorted(busy.items(), key=lambda item: -item[1])
    return {unit: round(share, 3) for unit, share in found if share >= 0.05}

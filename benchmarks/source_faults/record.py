"""What came of each fault in the source, and whether that still holds: ``record.jsonl``.

A row is a verdict with digests of the function that was changed and of what had to find the fault
in it. It is of now while both are as they were; what the function calls may have changed since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.source_anchors import AnchorError, Edit, Fault, Sources

ROOT: Final = Path(__file__).resolve().parents[2]
RECORD: Final = Path(__file__).with_name("record.jsonl")
"""One row a line: where a fault has two, the later one counts."""
TESTS_FOLDER: Final = "tests/"
Row = dict[str, Any]


def digests(fault: Fault, edit: Edit) -> dict[str, str]:
    """Return what tells the function and what has to find the fault from other versions of them."""
    return {"function": _digest(edit.function), "killers": _digest(*map(killer, fault.killers))}


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@cache
def killer(name: str) -> str:
    """Return what a probe does, or the files of tests."""
    if not name.startswith(TESTS_FOLDER):
        probe = import_module("testing.probes").PROBES[name]
        return json.dumps(_described(probe))
    place = ROOT / name.partition("::")[0]
    texts = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return "\n".join(path.read_text() for path in texts)


def _described(value: Any) -> Any:
    """Return what JSON can hold of a probe: fields that have their defaults, new ones too, are out.

    Sets of features are sorted, functions and types of elements have their names.
    """
    if is_dataclass(value):
        told = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _described(one) for field, one in told if one != field.default}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_described(one) for one in value]
    return getattr(value, "__qualname__", str(value))


def verdict(fault: Fault, how: str | None) -> str:
    """Return what it says of a fault that it was killed by ``how``, or survived."""
    if fault.reason:
        return "KILLED ALTHOUGH ARGUED" if how else "argued"
    return "killed" if how else "SURVIVES"


def untried(fault: Fault, edit: Edit) -> Row:
    """Return the row of a fault, but for ``how`` it was killed."""
    return {"fault": str(fault), "path": edit.path, **digests(fault, edit)}


def read(path: Path = RECORD) -> dict[str, Row]:
    """Return the last row of each fault of a record."""
    if not path.exists():
        return {}
    return {row["fault"]: row for row in map(json.loads, path.read_text().splitlines())}


def tidy(faults: Sequence[Fault], path: Path = RECORD) -> None:
    """Leave the last row of each of ``faults``, in their order."""
    rows = read(path)
    kept = [rows[name] for name in map(str, faults) if name in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept))


def is_of_now(row: Row | None, fault: Fault, edit: Edit) -> bool:
    """Return whether function and killers are what they were when the fault was tried."""
    return row is not None and row.items() >= digests(fault, edit).items()


def resolved(faults: Sequence[Fault]) -> tuple[list[tuple[Fault, Edit]], list[str]]:
    """Return the faults with their edits, and what is wrong with the others."""
    sources, found, problems = Sources(ROOT / "fa4_cute"), [], []
    for fault in faults:
        try:
            found.append((fault, sources.edit(fault)))
        except AnchorError as error:
            problems.append(str(error))
    return found, problems


def report(faults: Sequence[Fault], rows: dict[str, Row]) -> list[Row]:
    """Return what the page says of every fault: its verdict, and whether that is of now."""
    found, _ = resolved(faults)
    told = [(fault, edit, rows.get(str(fault))) for fault, edit in found]
    return [
        {
            "fault": str(fault), "path": edit.path, "reason": fault.reason,
            "verdict": verdict(fault, row["how"]) if row else "not tried",
            "how": row and row["how"], "of_now": is_of_now(row, fault, edit),
        }
        for fault, edit, row in told
    ]  # fmt: skip

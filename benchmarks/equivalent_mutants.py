"""Survivors of ``make mutants`` that are no faults: the table of the reasons, and its use."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sm100sim.mutate import Mutant


@dataclass(frozen=True)
class Equivalent:
    """Survivors that are no faults: `count` of `kind` at barriers whose name matches `where`.

    `kernel` is a name of ``mutant_cases.KERNELS``.
    """

    kernel: str
    kind: str
    where: str
    count: int
    reason: str


TABLE = Path(__file__).with_suffix(".toml")


def _read(text: str) -> tuple[Equivalent, ...]:
    table = tomllib.loads(text)
    return tuple(
        Equivalent(kernel, kind, where, count, table["reasons"][reason])
        for kernel, rows in table["survivors"].items()
        for kind, where, count, reason in rows
    )


EQUIVALENT = _read(TABLE.read_text())


ASSIGNED = re.compile(
    r"^\s*(mov|add|selp|mapa)\.[\w.:]+\s+(%\w+), ([-\w%]+)(?:, ([-\w%]+))?(?:, %\w+)?;"
)


def _offset(register: str, lines: list[str], end: int) -> tuple[int, bool]:
    """The constant part of an address in front of line `end`, and whether there is another."""
    for number in range(end - 1, -1, -1):
        if not re.search(rf"^\s*[\w.:]+\s+{register},", lines[number]):
            continue
        found = ASSIGNED.match(lines[number])
        if not found:
            break
        first, second = found.groups()[2:]
        operands = [first, second] if found[1] == "add" else [first]
        parts = [_part(operand, lines, number) for operand in operands]
        computed = found[1] == "selp" or any(p[1] for p in parts)
        return sum(p[0] for p in parts), computed
    return 0, True


def _part(operand: str, lines: list[str], end: int) -> tuple[int, bool]:
    if operand.startswith("%"):
        return _offset(operand, lines, end)
    return (int(operand), False) if re.fullmatch(r"-?\d+", operand) else (0, False)


def barrier_of(line: int, statement: str, lines: list[str], names: dict[int, str]) -> str:
    """The barrier that a statement uses; "name+" when its stage is computed, "-": none."""
    found = re.search(r"\[\s*(%\w+)\s*\](?!.*\[)", statement)
    if not found:
        return "-"
    offset, computed = _offset(found[1], lines, line)
    return names[offset] + "+" * computed if offset in names else "-"


@dataclass(frozen=True)
class Survivor:
    """A mutant that no run told apart from its kernel: its barrier, and why that is right."""

    mutant: Mutant
    where: str
    reason: str = ""

    def __str__(self) -> str:
        """Name and place."""
        return f"{self.mutant.name} at {self.where}"


def explain(kernel: str, survivors: Sequence[Survivor]) -> tuple[list[Survivor], list[str]]:
    """Give survivors their reasons; returns those that have one, and in words what is wrong."""
    left, explained, problems = list(survivors), [], []
    for entry in EQUIVALENT:
        if entry.kernel != kernel:
            continue
        mine = [
            s for s in left
            if re.fullmatch(entry.kind, s.mutant.kind) and re.fullmatch(entry.where, s.where)
        ]  # fmt: skip
        if len(mine) != entry.count:
            counts = f"{len(mine)} survive, {entry.count} explained"
            problems.append(f"{entry.kind} at {entry.where}: {counts}")
        explained += [replace(s, reason=entry.reason) for s in mine]
        left = [s for s in left if s not in mine]
    return explained, problems + [f"{s}: {s.mutant.before[:90]}" for s in left]

"""Records of the search, and what follows from them: the Pareto front, the best, the table.

A record holds one choice of one class: static facts, cycles of each draw in each cell, and the
hashes of the PTX that was judged. Draws are the same for all records, so ratios are paired.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from benchmarks.machine_state import digest_of
from benchmarks.tune.classes import CLASSES, ProblemClass
from fa4_cute.plan.config.tuned import TUNED
from fa4_cute.plan.config.tuning import RoleRegisters, Tuning, tuning_of
from fa4_cute.plan.facts.dtypes import DType
from sm100sim.timing.predict import Band

FILE: Final = Path(__file__).parent / "records.json"
TABLE: Final = Path(__file__).parents[2] / "fa4_cute" / "plan" / "config" / "tuned.py"
MODELS: Final = ("sm100sim/timing/model", "sm100sim/timing/chips", "sm100sim/timing/predict",
                 "sm100sim/engine/clock")  # fmt: skip
DEFAULT: Final = Tuning()
HEAD: Final = '''"""Free choices that the timing model prefers: ``benchmarks.tune`` writes them.

The first row that holds a kernel is taken; a kernel that none holds has the defaults of ``Tuning``.
"""

from __future__ import annotations

from typing import Final

from .tuning import RoleRegisters, TunedRow, Tuning

TUNED: Final[tuple[TunedRow, ...]] = (
'''


def model_hash() -> str:
    """Return a hash over the sources and data of the timing model."""
    return digest_of(MODELS)[:16]


@dataclass(frozen=True)
class Record:
    """A choice that was judged.

    Attributes:
        of: name of the class. tuning: the choice.
        ptx: hash of the PTX of each kernel that was judged, by kind of cell, and "dynamic" for the
            causal one whose CTAs take over others. spills: of all these kernels.
        t1, turn: stalls of the softmax loop, static. cycles: of each draw, by cell.
    """

    of: str
    tuning: Tuning
    ptx: dict[str, str]
    spills: int
    t1: int
    turn: int
    cycles: dict[str, tuple[int, ...]]

    def ratios(self, other: Record) -> dict[str, Band]:
        """Return the band of this record's cycles over another's, draw by draw, by cell."""
        return {
            cell: Band.of([a / b for a, b in zip(mine, other.cycles[cell], strict=True)])
            for cell, mine in self.cycles.items()
        }

    def score(self, other: Record) -> Band:
        """Return the band of the geometric mean, over all cells, of the cycles over another's."""
        cells = [
            [a / b for a, b in zip(mine, other.cycles[cell], strict=True)]
            for cell, mine in self.cycles.items()
        ]
        return Band.of([prod(draw) ** (1 / len(draw)) for draw in zip(*cells, strict=True)])

    def median(self, cell: str) -> float:
        """Return the median cycles of a cell."""
        return Band.of(self.cycles[cell]).median


def described(tuning: Tuning) -> str:
    """Return what differs from the defaults, in words."""
    parts = []
    if tuning.keys:
        parts.append(f"{tuning.keys} keys")
    if tuning.slots:
        parts.append(f"{tuning.slots} slots")
    if tuning.emulated != DEFAULT.emulated:
        parts.append(f"{tuning.emulated}/64 emulated")
    if tuning.registers != DEFAULT.registers:
        parts.append("/".join(map(str, tuning.registers)) + " registers")
    if tuning.crosses:
        parts.append("P crosses")
    if tuning.parts != DEFAULT.parts:
        parts.append("P in " + "+".join(map(str, tuning.parts)))
    return ", ".join(parts) or "defaults"


def of_class(records: Iterable[Record], name: str) -> dict[Tuning, Record]:
    """Return the records of a class by their choices."""
    return {record.tuning: record for record in records if record.of == name}


def today(of: ProblemClass) -> Tuning:
    """Return the choice of the table."""
    dtype = DType.FP8_E4M3 if of.dtype == "fp8" else DType.BF16
    return tuning_of(TUNED, of.kernel, dtype, of.depth, of.ov_depth)


def best(records: dict[Tuning, Record], taken: Tuning | None = None) -> Record:
    """Return the choice to take: what changes more has to win by more than the band.

    Choices without spills are looked at by how many values they change of the defaults. Of those
    that change as many, and whose band of cycles over those of the one before is below 1, that is
    taken which does best beside each of the others, draw by draw. ``taken``, the choice of the
    table, stays among them until the whole band of another one beside it is below 1.
    """
    pick = records[DEFAULT]
    able = [record for record in records.values() if not record.spills]
    for count in sorted({changes(record.tuning) for record in able}):
        faster = [r for r in able if changes(r.tuning) == count and r.score(pick).high < 1]
        if stays := [r for r in faster if r.tuning == taken]:
            faster = [r for r in faster if r.score(stays[0]).high < 1] or stays
        if faster:
            pick = min(faster, key=lambda r: max(r.score(other).median for other in faster))
    return pick


def changes(tuning: Tuning) -> int:
    """Return how many values differ from the defaults."""
    mine, theirs = asdict(tuning), asdict(DEFAULT)
    return sum(mine[name] != theirs[name] for name in mine)


def pareto(records: dict[Tuning, Record]) -> list[Record]:
    """Return the choices without spills that no other one beats in all cells, by median."""
    able = [record for record in records.values() if not record.spills]

    def beaten(record: Record) -> bool:
        mine = [record.median(cell) for cell in record.cycles]
        others = ([o.median(cell) for cell in record.cycles] for o in able if o is not record)
        return any(
            all(b <= a for a, b in zip(mine, other, strict=True)) and other != mine
            for other in others
        )

    return [record for record in able if not beaten(record)]


def row_text(of: ProblemClass, tuning: Tuning) -> str:
    """Return the row of a class as Python."""
    texts = {name: repr(value) for name, value in asdict(tuning).items()}
    texts["registers"] = f"RoleRegisters({', '.join(map(str, tuning.registers))})"
    values = ", ".join(
        f"{name}={texts[name]}" for name in texts if getattr(tuning, name) != getattr(DEFAULT, name)
    )
    key = f'"{of.kernel}", {of.element_bytes}, {of.depth}, {of.ov_depth}'
    return f"    TunedRow({key},\n             Tuning({values})),\n"


def table_text(records: Sequence[Record]) -> str:
    """Return the module that holds the best of all classes that have records."""
    rows = [
        row_text(of, best(found, today(of)).tuning)
        for of in CLASSES
        if (found := of_class(records, of.name))
    ]
    text = HEAD + "".join(rows) + ")  # fmt: skip\n"
    return text if "RoleRegisters(" in "".join(rows) else text.replace("RoleRegisters, ", "")


MadeWith = dict[str, dict[str, str]]
"""By class: compiler, assembler and timing model of its records."""


def load(path: Path = FILE) -> tuple[MadeWith, list[Record]]:
    """Return what the records of each class were made with, and the records."""
    if not path.exists():
        return {}, []
    data = json.loads(path.read_text())
    return data["made_with"], [_record(entry) for entry in data["records"]]


def _record(entry: dict[str, Any]) -> Record:
    choice = entry["tuning"]
    tuning = Tuning(
        choice["emulated"], tuple(choice["parts"]), RoleRegisters(*choice["registers"]),
        choice["keys"], choice["slots"], choice.get("crosses", DEFAULT.crosses),
    )  # fmt: skip
    cycles = {cell: tuple(values) for cell, values in entry["cycles"].items()}
    return Record(**{**entry, "tuning": tuning, "cycles": cycles})


def save(made_with: MadeWith, records: Sequence[Record], path: Path = FILE) -> None:
    """Write the records, a line each."""
    lines = ",\n".join(json.dumps(asdict(record)) for record in records)
    head = json.dumps(made_with)
    path.write_text(f'{{"made_with": {head},\n"records": [\n{lines}\n]}}\n')

"""The tables of docs/hardware.md, written from the records and the simulator's instruction families.

    python -m testing.hardware.page docs/hardware.md

rewrites what lies between each pair of markers and leaves the rest of the page alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from math import inf, log2, pi
from pathlib import Path
from typing import Any

from sm100sim.coverage import lowerings, source
from testing.hardware import bounds, records
from testing.hardware.case import Case
from testing.hardware.micro import MODULES, family

KNOWN = Path(__file__).parent / "known_differences.json"
PROBES = Path(__file__).resolve().parents[2] / "tests" / "sim" / "data" / "tma-probes-h200.json"
ERRORS = {
    "CUDA_ERROR_INVALID_PTX": "refused", "CUDA_ERROR_ILLEGAL_INSTRUCTION": "faults", "hang or crash": "hangs",
}  # fmt: skip
"""What a record says in place of outputs -> how the simulator answers."""

STATEMENT = re.compile(r"^(?:@!?%\w+\s+)?([a-z][\w]*(?:[.:]+\w+)*)")
LABEL = re.compile(r"^\s*[A-Za-z_$][\w$]*:(?!:)")
INFERRED = {
    "isa/tcgen05/mma.py": (
        "MMAs of one thread execute in issue order, also for different accumulators: shipped kernels rely on it",
        "the accumulation inside one MMA: the default rounds once, an option follows published reverse engineering",
        "the swizzle of MMA operands works on the absolute shared address, as that of tensor copies and of wgmma does on an H200",
        "the metadata of `.sp` lies in Tensor Memory where CUTLASS's fragments of E have it",
        "A of `.ws` with fewer than 128 rows, in Tensor Memory, lies in the lanes of each part of D",
        "a scale factor of A of `.sp` belongs to 16 or 32 kept elements, one of B to twice as many, as in CUTLASS",
    ),
    "isa/arith/floating.py": ("`.ftz` of f32x2 arithmetic flushes what that of f32 flushes",),
    "isa/memory/atomics.py": ("f64 sums of bulk reductions have the NaNs of `red.global`",),
    "isa/arith/convert.py": (
        "`.rn` and `.rz` to tf32 with `.satfinite` leave the NaN that they have without",
        "rounding and NaNs of the formats below 8 bits that sm_90 lacks follow those of e4m3 and e5m2",
    ),
    "isa/memory/bulk_copy.py": ("tensor copies, their clipping and their faults on sm_100 are those of sm_90",),
}
"""Family of the simulator -> rules that rest on neither a record nor a document."""


def results(case: Case, recorded: dict[str, Any]) -> tuple[str, int]:
    """What became of a case on the chip and how many values it gave: (equal, bounded, ...; count)."""
    outputs = recorded[case.name][1]
    if isinstance(outputs, str):
        return ERRORS.get(outputs, "no result"), 0
    count = sum(a.size for a in outputs)
    if case.name in json.loads(KNOWN.read_text()).get(case.family, {}):
        return "differ", count
    return "equal" if bounds.key_of(case.name) is None else "bounded", count


KINDS = ("equal", "bounded", "refused", "faults", "hangs", "differ", "no result")


def _row(name: str, about: str, found: list[tuple[str, int]]) -> str:
    kinds = Counter(kind for kind, _ in found)
    values = sum(count for _, count in found)
    cells = [str(kinds[kind] or "") for kind in KINDS]
    return f"| {name} | {about} | {len(found)} | {values:,} | {' | '.join(cells)} |"


def recorded_families() -> str:
    """Per family: programs, values, and how the simulator compares."""
    lines = [
        "| family | about | programs | values | equal bits | within a bound | refused by both | fault on both | never end on both | differ | no record |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    everything: list[tuple[str, int]] = []
    for name in MODULES:
        recorded = records.read(name)
        groups = Counter(case.group for case in family(name))
        found = [results(case, recorded) for case in family(name)]
        about = "; ".join(f"{group} {count}" for group, count in groups.items())
        lines.append(_row(f"`{name}`", about, found))
        everything += found
    lines.append(_row("**all**", "", everything))
    return "\n".join(lines)


def differences() -> str:
    """The cases in which the simulator is meant to differ, with the reason."""
    known = json.loads(KNOWN.read_text())
    lines = [f"* `{name}` {case}: {why}" for name in known for case, why in known[name].items()]
    return "\n".join(lines) or "None."


def _power(limit: float) -> str:
    exponent = log2(limit) if limit else 0.0
    rounded = f"{exponent:.3f}".rstrip("0").rstrip(".")
    return f"2^{rounded}" if limit else "0"


def _error(limit: tuple[str, float] | None) -> str:
    if limit is None:
        return "none stated"
    measure, value = limit
    return f"{value:g} ulp" if measure == "ulp" else f"{measure} {_power(value)}"


def _edge(value: float) -> str:
    turns = value / pi
    if 6 <= value < 1000 and turns == round(turns):
        return f"{turns:g}π"
    return f"{value:g}" if 2**-3 < value < 2**7 else _power(value)


def _range(bound: bounds.Bound) -> str:
    if (bound.low, bound.high) == (0.0, inf):
        return "all"
    low = f"{_edge(bound.low)} ≤ " if bound.low else ""
    return f"{low}\\|x\\|" + (f" < {_edge(bound.high)}" if bound.high < inf else "")


def approximations() -> str:
    """The bounds of the approximate functions."""
    lines = [
        "| function | operand | simulator to chip | PTX ISA, to the exact value |",
        "|---|---|---|---|",
    ]
    for key, ranges in bounds.BOUNDS.items():
        for bound in ranges:
            row = f"| `{key}` | {_range(bound)} | {_error(bound.chip)} | {_error(bound.isa)} |"
            lines.append(row)
    return "\n".join(lines)


def forms_of(body: str) -> set[str]:
    """Mnemonics with modifiers in PTX text."""
    found = set()
    for line in re.split(r"[;\n{}]", body):
        text = line.strip()
        while LABEL.match(text):
            text = LABEL.sub("", text, count=1).strip()
        match = STATEMENT.match(text)
        if match:
            found.add(match.group(1))
    return found


def confirmed_forms() -> dict[str, set[str]]:
    """Opcode -> forms in the programs that an H200 ran with the simulator's result."""
    found: dict[str, set[str]] = defaultdict(set)
    texts = [row["body"] for row in json.loads(PROBES.read_text())["rows"]]
    for name in MODULES:
        recorded = records.read(name)
        agreeing = [c for c in family(name) if results(c, recorded)[0] in ("equal", "bounded")]
        texts += [case.text("sm_90a") for case in agreeing]
    for text in texts:
        for form in forms_of(text):
            found[form.split(".")[0]].add(form)
    return found


def instruction_families() -> str:
    """Per family: opcodes that the records have, those known from documents, rules inferred."""
    confirmed = confirmed_forms()
    opcodes: dict[str, list[str]] = defaultdict(list)
    for opcode, function in lowerings().items():
        opcodes[source(function)].append(opcode)
    lines = [
        "| family | opcodes confirmed on an H200 | in forms | opcodes documented only | rules inferred |",
        "|---|---|---|---|---|",
    ]
    totals = [0, 0, 0, 0]
    for name, members in sorted(opcodes.items()):
        yes = sorted(o for o in members if o in confirmed)
        no = sorted(o for o in members if o not in confirmed)
        forms = sum(len(confirmed[o]) for o in yes)
        counts = (len(yes), forms, len(no), len(INFERRED.get(name, ())))
        totals = [t + n for t, n in zip(totals, counts, strict=True)]
        shown = [
            f"{len(part)}: {' '.join(f'`{o}`' for o in part)}" if part else "0"
            for part in (yes, no)
        ]
        lines.append(f"| `{name}` | {shown[0]} | {forms} | {shown[1]} | {counts[3]} |")
    lines.append(f"| **all** | {' | '.join(str(t) for t in totals)} |")
    return "\n".join(lines)


def inferred_rules() -> str:
    """The rules that rest on neither a record nor a document."""
    return "\n".join(
        f"* `{name}`: {rule}." for name, rules in INFERRED.items() for rule in rules
    )


SECTIONS: dict[str, Callable[[], str]] = {
    "recorded families": recorded_families,
    "differences": differences,
    "approximate functions": approximations,
    "instruction families": instruction_families,
    "inferred rules": inferred_rules,
}


def rewritten(page: str) -> str:
    """The page with every generated section brought up to date.

    Raises:
        ValueError: a section has no pair of markers.
    """
    for name, build in SECTIONS.items():
        start, end = f"<!-- generated: {name} -->", "<!-- end -->"
        if start not in page:
            raise ValueError(f"the page has no section {name!r}: {start} ... {end}")
        head, rest = page.split(start, 1)
        _, tail = rest.split(end, 1)
        page = f"{head}{start}\n{build()}\n{end}{tail}"
    return page


def main() -> None:
    """Rewrite the page given on the command line."""
    path = Path(sys.argv[1])
    path.write_text(rewritten(path.read_text()))


if __name__ == "__main__":
    main()

"""Writes `engine/contract/*.h`: the C side of what this package defines.

    python -m sm100sim.contract.header          writes the files
    python -m sm100sim.contract.header --check  ends with 1 when a file is not what it would write
"""

from __future__ import annotations

import ctypes as ct
import hashlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, IntFlag
from functools import cache
from pathlib import Path
from typing import Any

from ..options import MODES, Check
from ..report import EventKind
from . import clock, codes, matrix, records, textures
from .forms import FORM_BYTES, FORMS

FOLDER = Path(__file__).resolve().parents[1] / "engine" / "contract"
COLUMNS = 120

CONSTANTS = (
    "NONE32", "LANES", "MAX_CLUSTER", "MAX_WARPS", "SM_COUNT", "REGISTER_FILE", "REGISTER_UNIT",
    "WARPGROUP_WARPS", "SMEM_RESERVED", "SMEM_LENT", "SMEM_UNIT", "SMEM_MAX", "SLOT_GRAIN",
    "WINDOW_RANK_SHIFT", "WINDOW_SHARED", "WINDOW_PARAM", "WINDOW_LOCAL", "WINDOW_CODE",
    "CODE_GRAIN",
)  # fmt: skip

ENUMERATIONS: tuple[tuple[type[Enum], str], ...] = (
    (codes.Unit, "UNIT"), (codes.ClusterPlan, "CLUSTER"), (codes.Severity, "SEVERITY"),
    (EventKind, "EV"), (Check, "CHECK"),
    (codes.Space, "SPACE"), (codes.Scope, "SCOPE"), (codes.Order, "ORDER"),
    (codes.FenceKind, "FENCE"), (codes.FenceSpace, "FENCE_SPACE"), (codes.RedOp, "RED"),
    (codes.Element, "EL"), (textures.TexelType, "TEXEL"), (textures.Outside, "OUTSIDE"),
    (codes.CopyFlag, "COPY"), (codes.CpSource, "CP_SOURCE"),
    (codes.BarrierKind, "BAR"), (codes.ArriveFlag, "ARRIVE"), (codes.WaitFlag, "WAIT"),
    (codes.Transaction, "TX"), (codes.MmaFlag, "MMA"), (codes.WgmmaFlag, "WGMMA"),
    (matrix.SyncFlag, "SYNC_FLAG"),
    (codes.Numeric, "FLAG"), (codes.VideoFlag, "VIDEO_FLAG"),
)  # fmt: skip

WORDS: tuple[tuple[str, Sequence[str], str], ...] = (
    ("Mode", MODES, "MODE"), ("RegionKind", records.REGION_KINDS, "REGION"),
    ("SpecialKind", codes.SPECIALS, "SP"),
    ("SurfaceMode", textures.SURFACE_MODES, "SURFACE"),
    ("TextureFact", textures.TEXTURE_FACTS, "FACT"),
    ("MatrixShape", codes.MATRIX_SHAPES, "SHAPE"), ("MapField", codes.MAP_FIELDS, "FIELD"),
    ("MmaKind", codes.MMA_KINDS, "KIND"), ("LdShape", codes.LD_SHAPES, "LD"),
    ("WgmmaElement", codes.WGMMA_ELEMENTS, "WG_ELEMENT"),
    ("SyncElement", matrix.SYNC_ELEMENTS, "SYNC"),
    ("WgmmaResult", codes.WGMMA_RESULTS, "WG_RESULT"),
    ("CpShape", codes.CP_SHAPES, "CP"), ("Rounding", codes.ROUNDINGS, "ROUND"),
    ("Format", codes.FORMATS, "FMT"), ("CvtType", codes.CVT_TYPES, "TYPE"),
    ("HalfOp", codes.HALF_OPERATIONS, "HALF"), ("PrmtMode", codes.PRMT_MODES, "PRMT"),
    ("Comparison", codes.COMPARISONS, "CMP"), ("Compared", codes.COMPARED, "COMPARED"),
    ("Video", codes.VIDEO, "VIDEO"),
    ("Combination", codes.COMBINATIONS, "COMBINE"), ("FloatClass", codes.CLASSES, "CLASS"),
    ("ClockWord", codes.CLOCK_WORDS, "CLOCK"), ("Shuffle", codes.SHUFFLES, "SHFL"),
    ("Vote", codes.VOTES, "VOTE"), ("Reduction", codes.REDUCTIONS, "REDUX"),
)  # fmt: skip

CLOCK_CONSTANTS = (
    "WGMMA_RING", "QUEUE_RING", "BULK_GROUPS", "PIECES", "FINISHED", "NO_MEMORY", "STUCK",
    "NO_STEP",
)  # fmt: skip

CLOCK_WORDS: tuple[tuple[str, Sequence[str], str], ...] = (
    ("ClockUnit", clock.UNITS, "CLOCK_UNIT"), ("ClockShared", clock.SHARED_UNITS, "CLOCK_SHARED"),
    ("ClockAction", clock.ACTIONS, "CLOCK_ACT"), ("ClockL1", clock.L1_USES, "CLOCK_L1"),
    ("ClockReason", clock.REASONS, "CLOCK_WHY"),
)

SCALARS: dict[type | None, str] = {
    None: "void", ct.c_bool: "bool", ct.c_char: "char", ct.c_char_p: "const char *",
    records.U8: "u8", records.U16: "u16", records.U32: "u32", records.I32: "i32", ct.c_int16: "i16",
    records.U64: "u64", records.I64: "i64", clock.F64: "double",
    records.Handle: "Machine *", records.Shared: "Share *",
}  # fmt: skip


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")


def _comment(text: str | None) -> str:
    """A docstring as a C comment."""
    lines = [line.strip() for line in (text or "").strip().splitlines()]
    return "/* " + "\n * ".join(lines).replace(" * \n", " *\n") + " */"


def _type(kind: type | None, *, const: bool) -> str:
    """C type, with a space at its end unless it ends in a star."""
    if kind in SCALARS:
        text = SCALARS[kind]
    elif kind is not None and issubclass(kind, ct.Structure):
        text = kind.__name__
    else:
        target = kind._type_  # type: ignore[union-attr]  # a POINTER(...)
        text = f"{'const ' if const else ''}{SCALARS.get(target, target.__name__)} *"
    return text if text.endswith("*") else text + " "


def _listed(head: str, items: Sequence[str], tail: str, separator: str = ",") -> str:
    """`head item, item, ... tail` in lines of at most COLUMNS, broken between items only."""
    words = [item.replace(" ", "\0") for item in items]
    text = f"{head}{f'{separator} '.join(words)}{tail}"
    return textwrap.fill(
        text.replace(" &&", "\0&&"), COLUMNS, subsequent_indent="    ", break_on_hyphens=False
    ).replace("\0", " ")


def _members(kind: type[ct.Structure]) -> Iterator[str]:
    """The declarations of a structure; neighbours of one type share a line."""
    groups: list[tuple[str, list[str]]] = []
    for field in kind._fields_:
        name: str = field[0]
        of: Any = field[1]
        if issubclass(of, ct.Array):
            name, of = f"{name}[{of._length_}]", of._type_
        declared = _type(of, const=not name.startswith("out"))
        if groups and groups[-1][0] == declared and not declared.endswith("*"):
            groups[-1][1].append(name)
        else:
            groups.append((declared, [name]))
    for declared, names in groups:
        yield _listed(f"  {declared}", names, ";")


def _enumeration(kind: type[Enum], prefix: str) -> Iterator[str]:
    yield _comment(kind.__doc__)
    members = [
        f"{prefix}_{_identifier(name)} = {int(member.value)}"
        for name, member in kind.__members__.items()
    ]
    if issubclass(kind, IntFlag):
        yield _listed("enum { ", members, " };") + "\n"
    else:
        yield _listed("typedef enum { ", members, f" }} {kind.__name__};") + "\n"


def _words(name: str, words: Sequence[str], prefix: str) -> Iterator[str]:
    members = [f"{prefix}_{_identifier(word)}" for word in words] + [f"{prefix}_COUNT"]
    yield _listed("typedef enum { ", members, f" }} {name};") + "\n"


def _structure(kind: type[ct.Structure], name: str) -> Iterator[str]:
    yield _comment(kind.__doc__)
    yield "typedef struct {"
    yield from _members(kind)
    yield f"}} {name};"
    holds = [f"sizeof({name}) == {ct.sizeof(kind)}"]
    for field in kind._fields_:
        holds.append(f"offsetof({name}, {field[0]}) == {getattr(kind, field[0]).offset}")
    yield _listed("_Static_assert(", holds, f', "{name}");', " &&") + "\n"


def member_of(form: type) -> str:
    """Name of a form in the union `Form`, e.g. "map_access" for MapAccess."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", form.__name__).lower()


def _forms() -> Iterator[str]:
    for form in FORMS:
        yield from _structure(form, f"{form.__name__}Form")
    yield "/* The modifiers of an instruction, as the form of its family. */"
    yield "typedef union {"
    yield f"  u8 bytes[{FORM_BYTES}];"
    for form in FORMS:
        yield f"  {form.__name__}Form {member_of(form)};"
    yield "} Form;"
    yield f'_Static_assert(sizeof(Form) == {FORM_BYTES}, "Form");\n'


def _functions(functions: Mapping[str, records.Signature]) -> Iterator[str]:
    for name, (result, arguments) in functions.items():
        given = [
            f"{_type(kind, const=not argument.startswith('out'))}{argument}"
            for argument, kind in arguments
        ]
        yield _listed(f"{_type(result, const=True)}{name}(", given or ["void"], ");")
    yield ""


def _constants() -> Iterator[str]:
    for name in CONSTANTS:
        value = getattr(codes, name)
        yield f"#define {name} {value if value < 1 << 24 else hex(value)}u"
    for name in ("CODE_BYTES", "TEXT_BYTES", "LOADED", "OUT_OF_MEMORY", "HEAP_BLOCKS"):
        yield f"#define {name} ({getattr(records, name)})"
    yield ""


def _codes() -> Iterator[str]:
    yield from _constants()
    for kind, prefix in ENUMERATIONS:
        yield from _enumeration(kind, prefix)
    for title, words, prefix in WORDS:
        yield from _words(title, words, prefix)


def _records() -> Iterator[str]:
    for structure in records.STRUCTURES:
        yield from _structure(structure, structure.__name__)
    yield f"#define TEXTURE_MARK {textures.TEXTURE_MARK}u\n"
    yield from _structure(textures.TextureRecord, "TextureRecord")
    yield from _functions(records.FUNCTIONS)


def _clock() -> Iterator[str]:
    for name in CLOCK_CONSTANTS:
        yield f"#define CLOCK_{name} {getattr(clock, name)}u"
    yield ""
    for title, words, prefix in CLOCK_WORDS:
        yield from _words(title, words, prefix)
    for structure in clock.STRUCTURES:
        yield from _structure(structure, structure.__name__)
    yield from _functions(clock.FUNCTIONS)


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "codes": _codes,
    "forms": _forms,
    "records": _records,
    "clock": _clock,
}


@cache
def digest() -> str:
    """What the engine must answer to `sm100_contract`; of no comment, as `python -OO` has none."""
    text = "\n".join(line for part in PARTS.values() for line in part())
    return hashlib.sha256(re.sub(r"/\*.*?\*/", "", text, flags=re.S).encode()).hexdigest()[:16]


def headers() -> dict[Path, str]:
    """The text of every generated file."""
    found = {}
    for name, part in PARTS.items():
        guard = f"SM100SIM_CONTRACT_{name.upper()}_H"
        lines = (
            "/* Written by `python -m sm100sim.contract.header`; do not edit. */",
            "/* clang-format off */",
            f"#ifndef {guard}",
            f"#define {guard}",
            '#include "machine/types.h"',
            "",
            *([f'#define CONTRACT_DIGEST "{digest()}"'] if name == "records" else []),
            *part(),
            "#endif",
        )
        found[FOLDER / f"{name}.h"] = "\n".join(lines) + "\n"
    return found


def main() -> int:
    """Write or check the headers; returns the exit status."""
    if "--check" in sys.argv[1:]:
        return int(any(path.read_text() != text for path, text in headers().items()))
    for path, text in headers().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

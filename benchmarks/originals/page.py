"""The page that sets Modular's kernels beside this package's, from recorded comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.results_page import paragraph, table

HEADER: Final = Path(__file__).with_name("header.md")
"""What the figures are; {version}: of the assembler; {models}: of the predictions."""
FINDINGS: Final = Path(__file__).with_name("findings.md")
"""What the findings are, read in the PTX: the end of the page."""
RESULTS: Final = Path(__file__).with_name("results.json")
"""The recorded comparisons."""
Row = dict[str, Any]
Launch = dict[str, Any]
KIB: Final = 1024


def amount(count: int) -> str:
    """Bytes for people: "16 KiB"."""
    return f"{count // KIB} KiB" if count % KIB == 0 else f"{count:,} B"


def spans(pairs: Iterable[Sequence[int]]) -> str:
    """Neighbours of one size together, e.g. "2 x 16 KiB from 1,024"; pairs are (start, size)."""
    found: list[list[int]] = []
    for start, size in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        if found and found[-1][1] == size and found[-1][0] + size * found[-1][2] == start:
            found[-1][2] += 1
        else:
            found.append([start, size, 1])
    return ", ".join(f"{n} x {amount(size)} from {start:,}" for start, size, n in sorted(found))


def _barriers(launch: Launch) -> str:
    return f"{len(launch['barriers'])}: {spans((at, 8) for at in launch['barriers'])}"


def _columns(pairs: Iterable[Sequence[int]]) -> str:
    starts: dict[int, list[str]] = {}
    for start, size in pairs:
        starts.setdefault(size, []).append(str(start))
    return "; ".join(f"N {size} at {', '.join(at)}" for size, at in starts.items())


def _code(key: str) -> Callable[[Launch], str]:
    def cell(launch: Launch) -> str:
        code = launch["code"]
        return "-" if code is None else f"{code[key]:,}" if key != "budgets" else code[key]

    return cell


def _cycles(launch: Launch) -> str:
    if launch["cycles"] is None:
        return "-"
    return "{typical:,} ({low:,}–{high:,})".format_map(launch["cycles"])


def _findings(launch: Launch) -> str:
    return ", ".join(f"`{code}` {n}" for code, n in launch["findings"].items()) or "clean"


LINES: Final[dict[str, Callable[[Launch], str]]] = {
    "kernel": lambda launch: f"`{launch['kernel']}`",
    "grid; cluster; warps": lambda launch: (
        f"{_extents(launch['grid'])}; {_extents(launch['cluster'])}; {launch['warps']}"
    ),
    "shared memory": lambda launch: f"{launch['smem_bytes']:,} bytes",
    "boxes loaded": lambda launch: spans(launch["copies"]) or "none",
    "boxes stored": lambda launch: spans(launch["stores"]) or "none",
    "mbarriers": _barriers,
    "columns": lambda launch: _columns(launch["columns"]),
    "registers; budgets": lambda launch: (
        f"{_code('registers')(launch)}; "
        + " ".join(dict.fromkeys(_code("budgets")(launch).split()))
    ),
    "PTX instructions": lambda launch: f"{launch['ptx']:,}",
    "machine instructions": _code("instructions"),
    "spills": _code("spills"),
    "stall sum": _code("stalls"),
    "T1": _code("t1"),
    "warp instructions": lambda launch: f"{launch['instructions']:,}",
    "MMAs": lambda launch: f"{launch['mmas']:,}",
    "bytes loaded; stored": lambda launch: f"{launch['loaded']:,}; {launch['stored']:,}",
    "predicted cycles": _cycles,
    "checkers": _findings,
}
"""Figures of a launch, in the page's order."""


def _extents(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


def _sides(row: Row) -> dict[str, Any]:
    own = {"this package": row["ours"]} if row["ours"] else {}
    return own | {f"max-core {release}": side for release, side in row["theirs"].items()}


def _equal(side: dict[str, Any]) -> str:
    return "-" if side["equal"] is None else f"{side['equal']:.4%}"


def section(row: Row) -> Iterator[str]:
    """One comparison: figures down, sides across."""
    sides = _sides(row)
    yield f"## {row['name']}\n"
    lines = [
        ["largest error", *(f"{side['max_error']:.2e}" for side in sides.values())],
        ["rms error", *(f"{side['rms_error']:.2e}" for side in sides.values())],
        ["equal bits", *(_equal(side) for side in sides.values())],
    ]
    for name, figure in LINES.items():
        cells = ["; then ".join(map(figure, side["launches"])) for side in sides.values()]
        lines.append([name, *cells])
    yield from table(["", *sides], lines)


def summary(rows: Iterable[Row]) -> Iterator[str]:
    """All comparisons, a line for each of Modular's kernels."""
    yield from table(
        ["comparison", "release", "error", "ours", "equal bits", "checkers", "ours"],
        (
            (row["name"], release, f"{side['max_error']:.1e}", _own(row, _error), _equal(side),
             _codes(side), _own(row, _codes))
            for row in rows
            for release, side in row["theirs"].items()
        ),
    )  # fmt: skip


def _own(row: Row, figure: Callable[[dict[str, Any]], str]) -> str:
    return figure(row["ours"]) if row["ours"] else "no such kernel"


def _error(side: dict[str, Any]) -> str:
    return f"{side['max_error']:.1e}"


def _codes(side: dict[str, Any]) -> str:
    codes = sorted({code for launch in side["launches"] for code in launch["findings"]})
    return ", ".join(f"`{code}`" for code in codes) or "clean"


def _models(rows: Iterable[Row]) -> Iterator[str]:
    for side in (side for row in rows for side in _sides(row).values()):
        yield from (one["cycles"]["model"] for one in side["launches"] if one["cycles"])


def render(rows: Sequence[Row], version: str) -> str:
    """The page.

    Args:
        rows: recorded comparisons (`compare.Row` as plain data), in the page's order.
        version: of the assembler.
    """
    models = ", ".join(sorted(set(_models(rows)))) or "(none)"
    parts = [HEADER.read_text().format(version=version or "(none)", models=models)]
    runs = sum(len(row["theirs"]) for row in rows)
    parts.append(paragraph(f"{len(rows)} comparisons, {runs} runs of Modular's kernels."))
    parts += [*summary(rows), *(line for row in rows for line in section(row))]
    parts.append(FINDINGS.read_text())
    return "\n".join(parts)

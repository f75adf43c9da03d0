"""Write reports in one of several formats, named by a file's suffix."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from ..calls.explore import Exploration
from ..report import Report
from .document import Results, document
from .junit import junit
from .sarif import sarif


def text(results: Results) -> str:
    """The summaries, as people read them."""
    if results.exploration is not None:
        return results.exploration.summary() + "\n"
    return "".join(f"{report.summary()}\n" for report in results.reports)


FORMATS: dict[str, Callable[[Results], str]] = {
    "text": text,
    "json": lambda results: json.dumps(document(results), indent=1) + "\n",
    "sarif": lambda results: json.dumps(sarif(results), indent=1) + "\n",
    "junit": junit,
}
SUFFIXES = {".txt": "text", ".json": "json", ".sarif": "sarif", ".xml": "junit"}


def format_of(path: str | Path) -> str:
    """The format that a file's suffix names.

    Raises:
        ValueError: it names none.
    """
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        known = ", ".join(f"{end} ({name})" for end, name in SUFFIXES.items())
        raise ValueError(f"path: {str(path)!r} names no format; suffixes are {known}")
    return SUFFIXES[suffix]


def rendered(results: Results, format: str) -> str:
    """The results as text in a format.

    Raises:
        ValueError: there is no such format.
    """
    if format not in FORMATS:
        raise ValueError(f"format: {format!r} is not one of {', '.join(FORMATS)}")
    return FORMATS[format](results)


def save(
    what: Report | Exploration | Iterable[Report],
    path: str | Path,
    format: str | None = None,
    program: str = "",
) -> Path:
    """Write reports to a file.

    Args:
        what: a report, several reports, or what `explore` returned.
        path: the file.
        format: "text", "json", "sarif" or "junit"; if not given, it follows from the suffix:
            `.txt`, `.json`, `.sarif` or `.xml`.
        program: the file that was run; named where a source line is unknown.

    Raises:
        ValueError: no such format, or the suffix names none.
        OSError: the file cannot be written.
    """
    format = format_of(path) if format is None else format
    made = rendered(replace(results_of(what), program=program), format)
    Path(path).write_text(made)
    return Path(path)


def results_of(what: Report | Exploration | Iterable[Report]) -> Results:
    """One or more reports as what is written."""
    if isinstance(what, Exploration):
        return Results(what.reports, what)
    return Results((what,) if isinstance(what, Report) else tuple(what))

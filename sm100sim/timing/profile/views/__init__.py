"""The timeline of a profile as a file: Perfetto's JSON, a page, or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..kernel_profile import KernelProfile
from .html import page
from .perfetto import perfetto_text
from .picture import PICTURES, draw
from .tracks import Label, path_track, tracks_of

SUFFIXES: Final = (".json", ".html", *PICTURES)


def write_timeline(
    found: KernelProfile,
    path: str | Path,
    *,
    label: Label | None = None,
    window: tuple[float, float] | None = None,
    title: str = "",
) -> Path:
    """Write the timeline of a profile.

    Args:
        found: the profile.
        path: a file; ".json" for ui.perfetto.dev, ".html" for any browser, or a picture.
        label: names the work of units.
        window: first and last cycle of a picture; all when not given.
        title: of a picture; the kernel's name and its cycles when not given.

    Raises:
        ValueError: the suffix is none of `SUFFIXES`.
        ModuleNotFoundError: a picture needs matplotlib; names the extra that installs it.
    """
    out = Path(path)
    if out.suffix not in SUFFIXES:
        raise ValueError(f"path: {out.name} has none of the suffixes {', '.join(SUFFIXES)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    tracks = [path_track(found.path, found.roles), *tracks_of(found.detail, found.roles, label)]
    if out.suffix == ".json":
        out.write_text(perfetto_text(found, tracks))
    elif out.suffix == ".html":
        out.write_text(page(found, tracks))
    else:
        draw(found, tracks, out, window=window, title=title)
    return out

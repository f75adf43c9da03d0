"""Notebooks as pages of the site, and all pictures of pages and notebooks on one page."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testing.site.markdown import ROOT, prose

PICTURE: Final = re.compile(r"!\[([^\]]+)\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
GALLERY: Final = "# Pictures\n\nEvery picture of the pages and notebooks, with where it comes from."


@dataclass(frozen=True)
class Notebook:
    """A notebook as Markdown.

    Attributes:
        text: the page; pictures are files beside it.
        pictures: file name -> (the heading above it, the PNG).
    """

    text: str
    pictures: dict[str, tuple[str, bytes]]


def read(path: Path, links: Callable[[str], str]) -> Notebook:
    """A notebook with its stored outputs; ``links`` gives its text the links of the site."""
    parts: list[str] = []
    pictures: dict[str, tuple[str, bytes]] = {}
    heading = path.stem
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = [heading, *HEADING.findall(source)][-1]
            parts.append(links(source))
            continue
        parts.append(f"```python\n{source}\n```")
        for kind, text in _outputs(cell):
            if kind == "image/png":
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = (heading, base64.b64decode(text))
                parts.append(f"![{heading}]({name})")
            else:
                parts.append(f"```text\n{text.rstrip()}\n```")
    return Notebook("\n\n".join(parts) + "\n", pictures)


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a cell printed or drew, each with its kind; a picture's words are left out."""
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", "")})
        kind = "image/png" if "image/png" in data else "text/plain"
        yield kind, "".join(data[kind])


def gallery(pages: dict[str, Path], notebooks: dict[str, Notebook]) -> str:
    """The page of all pictures.

    Args:
        pages: place on the site -> the page's file.
        notebooks: place on the site -> the notebook.
    """
    parts = [GALLERY]
    for place, page in pages.items():
        for words, file in PICTURE.findall(prose(page)):
            picture = (page.parent / file).relative_to(ROOT / "docs")
            parts.append(f"![{words}]({picture})\n\n*{words}* ([{page.name}]({place}))")
    for place, notebook in notebooks.items():
        folder = place.rpartition("/")[0]
        for name, (heading, _) in notebook.pictures.items():
            label = f"[{place.rpartition('/')[2].removesuffix('.md')}]({place})"
            parts.append(f"![{heading}]({folder}/{name})\n\n*{heading}* ({label})")
    return "\n\n".join(parts) + "\n"

"""Notebooks and pictures become pages of the site."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from testing.site import hooks, notebooks

PNG = b"\x89PNG..."
CELLS = [
    {"cell_type": "markdown", "source": ["# Title\n", "[a](../README.md)"]},
    {
        "cell_type": "code",
        "source": ["draw()"],
        "outputs": [
            {"output_type": "stream", "text": ["1\n", "2\n"]},
            {"data": {"image/png": base64.b64encode(PNG).decode(), "text/plain": "<Figure>"}},
        ],
    },
]


def test_a_notebook_has_its_outputs(tmp_path: Path) -> None:
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps({"cells": CELLS}))
    book = notebooks.read(path, lambda text: text.replace("../", ""))
    assert book.pictures == {"book-1.png": ("Title", PNG)}
    code = "```python\ndraw()\n```\n\n```text\n1\n2\n```"
    assert book.text == f"# Title\n[a](README.md)\n\n{code}\n\n![Title](book-1.png)\n"


def test_every_picture_is_in_the_gallery() -> None:
    shown = hooks.shown_files()
    page = shown[hooks.GALLERY]
    assert isinstance(page, str)
    pictures = [name for name in shown if name.endswith(".png")]
    assert len(pictures) > 5
    for picture in [*pictures, "images/timeline.png", "images/race.png", "images/model.png"]:
        assert f"]({picture})" in page

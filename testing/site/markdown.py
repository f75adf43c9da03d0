"""Pages as text: their prose, links, headings and blocks of code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LINK: Final = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
BLOCK: Final = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block of code: its language, the file that it is, its text."""


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return CODE_BLOCK.sub("", page.read_text())


def is_external(link: str) -> bool:
    """Whether a link leaves the repository."""
    return re.match(r"[a-z]+:", link) is not None


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """``text`` with ``change`` applied between its blocks of code."""
    parts, end = [], 0
    for block in CODE_BLOCK.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")

"""Docstrings as the site shows them: mkdocstrings loads this file as an extension of griffe."""

from __future__ import annotations

import re
from typing import Any, Final

from griffe import Extension, Object

ROLE: Final = re.compile(r":\w+:`~?([^`]+)`")


def as_markdown(docstring: str) -> str:
    """A docstring without the marks of Sphinx: roles, and the colons before a block of code."""
    return re.sub(r"::$", ":", ROLE.sub(r"`\1`", docstring), flags=re.MULTILINE)


class PlainDocstrings(Extension):
    """Applies :func:`as_markdown` to every docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute that was read."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

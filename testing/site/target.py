"""The file that a program of this repository writes, named on its command line."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path


def options(doc: str | None) -> ArgumentParser:
    """Return a parser of a program's arguments, whose first one is the file; ``doc`` is its help.

    A word that begins with a dash is no file: ``--help`` prints, and writes nothing.
    """
    parser = ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="is written")
    return parser


def target(doc: str | None, arguments: Sequence[str] | None = None) -> Path:
    """Return the file, the only argument of a program."""
    file: Path = options(doc).parse_args(arguments).file
    return file

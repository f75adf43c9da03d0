"""The coverage page is what the code says."""

from __future__ import annotations

from pathlib import Path

from sm100sim.coverage import MISSING, table
from sm100sim.isa.lowering import registered

PAGE = Path(__file__).resolve().parents[2] / "docs" / "instructions.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == table(), "run: python -m sm100sim.coverage docs/instructions.md"


def test_every_family_documents_its_forms() -> None:
    silent = [
        opcode for opcode, function in registered().items() if not (function.__doc__ or "").strip()
    ]
    assert silent == []


def test_what_is_missing_has_no_family() -> None:
    assert not {opcode for row in MISSING for opcode in row.split()} & set(registered())

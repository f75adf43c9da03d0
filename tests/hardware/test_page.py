"""docs/hardware.md is what the records and the simulator say."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.hardware import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hardware.md"


def test_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert text == page.rewritten(text), "run: python -m testing.hardware.page docs/hardware.md"


def test_every_section_needs_its_markers() -> None:
    with pytest.raises(ValueError, match="differences"):
        page.rewritten(PAGE.read_text().replace("<!-- generated: differences -->", ""))


def test_inferred_rules_belong_to_a_family() -> None:
    names = page.instruction_families()
    assert all(f"`{name}`" in names for name in page.INFERRED)


def test_forms_are_read_from_ptx() -> None:
    body = (
        "L: W: @!%q1 mbarrier.try_wait.parity.shared.b64 %q0, [%r1], 0; @%q1 bra L;\n"
        "fence.proxy.async::generic.acquire.x;"
    )
    assert page.forms_of(body) == {
        "mbarrier.try_wait.parity.shared.b64", "bra", "fence.proxy.async::generic.acquire.x",
    }  # fmt: skip

"""The page on calling says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fa4_cute
from fa4_cute.host.choose import support
from fa4_cute.host.compile import settings

FUNCTIONS = [n for n in fa4_cute.__all__ if n[0].islower() and callable(getattr(fa4_cute, n))]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "calling.md").read_text()


def test_kernel_table_is_the_table_of_the_code() -> None:
    found = re.search(r"<!-- kernels: .*? -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert found
    rows = list(support.support_table())
    expected = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()
    ]
    assert cells == expected


def test_every_variable_is_documented() -> None:
    own = [name for name in settings._NAMES if name.startswith("FA4_CUTE_")]
    assert own
    for name in own:
        assert f"| `{name}` |" in PAGE
        assert name in (settings.__doc__ or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_shown(name: str) -> None:
    assert f"fa4_cute.{name}(" in PAGE


def test_features_page_names_every_constructor() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "features.md").read_text()
    constructors = (
        "full",
        "causal",
        "sliding_window",
        "chunked",
        "chunked_causal",
        "padding",
        "bias",
    )
    for name in constructors:
        assert callable(getattr(fa4_cute.masks, name))
        assert f"| `{name}(" in page

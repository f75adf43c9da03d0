"""The API reference has every public name."""

from __future__ import annotations

import importlib
import re
from types import ModuleType

import pytest

import fa4_cute
import sm100sim
import sm100sim.torch
import sm100sim.triton
from testing.site.markdown import ROOT

PAGES = {
    name: (ROOT / "docs" / "reference" / f"{name}.md").read_text()
    for name in ("sm100sim", "fa4_cute")
}
SHOWN = {name: re.findall(r"^::: (\S+)$", page, re.MULTILINE) for name, page in PAGES.items()}


def resolve(name: str) -> object:
    """The object of a dotted name, by imports as far as they go."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("package", [sm100sim, sm100sim.triton, sm100sim.torch, fa4_cute])
def test_every_public_name_is_there(package: ModuleType) -> None:
    name = package.__name__
    page = name.partition(".")[0]
    missing = {f"{name}.{public}" for public in package.__all__} - set(SHOWN[page])
    assert missing <= {f"{name}.__version__"}
    assert f"`{page}.__version__`" in PAGES[page]


@pytest.mark.parametrize("page", SHOWN)
def test_what_is_there_exists_once(page: str) -> None:
    assert len(set(SHOWN[page])) == len(SHOWN[page])
    for name in SHOWN[page]:
        assert resolve(name) is not None

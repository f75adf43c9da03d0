"""The generated headers are those of the definitions, and an engine built from others is
refused."""

from __future__ import annotations

import ctypes as ct
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sm100sim.contract import codes, forms, header, records
from sm100sim.engine import binding

ENGINE = Path(binding.__file__).parent


def test_headers_are_up_to_date() -> None:
    for path, text in header.headers().items():
        assert path.read_text() == text, "run: python -m sm100sim.contract.header"


def test_an_engine_built_from_other_headers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "digest", lambda: "something else")
    with pytest.raises(binding.ContractError, match="something else"):
        binding.load_engine.__wrapped__()


def test_another_definition_gives_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = header.digest()
    monkeypatch.setattr(codes, "SMEM_RESERVED", 2048)
    assert header.digest.__wrapped__() != before


def test_a_python_without_docstrings_has_the_same_digest() -> None:
    code = "from sm100sim.contract import header; print(header.digest())"
    line = [sys.executable, "-OO", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == header.digest()


def test_every_structure_asserts_its_size_and_offsets() -> None:
    texts = "".join(header.headers().values())
    kinds = [(f"{form.__name__}Form", form) for form in forms.FORMS]
    for name, kind in kinds + [(kind.__name__, kind) for kind in records.STRUCTURES]:
        (holds,) = re.findall(rf'_Static_assert\((sizeof\({name}\)[^;]*),\s+"{name}"\);', texts)
        assert f"sizeof({name}) == {ct.sizeof(kind)}" in holds
        assert holds.count("offsetof") == len(kind._fields_)


def test_codes_are_written_once() -> None:
    """No C source spells the value of an enumerator that the contract defines."""
    text = header.headers()[header.FOLDER / "codes.h"]
    generated = set(re.findall(r"\b([A-Z][A-Z0-9_]+)\b(?: = |,| \})", text))
    assert {"UNIT_ALU", "LD_32X32B", "CHECK_RACES"} <= generated
    for path in ENGINE.rglob("*.[ch]"):
        if path.parent == header.FOLDER:
            continue
        for body in re.findall(r"enum \{([^}]*)\}", path.read_text()):
            again = {name.split("=")[0].strip() for name in body.split(",")} & generated
            assert not again, f"{path.name}: {sorted(again)}"

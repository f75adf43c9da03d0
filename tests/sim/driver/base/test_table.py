"""Handlers get the parts of the words that their annotations say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sm100sim.driver import api, runtime
from sm100sim.driver.base.table import I32, TABLE, U8, U32, Table

C = Path(api.__file__).parent.parent / "c"


def test_parts_of_words() -> None:
    table, seen = Table(), []

    @table.register("narrow", "narrow_v2")
    def narrow(session: str, a: int, b: I32, c: U32, d: U8) -> None:
        seen.append((session, a, b, c, d))

    @table.register("many")
    def many(_session: str, *words: int) -> int:
        return len(words)

    word = 2**64 - 2
    found = table.find("narrow_v2_ptsz")
    assert found is not None
    assert found.call("s", [word] * 16) == 0
    assert seen == [("s", word, -2, 2**32 - 2, 254)]
    assert table.entries["many"].call("s", range(16)) == 16
    with pytest.raises(ValueError, match="two handlers"):
        table.register("many")(many)


def test_every_handler_has_an_entry_point() -> None:
    """A handler of a name that no library exports would never be called."""
    assert runtime is not api  # they are imported for what they register
    exported = {
        name
        for header in C.glob("*_names.h")
        for name in re.findall(r"ENTRY\((\w+)\)", header.read_text())
    }
    assert not sorted(set(TABLE.entries) - exported)
    assert len(TABLE.entries) > 350

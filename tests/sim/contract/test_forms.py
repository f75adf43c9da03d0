"""Forms: what does not fit is an error, and the names in C are those of Python."""

from __future__ import annotations

import ctypes as ct

import pytest

from sm100sim.contract.forms import FORM_BYTES, FORMS, Memory, Mma
from sm100sim.contract.header import member_of


def test_fields_are_kept() -> None:
    form = Mma(kind=3, a_offset=-16)
    assert (form.kind, form.a_offset, form.flags) == (3, -16, 0)


@pytest.mark.parametrize("value", [256, -1])
def test_a_value_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=rf"Memory\.bytes: {value} does not fit"):
        Memory(bytes=value)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Memory: no field 'width'"):
        Memory(width=4)


def test_every_form_has_room_in_an_instruction() -> None:
    assert all(ct.sizeof(form) <= FORM_BYTES for form in FORMS)


def test_members_of_the_union_have_different_names() -> None:
    names = [member_of(form) for form in FORMS]
    assert len(set(names)) == len(names)
    assert "map_access" in names

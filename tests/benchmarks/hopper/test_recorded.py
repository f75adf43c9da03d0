from __future__ import annotations

import struct
from pathlib import Path

import pytest

from benchmarks.hopper.times.recorded import Place, Recorded, load, places_of, save

BEFORE = {"q": 0x7000_0000, "out": 0x7100_0000}
AFTER = {"q": 0x7000_1000, "out": 0x7100_3000}


def params(at: dict[str, int], padding: int = 0) -> tuple[bytes, ...]:
    """A number, a map of out that begins 2^42 in front of it, and a structure with q inside."""
    far = (at["out"] - 2**42) % 2**64
    inside = struct.pack("<QII", at["q"] + 64, 5, padding)
    return struct.pack("<f", 0.5), struct.pack("<QQ", far, 7), inside


def test_words_that_move_with_a_tensor_are_found() -> None:
    places = places_of((params(BEFORE), BEFORE), (params(AFTER), AFTER))
    assert places == [Place(1, 0, "out", 2**64 - 2**42), Place(2, 0, "q", 64)]


def test_anything_may_stand_behind_a_short_number() -> None:
    sides = (params(BEFORE, 1), BEFORE), (params(AFTER, 2), AFTER)
    assert len(places_of(*sides)) == 2


def test_what_moves_with_no_tensor_is_refused() -> None:
    other = [*params(AFTER)]
    other[1] = struct.pack("<QQ", 1234, 7)
    with pytest.raises(ValueError, match="parameter 1 at byte 0 moves with no tensor"):
        places_of((params(BEFORE), BEFORE), (tuple(other), AFTER))


@pytest.mark.parametrize("after", [BEFORE, {"q": 0x7000_1000, "out": 0x7100_1000}])
def test_tensors_have_to_move_apart(after: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a distance of its own"):
        places_of((params(BEFORE), BEFORE), (params(after), after))


def test_a_launch_comes_back_from_its_folder_and_moves(tmp_path: Path) -> None:
    places = tuple(places_of((params(BEFORE), BEFORE), (params(AFTER), AFTER)))
    launch = Recorded("k", "a.cubin", (3, 2, 1), (128, 1, 1), (2, 1, 1), 99, params(BEFORE), places)
    save(tmp_path / "new", {"one": launch}, {"a.cubin": b"code"})
    found = load(tmp_path / "new")
    assert found == {"one": launch}
    assert (tmp_path / "new" / "a.cubin").read_bytes() == b"code"
    elsewhere = {"q": 0x1234_5000, "out": 0x200_0000}
    assert found["one"].patched(elsewhere) == params(elsewhere)
    with pytest.raises(KeyError):
        found["one"].patched({"q": 1})


def test_a_folder_without_launches_has_none(tmp_path: Path) -> None:
    assert load(tmp_path) == {}

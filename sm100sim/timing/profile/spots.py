"""Hot spots: instructions, lines of PTX and of the program by the time that warps spend there.

The time of an instruction is that in which warps stood before it, and its own issues. What waits
for a result counts where it waits, not where the result is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...contract import clock
from ...ptx.places import SourcePlace
from .detail import STANDING, Detail
from .path import Piece

NO_LINE: Final = "code of the compiler's own"
UNNAMED: Final = "code to which the front end gave no line; it names the function's decorator"
_INSTALLED: Final = "/site-packages/"


@dataclass(frozen=True)
class Spot:
    """A place in the code and what warps spent there.

    Attributes:
        place: "file.py:12: text", "PTX line 40: text" or "0x1230 MUFU.EX2 R0, R1".
        line: its number: of the source or PTX line, or the instruction's index; 0: none.
        executed: warp instructions. cycles: of all warps together.
        waits: reason -> cycles; they add up to `cycles`.
    """

    place: str
    line: int
    executed: int
    cycles: float
    waits: Mapping[str, float]

    @property
    def reason(self) -> str:
        """What most of its time went to, but for issuing."""
        others = {why: spent for why, spent in self.waits.items() if why != "issued"}
        return max(others, key=lambda why: others[why]) if others else "issued"


Key = tuple[str, int]


def by_instruction(detail: Detail, most: int) -> tuple[Spot, ...]:
    """Return the instructions with the most time."""

    def key(index: int) -> Key:
        found = detail.instructions[index]
        return f"{found.address:#06x} {found}", index

    return _spots(detail, key, most)


def by_ptx_line(detail: Detail, most: int) -> tuple[Spot, ...]:
    """Return the lines of PTX with the most time."""

    def key(index: int) -> Key:
        line = detail.ptx_line(index)
        return (NO_LINE, 0) if line is None else (detail.text(index), line)

    return _spots(detail, key, most)


def by_source_line(detail: Detail, most: int) -> tuple[Spot, ...]:
    """Return the lines of the program with the most time; none where the PTX does not know them."""
    if not detail.places:
        return ()

    def key(index: int) -> Key:
        line = detail.ptx_line(index)
        place = None if line is None else detail.places.at(line)
        return (NO_LINE, 0) if place is None else source_key(place)

    return _spots(detail, key, most)


def source_key(place: SourcePlace) -> Key:
    """Return what a place counts for: the program's own line among those of its inlining.

    Lines of installed packages are a library's: the nearest call around them that is none is the
    program's, if the PTX names it. A decorator is no code: a front end names it where it has no
    line of its own for an instruction.
    """
    own: SourcePlace | None = place
    while own is not None and _INSTALLED in own.file:
        own = own.inlined_at
    shown = own or place
    if shown.text.startswith("@"):
        return f"{UNNAMED}: {shown}", 0
    if shown is place:
        return str(place), place.line
    by = f"{place.file.rpartition('/')[2]}:{place.line}"
    return f"{replace(shown, inlined_at=None)} (by {by}, inlined there)", shown.line


def _spots(detail: Detail, key: Callable[[int], Key], most: int) -> tuple[Spot, ...]:
    members: dict[Key, list[int]] = {}
    for index in detail.executed.nonzero()[0].tolist():
        members.setdefault(key(index), []).append(index)
    return _largest((_spot(detail, *of, group) for of, group in members.items()), most)


def _spot(detail: Detail, place: str, line: int, members: list[int]) -> Spot:
    spent = detail.stood[members].sum(axis=0)
    waits = {reason: float(spent[k]) for k, reason in enumerate(clock.REASONS) if spent[k]}
    return Spot(place, line, int(detail.executed[members].sum()), float(spent.sum()), waits)


def _largest(spots: Iterable[Spot], most: int) -> tuple[Spot, ...]:
    return tuple(sorted(spots, key=lambda spot: -spot.cycles)[:most])


def place_of(detail: Detail, piece: Piece) -> int:
    """Return the instruction at which a piece of the critical path counts."""
    waits = piece.what == "mbarrier" or piece.what in STANDING
    return detail.waiting(piece.step) if waits else int(detail.op[piece.step])


def on_path(detail: Detail, path: Sequence[Piece], most: int) -> tuple[Spot, ...]:
    """Return the lines of PTX with the most cycles of the critical path.

    Cycles of a unit of the SM count where its work was given; the reason is the unit then.
    """
    found: dict[Key, Counter[str]] = {}
    times: Counter[Key] = Counter()
    for piece in path:
        if piece.warp < 0:
            continue
        index = place_of(detail, piece)
        key = detail.text(index), detail.ptx_line(index) or 0
        found.setdefault(key, Counter())[piece.what] += piece.end - piece.start  # type: ignore[assignment]  # fractions
        times[key] += 1
    spots = (
        Spot(*key, times[key], float(sum(waits.values())), dict(waits))
        for key, waits in found.items()
    )
    return _largest(spots, most)


def operations(detail: Detail) -> Mapping[str, int]:
    """Return executed warp instructions by opcode, the most frequent first."""
    counts: Counter[str] = Counter()
    for index, count in enumerate(detail.executed.tolist()):
        if count:
            counts[detail.instructions[index].opcode] += count
    return dict(counts.most_common())

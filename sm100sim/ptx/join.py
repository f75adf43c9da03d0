"""Several PTX texts -> one, as a linker makes it (PTX ISA, "Linking Directives").

A `.visible` name is one thing in all texts, `.extern` asks for it, `.weak` gives way to another
definition, of `.common` variables the largest stays; any other name is its own text's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from .lexer import Source

_HEADER: Final = re.compile(
    r"\s*\.version\s+(?P<major>\d+)\.(?P<minor>\d+)\s*\.target\s+sm_(?P<target>(?P<number>\d+)\w*)"
    r"[^.]*\.address_size\s+64\b", re.ASCII,
)  # fmt: skip
_SECTION: Final = re.compile(r"\.section\s+[.\w]+\s*\{", re.ASCII)
_ALIAS: Final = re.compile(r"\.alias\b", re.ASCII)
_NAMED: Final = re.compile(
    r"(?P<linkage>(?:\.(?:visible|extern|weak|common)\s+)*)"
    r"(?:(?P<kind>\.entry|\.func)\s*(?:\.noreturn\s*)?(?:\([^()]*\)\s*)?(?P<function>[$_a-zA-Z][\w$]*)"
    r"|\.(?:shared|global|const)\b[^;={}]*?(?P<variable>[$_a-zA-Z][\w$]*)\s*(?:\[[^;={}]*)?(?=[;=]))",
    re.ASCII,
)  # fmt: skip
_NUMBERED: Final = re.compile(r"(\.(?:loc|file)\s+|\binlined_at\s+)(\d+)", re.ASCII)
_NAME: Final = re.compile(r'"[^"\n]*"|(?<![\w$%.])[$_a-zA-Z][\w$]*', re.ASCII)
_BYTES: Final = re.compile(r"\.[a-z](\d+)\b|\[\s*(\d+)\s*\]", re.ASCII)
_FILES: Final = 100_000
"""More than the `.file` numbers of one text."""


class JoinError(ValueError):
    """The texts do not go together."""


@dataclass
class _Item:
    """A declaration or definition at the top of a text.

    Attributes:
        name: "" for what has none: lines for debuggers, aliases.
        linkage: "visible", "extern", "weak", "common", or "" for a name of this text alone.
        declares: where it ends as a declaration only; 0 for variables.
        kernel: it is an `.entry`.
    """

    text: str
    name: str = ""
    linkage: str = ""
    defines: bool = False
    declares: int = 0
    kernel: bool = False

    @property
    def variable(self) -> bool:
        return bool(self.name) and not self.declares


@dataclass
class _Text:
    version: tuple[int, int]
    target: tuple[int, str]
    items: list[_Item] = field(default_factory=list)

    def rename(self, name: str, to: str) -> None:
        """Give a name of this text another one, wherever it stands alone."""
        for item in self.items:
            if name in item.text:
                item.text = _NAME.sub(lambda m: to if m.group() == name else m.group(), item.text)
                item.declares = item.declares and _end_of_head(item.text)
            if item.name == name:
                item.name = to


def _end_of_head(text: str) -> int:
    brace = text.find("{")
    return len(text.rstrip(" ;\n")) if brace < 0 else brace


def _read(ptx: str, number: int) -> _Text:
    source = Source(ptx)
    head = _HEADER.match(source.text)
    if head is None:
        raise JoinError(f"text {number} is no PTX module of 64-bit addresses")
    out = _Text((int(head["major"]), int(head["minor"])), (int(head["number"]), head["target"]))
    out.items += _items(source, head.end(), number)
    return out


def _items(source: Source, position: int, number: int) -> Iterator[_Item]:
    def renumbered(text: str) -> str:
        return _NUMBERED.sub(lambda m: f"{m[1]}{int(m[2]) + number * _FILES}", text)

    text = source.text
    while (position := source.skip_space(position)) < len(text):
        start = position
        if (position := source.debug_line(start)) >= 0:
            yield _Item(renumbered(text[start:position]))
        elif section := _SECTION.match(text, start):  # its labels are each text's own; not needed
            position = source.closing(section.end() - 1)
        elif _ALIAS.match(text, start):
            position = start + len(source.statement(start))
            yield _Item(text[start:position])
        else:
            found = _NAMED.match(text, start)
            if found is None:
                raise source.error(start, "what this declares is not understood")
            position = _end(source, start, found)
            yield _item(renumbered(text[start:position]), found)


def _end(source: Source, start: int, found: re.Match[str]) -> int:
    if not found["kind"]:
        return start + len(source.statement(start))
    brace, semicolon = (source.text.find(mark, found.end()) for mark in "{;")
    if found["kind"] == ".func" and (0 <= semicolon < brace or brace < 0 <= semicolon):
        return semicolon + 1
    if brace < 0:
        raise source.error(start, "no body follows")
    return source.closing(brace)


def _item(text: str, found: re.Match[str]) -> _Item:
    linkage = found["linkage"].strip(" .\n").partition(" ")[0]
    if found["variable"]:
        return _Item(text, found["variable"], linkage, linkage != "extern")
    return _Item(text, found["function"], linkage, "{" in text, _end_of_head(text),
                 found["kind"] == ".entry")  # fmt: skip


def _bytes(item: _Item) -> int:
    """A measure of a variable: the product of the numbers in its declaration."""
    size = 1
    for bits, count in _BYTES.findall(item.text.partition("=")[0]):
        size *= int(bits or count)
    return size


_RANK: Final = {"visible": 2, "weak": 1, "common": 1}


def _definitions(texts: Sequence[_Text]) -> dict[str, _Item]:
    """Of every name that texts share, the definition that stays.

    Raises:
        JoinError: two texts define it.
    """
    chosen: dict[str, _Item] = {}
    for text in texts:
        for item in text.items:
            if not (item.defines and item.linkage):
                continue
            before = chosen.get(item.name)
            if before is None or _RANK[item.linkage] > _RANK[before.linkage]:
                chosen[item.name] = item
            elif item.linkage == before.linkage == "visible":
                raise JoinError(f"multiple definition of {item.name}")
            elif item.linkage == before.linkage == "common" and _bytes(item) > _bytes(before):
                chosen[item.name] = item
    return chosen


def _apart(texts: Sequence[_Text]) -> None:
    """Give names that belong to one text each another one where texts use the same."""
    taken: set[str] = set()
    for number, text in enumerate(texts):
        shared = {item.name for item in text.items if item.linkage}
        own = {item.name for item in text.items if item.name} - shared
        elsewhere = {item.name for other in texts if other is not text for item in other.items}
        for name in sorted(own & (taken | elsewhere)):
            text.rename(name, f"{name}${number}")
        taken |= {item.name for item in text.items}


def joined(texts: Sequence[str]) -> str:
    """One PTX text that holds what all of them hold.

    Args:
        texts: PTX modules; a single one is given back as it is.

    Raises:
        JoinError: two of them define the same name, or one is no PTX.
        PtxError: a declaration is not understood, or a text that does not end well.
    """
    if len(texts) == 1:
        return texts[0]
    read = [_read(text, number) for number, text in enumerate(texts)]
    _apart(read)
    chosen = _definitions(read)
    first: list[str] = []
    then: list[str] = []
    outside: set[str] = set()
    for item in (item for text in read for item in text.items):
        stays = chosen.get(item.name)
        if item.variable:
            # Definitions come before all that may name them; nothing but one declaration remains.
            if stays is None and item.linkage == "extern":
                if item.name in outside:
                    continue
                outside.add(item.name)
            elif stays is not None and stays is not item:
                continue
            first.append(item.text)
        elif stays is not None and stays is not item and item.defines:
            if not item.kernel:
                then.append(item.text[: item.declares] + ";")
        else:
            then.append(item.text)
    version = max(text.version for text in read)
    target = max(text.target for text in read)[1]
    head = f".version {version[0]}.{version[1]}\n.target sm_{target}\n.address_size 64\n"
    return "\n".join([head, *first, *then, ""])

"""Launches with something wrong in them, drawn from a seed: programs, shapes and parameters.

`python -m tests.sim.mutated FIRST COUNT` makes COUNT launches from number FIRST on. Each may run
or be refused in the package's own words; a crash, another exception or a long run is a fault of the
simulator. It prints each number before the launch, so that the last one names a crash, and what
went wrong. The programs are those that were asked of a GPU and those of the ordering rules.
"""

from __future__ import annotations

import importlib
import random
import re
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from sm100sim.launch_request import LaunchRequest
from sm100sim.options import MODES, Check, RunOptions
from sm100sim.ptx.errors import PtxError
from sm100sim.report import SimulationFault
from sm100sim.run import run
from testing import harness
from testing.hardware.micro import all_cases
from testing.hardware.simulate import simulate
from tests.sim.check.ordering import test_tcgen05

SLOW_SECONDS = 10.0
CHECKS = (Check.NONE, Check.ALL, Check.ALL | Check.TO_THE_LETTER | Check.STRICT_EXIT)
EDGES = ("copies", "edges", "flags", "scopes")
TOKENS = {
    "number": re.compile(r"(?<![\w%.$])-?\d+(?![\w.])"),
    "register": re.compile(r"%[a-z]+\d+"),
    "modifier": re.compile(r"\.[a-z]\w*(?:::\w+)*"),
    "statement": re.compile(r"[^;{}\n]+;"),
}
NUMBERS = (
    *("0", "1", "-1", "2", "7", "16", "31", "32", "33", "63", "64", "127", "255", "256", "1023"),
    *(str(n + d) for n in (2**16, 2**31, 2**32, 2**63, 2**64) for d in (-1, 0)),
    *("-2147483648", "0f7F800000", "0d7FF0000000000000", "1e9", "9" * 40, "0x" + "F" * 40),
)
PIECES = (*'{}()[];,"@!|%.:<>', "/*", "//", "ret;", "trap;", ".reg .b32 %zz<5>;", "\0", "é")
OUR_WORDS = re.compile(r"\b(grid|block|cluster|smem_bytes|kernel|params)\b")


@dataclass(frozen=True)
class Seed:
    """A launch with nothing wrong, its buffers, and what these hold before it."""

    request: LaunchRequest
    buffers: tuple[np.ndarray[Any, Any], ...]
    contents: tuple[np.ndarray[Any, Any], ...]

    def fill(self) -> None:
        """Give the buffers their contents back."""
        for buffer, content in zip(self.buffers, self.contents, strict=True):
            buffer[...] = content


class Taken(Exception):
    """What a program would have launched."""


def taken(program: Callable[[], Any]) -> Seed:
    """The launch of a program, which is not made."""

    def take(request: LaunchRequest, options: RunOptions, buffers: list[Any]) -> None:
        raise Taken(request, buffers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness, "run", take)
        try:
            program()
        except Taken as found:
            request, buffers = found.args
            return Seed(request, tuple(buffers), tuple(b.copy() for b in buffers))
    raise ValueError("the program launches nothing")


@cache
def seeds() -> tuple[Seed, ...]:
    """All programs."""
    found = [taken(partial(simulate, c)) for c in all_cases() if c.grid <= 8]
    for name in EDGES:
        edges = importlib.import_module(f"tests.sim.check.ordering.test_{name}").EDGES
        found += [taken(partial(e.run, e.edge, "fast", 0)) for e in edges]
    return (*found, *(taken(partial(r.run, r.edge, "fast", 0)) for r in test_tcgen05.RULES))


@cache
def modifiers() -> tuple[str, ...]:
    """Every modifier that some program has."""
    return tuple(sorted({m for s in seeds() for m in TOKENS["modifier"].findall(s.request.ptx)}))


def mutated(text: str, draw: random.Random) -> str:
    """The text with one to four changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if not text:
            return text
        kind = draw.choice((*TOKENS, *TOKENS, "lines", "characters"))
        if kind == "lines":
            text = _other_lines(text, draw)
        elif kind == "characters":
            at = draw.randrange(len(text))
            text = text[:at] + draw.choice((*PIECES, "")) + text[at + draw.choice((0, 1, 1, 9)) :]
        else:
            places = list(TOKENS[kind].finditer(text))
            if places:
                place = draw.choice(places)
                new = _other_token(kind, [p.group() for p in places], draw)
                text = text[: place.start()] + new + text[place.end() :]
    return text


def _other_token(kind: str, present: list[str], draw: random.Random) -> str:
    if kind == "number":
        return draw.choice(NUMBERS)
    if kind == "modifier" and draw.random() < 0.7:
        return draw.choice((*modifiers(), ""))
    return draw.choice(present)


def _other_lines(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
    what = draw.choice(("swap", "repeat", "drop", "end"))
    if what == "swap":
        lines[a], lines[b] = lines[b], lines[a]
    elif what == "repeat":
        lines.insert(b, lines[a])
    elif what == "drop":
        del lines[a]
    else:
        lines = lines[: a + 1]
    return "\n".join(lines)


def _other_parameters(params: list[bytes], draw: random.Random) -> list[bytes]:
    what = draw.choice(("fewer", "more", "shorter", "bits", "bits", "bits"))
    if what == "fewer" or not params:
        return params[:-1]
    if what == "more":
        return [*params, bytes(8)]
    at = draw.randrange(len(params))
    raw = bytearray(params[at])
    if what == "shorter":
        raw = raw[: draw.randrange(len(raw))]
    else:
        for _ in range(draw.choice((1, 3, 20))):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
    return [*params[:at], bytes(raw), *params[at + 1 :]]


def _other_launch(request: LaunchRequest, draw: random.Random) -> dict[str, Any]:
    """One other field of the request."""
    what = draw.choice(("grid", "block", "cluster", "smem_bytes", "params", "params"))
    if what == "params":
        return {what: tuple(_other_parameters(list(request.params), draw))}
    if what == "smem_bytes":
        return {what: draw.choice((0, 1, 16, 1000, 232_448, 232_449, 2**31, 2**32))}
    sizes = draw.sample((0, 1, 1, 1, 2, 3, 16, 17, 33, 1024, 2**16, 2**32 + 1), 3)
    return {what: tuple(sizes) if draw.random() < 0.2 else (*sizes[:1], 1, 1)}


def launch(number: int) -> None:
    """Make launch `number`; raises what it raises."""
    draw = random.Random(number)
    seed = draw.choice(seeds())
    seed.fill()
    request = seed.request
    if draw.random() < 0.85:
        request = replace(request, ptx=mutated(request.ptx, draw))
    if draw.random() < 0.2 or request is seed.request:
        request = replace(request, **_other_launch(request, draw))
    options = RunOptions(
        mode=draw.choice(MODES),
        seed=number,
        checks=draw.choice(CHECKS),
        poison=draw.random() < 0.8,
        exact_mma=draw.random() < 0.2,
        trace_cluster=draw.choice((None, 0)),
        max_findings=draw.choice((0, 1, 64)),
        max_idle_instructions=20_000,
        max_instructions=100_000,
    )
    run(request, options, buffers=seed.buffers)


def complaint(number: int) -> str:
    """What is wrong with the way in which launch `number` ends; "" when nothing is."""
    start = time.process_time()
    try:
        launch(number)
    except (PtxError, SimulationFault):
        pass
    except ValueError as error:
        if not OUR_WORDS.search(str(error)):
            return f"{number}: ValueError without a word of ours: {error}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{number}: {type(error).__name__} at {place.filename}:{place.lineno}: {error}"
    spent = time.process_time() - start
    return f"{number}: took {spent:.1f} s" if spent > SLOW_SECONDS else ""


def main(first: int, count: int) -> None:
    """Make the launches; print each number, and complaints."""
    for number in range(first, first + count):
        print(number, flush=True)
        words = complaint(number)
        if words:
            print(words, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

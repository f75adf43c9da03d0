"""What a masked key tile costs more than a full one.

    python -m benchmarks.tune.masked [--write]

CTAs of two Q tiles with as many key tiles, of the kernels that are chosen today: with all keys,
causal, where the last two tiles are masked, and with a key less, where the last one is. Prints the
rows of the page, and with ``--write`` keeps what was predicted in masked.json. Predictions of a
B200; needs the CuTe DSL and no GPU.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.tune.classes import CLASSES, TRACED, ProblemClass
from sm100sim.timing.predict import Band

FILE: Final = Path(__file__).with_name("masked.json")
NAMES: Final = ("d64", "d96", "d128", "d192/128", "fp8 d64", "fp8 d128")
FIELDS: Final = ("tile", "plain", "causal", "last")
DIAGONAL_TILES: Final = 2
"""Key tiles of the last causal CTA that hold a diagonal: 256 rows by 128 keys each."""


@dataclass(frozen=True)
class Masked:
    """Cycles of one class, of each draw.

    Attributes:
        name: of the class. tile: a key tile between two lengths, all keys.
        plain: what a tile without a mask takes more in the kernel that has a causal one.
        causal, last: what a masked tile of a causal CTA, and the last one, takes more besides.
    """

    name: str
    tile: tuple[float, ...]
    plain: tuple[float, ...]
    causal: tuple[float, ...]
    last: tuple[float, ...]

    def row(self) -> str:
        """Return the row of the table."""
        cells = [f"{Band.of(self.tile).median:,.0f}"]
        for more in (self.plain, self.causal, self.last):
            cells.append(f"{_band(more, '+,.0f')}: {Band.of(self.shares(more)).median:+.0%}")
        return f"| {' | '.join((self.name, *cells))} |"

    def shares(self, more: Sequence[float]) -> list[float]:
        """Return what is more as a share of a tile, draw by draw."""
        return [a / b for a, b in zip(more, self.tile, strict=True)]


def _band(values: Sequence[float], form: str) -> str:
    found = Band.of(list(values))
    low, median, high = (format(v, form) for v in (found.low, found.median, found.high))
    return f"{median} ({low} to {high})"


def predicted(of: ProblemClass) -> Masked:
    """Execute the CTAs of a class and predict their cycles with every draw."""
    from benchmarks.tune.measure import drawn_chips, machine_code, spec_of, trace
    from sm100sim.timing.model import run_cluster

    draws = drawn_chips()

    def cycles(problem: Any) -> list[float]:
        spec = spec_of(problem, of.kernel)
        found = trace(problem, spec, machine_code(spec))
        return [run_cluster(found, draw).cycles for draw in draws]

    short, long = TRACED
    whole = of.problem("full", long)
    keys = spec_of(whole, of.kernel).config.BN
    full, less = cycles(whole), cycles(of.problem("full", short))
    masked, less_masked = (cycles(of.problem("causal", n)) for n in (long, short))
    last = cycles(replace(whole, seqlen_k=long - 1))
    tiles = (long - short) // keys
    tile, in_causal = (
        [(a - b) / tiles for a, b in zip(*pair, strict=True)]
        for pair in ((full, less), (masked, less_masked))
    )
    plain = [a - b for a, b in zip(in_causal, tile, strict=True)]
    unmasked = long // keys - DIAGONAL_TILES
    causal = [
        (a - b - unmasked * more) / DIAGONAL_TILES
        for a, b, more in zip(masked, full, plain, strict=True)
    ]
    differs = [a - b for a, b in zip(last, full, strict=True)]
    return Masked(of.name, *(tuple(map(round, one)) for one in (tile, plain, causal, differs)))


def kept(path: Path = FILE) -> list[Masked]:
    """Return what was predicted last."""
    return [
        Masked(entry["name"], *(tuple(entry[name]) for name in FIELDS))
        for entry in json.loads(path.read_text())
    ]


def main(arguments: Sequence[str]) -> int:
    """Predict and print; returns the exit status."""
    if list(arguments) not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 64
    import sm100sim

    sm100sim.activate(sm_count=148)  # before the DSL is imported
    found = []
    for of in CLASSES:
        if of.name in NAMES:
            found.append(predicted(of))
            print(found[-1].row(), flush=True)
    if arguments:
        lines = ",\n".join(json.dumps(asdict(one)) for one in found)
        FILE.write_text(f"[\n{lines}\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

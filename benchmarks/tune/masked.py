"""What a masked key tile costs more than a full one.

    python -m benchmarks.tune.masked [--write]

CTAs of two Q tiles with as many key tiles, of the free choices of today: with all keys, causal,
where the last two tiles are masked, and with a key less, where the last one is. Each CTA has one
query tile, as calls of few query tiles get; those of more get persistent or dynamic CTAs. Prints
the rows of the page, and with ``--write`` keeps what was predicted in masked.json, with the state
of the clocked machine and the PTX that it is of. Predictions of a B200; needs the CuTe DSL and no
GPU, and some minutes.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine_state
from benchmarks.tune.classes import CLASSES, TRACED, ProblemClass
from sm100sim.timing.predict import Band

if TYPE_CHECKING:
    from benchmarks.hopper.times.problems import Problem

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
        machine: the state of the clocked machine. ptx: hashes of the kernels, by their problem.
    """

    name: str
    tile: tuple[float, ...]
    plain: tuple[float, ...]
    causal: tuple[float, ...]
    last: tuple[float, ...]
    machine: str = ""
    ptx: Mapping[str, str] = field(default_factory=dict)

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


def problems_of(of: ProblemClass) -> dict[str, Problem]:
    """Return the problems whose kernels are executed: all keys, causal, and a key less."""
    whole = of.problem("full", TRACED[1])
    less = replace(whole, seqlen_k=whole.seqlen_k - 1)
    return {"full": whole, "causal": of.problem("causal", TRACED[1]), "last": less}


def ptx_of(of: ProblemClass) -> dict[str, str]:
    """Return the hashes of the kernels that are executed."""
    from benchmarks.tune.measure import ptx_hash, spec_of

    problems = problems_of(of).items()
    return {name: ptx_hash(spec_of(problem, of.kernel)) for name, problem in problems}


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
    problems = problems_of(of)
    keys = spec_of(problems["full"], of.kernel).config.BN
    full, masked, last = map(cycles, problems.values())
    less, less_masked = (cycles(of.problem(kind, short)) for kind in ("full", "causal"))
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
    a, b, c, d = (tuple(map(round, one)) for one in (tile, plain, causal, differs))
    return Masked(of.name, a, b, c, d, machine_state.model(), ptx_of(of))


def kept(path: Path = FILE) -> list[Masked]:
    """Return what was predicted last."""
    return [
        Masked(**{**entry, **{name: tuple(entry[name]) for name in FIELDS}})
        for entry in json.loads(path.read_text())
    ]


def main(arguments: Sequence[str]) -> int:
    """Predict and print; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep what is predicted")
    given = parser.parse_args(arguments)
    import sm100sim

    sm100sim.activate(sm_count=148)  # before the DSL is imported
    found = []
    for of in CLASSES:
        if of.name in NAMES:
            found.append(predicted(of))
            print(found[-1].row(), flush=True)
    if given.write:
        lines = ",\n".join(json.dumps(asdict(one)) for one in found)
        FILE.write_text(f"[\n{lines}\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Predict what a CTA's start, query tiles and keys cost, and write the table of the plan.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.tune.costs [--only REGEX] [--scheduler S]
        [--draw | --stale]

Launches without a mask, and causal ones where their softmax loop is another, bf16 and fp8, with a
CTA for every query tile, with persistent ones and with those that take over others, as the
side-by-side page has them. Records lie in costs.json; those that match `--only` are made anew,
those of some schedulers only with `--scheduler`; with `--draw` only the table is written.
With `--stale` nothing is: records are named that are of other PTX than now, or do not say of which.
That takes a minute of a processor where the cache has the kernels, and else as long as to compile
more than a hundred of them; to make a record takes minutes.
Predictions of a B200; no GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.tune.averages import costs_of, means_of
from benchmarks.tune.chunks import Chunks, row_text
from benchmarks.tune.chunks import ptx_of as ptx_of_chunks
from benchmarks.tune.few_keys import Prompts, rows_text
from fa4_cute.plan.config.prediction import COUNTED_KEYS
from fa4_cute.plan.launch.sm100_selection import BlackwellSpec

if TYPE_CHECKING:
    from benchmarks.timing.side_by_side.problems import Family

FILE: Final = Path(__file__).with_name("costs.json")
TABLE: Final = Path(__file__).parents[2] / "fa4_cute" / "plan" / "config" / "predicted.py"
HEAD: Final = '''"""Cycles that the timing model predicts: ``benchmarks.tune.costs`` writes them.

The first row that holds a kernel is taken; a kernel that none holds has no prediction.
"""

from __future__ import annotations

from typing import Final

from .prediction import ChunkRow, Costs, DecodingRow, PredictedRow

LAUNCH_CYCLES: Final = {launch}
MEMORY_BYTES_PER_CYCLE: Final = {memory}
BOX_CYCLES: Final = {box}
"""From one box of a page to the next, where a CTA has little else to do."""
PREDICTED: Final[tuple[PredictedRow, ...]] = (
'''


@dataclass(frozen=True)
class Kind:
    """Kernels that share a row of the table: as ``PredictedRow`` names them."""

    kernel: str
    dtype: str
    depth: int
    ov_depth: int
    decodes: bool = False
    causal: bool = False
    few_keys: bool = False
    chunks: bool = False

    @property
    def name(self) -> str:
        """E.g. "2q bf16 192/128"; of a step of decoding "1q bf16 64/64, decoding"."""
        more = ", decoding" if self.decodes else ", causal" if self.causal else ""
        more += ", few keys" if self.few_keys else ", chunks" if self.chunks else ""
        return f"{self.kernel} {self.dtype} {self.depth}/{self.ov_depth}{more}"

    @property
    def key(self) -> str:
        """How a row of the table begins."""
        return f'"{self.kernel}", {1 if self.dtype == "fp8" else 2}, {self.depth}, {self.ov_depth}'


KINDS: Final = (
    *(Kind("2q", dtype, d, v, causal=causal) for dtype in ("bf16", "fp8")
      for d, v in ((64, 64), (96, 96), (128, 128), (192, 128)) for causal in (True, False)),
    *(Kind("pair", dtype, d, d, causal=causal) for dtype in ("bf16", "fp8") for d in (256, 512)
      for causal in (True, False)),
    Kind("1q", "bf16", 64, 64, causal=True),
    *(Kind("1q", "bf16", d, v) for d, v in ((64, 64), (96, 96), (128, 128), (192, 128))),
    *(Kind("1q", "fp8", d, d) for d in (64, 128)),
)  # fmt: skip
"""In the order of the table. Causal launches have a row of their own, before that of both: masked
key tiles cost more, and each scheduler hides another share of them. One Q tile has such a row only
where its softmax loop without a mask is another (``KernelSpec.masks_apart``); how many Q tiles a
CTA takes is compared by rows of the same launches."""
DECODING: Final = (
    *(Kind(kernel, dtype, d, v, decodes=True) for kernel in ("few", "1q")
      for dtype in ("bf16", "fp8") for d, v in ((64, 64), (128, 128), (192, 128))),
    Kind("few pair", "fp8", 256, 256, decodes=True),
    *(Kind("pair", dtype, d, d, decodes=True) for dtype in ("bf16", "fp8") for d in (256, 512)),
)  # fmt: skip
SHORT: Final = tuple(
    Kind(kernel, "bf16", d, d, few_keys=True) for kernel in ("1q", "2q") for d in (64, 128)
)
CHUNKS: Final = (
    *(Kind("2q", dtype, d, v, chunks=True) for dtype in ("bf16", "fp8")
      for d, v in ((64, 64), (96, 96), (128, 128), (192, 128))),
    *(Kind("pair", dtype, d, d, chunks=True) for dtype in ("bf16", "fp8") for d in (256, 512)),
)  # fmt: skip
"""Causal chunks of prompts over pages (``benchmarks.tune.chunks``)."""
SCHEDULERS: Final = ("tile", "persistent", "dynamic")
"""Who takes the query tiles; a record may lack the last."""
FEW_TILES: Final = (2048, 1)
"""Length and batch of one more causal launch of persistent CTAs. In the others each takes as many
query tiles, so that start and tiles would not be told apart; short prompts have few."""


def family_of(kind: Kind) -> Family:
    """Return the problems whose launches are executed."""
    from benchmarks.timing.side_by_side.problems import Family

    return Family((kind.depth, kind.ov_depth), kind.causal, kind.dtype)


def spec_of(kind: Kind, scheduler: str) -> BlackwellSpec:
    """Return the kernel that stands for a kind, with a scheduler."""
    from benchmarks.tune import measure

    problem = family_of(kind).problem(COUNTED_KEYS, 1)
    return measure.spec_of(problem, kind.kernel, scheduler=scheduler, num_splits=1)


def ptx_of(kind: Kind, scheduler: str) -> str:
    """Compile a kind's kernel, or take it from the cache, and return the digest of its PTX."""
    from benchmarks.tune.measure import ptx_hash

    if kind.chunks:
        return ptx_of_chunks(kind, scheduler)
    return ptx_hash(spec_of(kind, scheduler))


def stale(
    kind: Kind, record: Mapping[str, Any], ptx: Callable[[Kind, str], str] = ptx_of
) -> list[str]:
    """Return the schedulers of a record whose kernels are not those that were executed.

    A record that does not say of which PTX it is has none that are.
    """
    known = record.get("ptx", {})
    return [s for s in SCHEDULERS if s in record and known.get(s) != ptx(kind, s)]


def made(kind: Kind, maker: Any, schedulers: Sequence[str]) -> dict[str, Any]:
    """Execute CTAs of a kind and return its record: per scheduler the costs of every draw, and
    of which PTX they are."""
    from benchmarks.timing.side_by_side.callers import CUDA12, Column

    record: dict[str, Any] = {"name": kind.name, "ptx": {}}
    for scheduler in schedulers:
        options: dict[str, Any] = {"scheduler": scheduler, "num_splits": 1}
        options |= {} if kind.kernel == "pair" else {"num_qo": int(kind.kernel[0])}
        column = Column(scheduler, "fa4_cute", CUDA12, options=tuple(options.items()))
        costs, layout, _ = maker.costs(column, family_of(kind))
        starts = [draw["cta_cycles"] for draw in maker.draws]
        record[scheduler] = [
            ((0.0, cta + first + tile, key) if scheduler == "tile" else (cta + first, tile, key))
            for cta, (first, tile, key) in zip(starts, costs.cycles, strict=True)
        ]
        record["rows"] = layout.rows
        record["ptx"][scheduler] = ptx_of(kind, scheduler)
    record["launch"] = [draw["launch_cycles"] for draw in maker.draws]
    return record


def memory_rate(maker: Any) -> list[float]:
    """Return the bytes that memory moves in a cycle, by draw."""
    return [draw["hbm_gbytes"] * 1e3 / draw["clock_mhz"] for draw in maker.draws]


def of_kind(kind: Kind) -> tuple[str, ...]:
    """Return the schedulers that are predicted: with one Q tile not the last."""
    return SCHEDULERS[:2] if kind.kernel == "1q" else SCHEDULERS


def table_text(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the module that holds the costs of all kinds that have records."""
    launches = [draw for record in records.values() for draw in record["launch"][1:]]
    rates = [rate for record in records.values() for rate in record.get("memory", ())[1:]]
    boxes = [box for record in records.values() for box in record.get("box", ())[1:]]
    text = HEAD.format(
        launch=round(median(launches)) if launches else 0,
        memory=round(median(rates)) if rates else 0,
        box=round(median(boxes)) if boxes else 0,
    )
    for kind in KINDS:
        if kind.name in records:
            record = records[kind.name]
            known = [means_of(record[s]) for s in SCHEDULERS if s in record]
            told = ", ".join(f"Costs{tuple(costs)}" for costs in known)
            told += ",\n                 causal=True" if kind.causal else ""
            text += f"    PredictedRow({kind.key},\n                 {told}),\n"
    text += ")  # fmt: skip\nSHORT: Final[tuple[PredictedRow, ...]] = (\n"
    text += "".join(rows_text(kind, records[kind.name]) for kind in SHORT if kind.name in records)
    text += ")  # fmt: skip\nCHUNKS: Final[tuple[ChunkRow, ...]] = (\n"
    text += "".join(row_text(kind, records[kind.name]) for kind in CHUNKS if kind.name in records)
    text += ")  # fmt: skip\nDECODING: Final[tuple[DecodingRow, ...]] = (\n"
    for kind in DECODING:
        if kind.name in records:
            record = records[kind.name]
            parts = ("tile", "combine")
            tile, combine = (f"Costs{tuple(costs_of(record[part]))}" for part in parts)
            text += f"    DecodingRow({kind.key},\n                {tile}, {combine}"
            if "last" in record:
                # Kernels differ in their loops by more: with more CTAs it is taken for no sooner.
                medians = (round(median(cycles[1:])) for cycles in record["exchange"])
                last = f"Costs{tuple(costs_of(record['last']))}"
                text += f", {tuple(accumulate(medians, max))},\n                {last}"
            text += "),\n"
    return text + ")  # fmt: skip\n"


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with what was made anew; schedulers that were not stay as they are."""
    return {**old, **new, "ptx": old.get("ptx", {}) | new["ptx"]}


def load(path: Path = FILE) -> dict[str, dict[str, Any]]:
    """Return the records by their names."""
    if not path.exists():
        return {}
    return {record["name"]: record for record in json.loads(path.read_text())}


def save(records: Mapping[str, Mapping[str, Any]], path: Path = FILE) -> None:
    """Write the records, a line each."""
    path.write_text("[\n" + ",\n".join(json.dumps(r) for r in records.values()) + "\n]\n")


def main(arguments: list[str] | None = None) -> int:
    """Make records and write the table; returns the exit status."""
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--only", default="", help="regular expression over the kinds' names")
    parser.add_argument("--scheduler", choices=SCHEDULERS, nargs="*", help="only these of a kind")
    parser.add_argument("--draw", action="store_true", help="only write the table")
    parser.add_argument("--stale", action="store_true", help="only name records of other PTX")
    given = parser.parse_args(arguments)
    records = load()
    if given.stale:
        old = {k.name: stale(k, records[k.name]) for k in (*KINDS, *SHORT, *CHUNKS)
               if k.name in records and re.search(given.only, k.name)}  # fmt: skip
        print(*(f"{name}: {', '.join(found)}" for name, found in old.items() if found), sep="\n")
        return int(any(old.values()))
    if not given.draw:
        import sm100sim

        warnings.simplefilter("ignore")
        sm100sim.activate(sm_count=148)  # before the DSL is imported
        from benchmarks.timing.side_by_side.rows import Maker
        from benchmarks.timing.side_by_side.spread import IN_TURN

        maker = Maker(in_turn={**IN_TURN, True: (*IN_TURN[True], FEW_TILES)})
        from benchmarks.tune.decoding import Steps

        for kind in DECODING:
            if re.search(given.only, kind.name):
                record = Steps(kind, maker).record()
                records[kind.name] = record | {"memory": memory_rate(maker)}
                parts = [part for part in ("tile", "combine", "last") if part in record]
                print(kind.name, *(costs_of(record[part]) for part in parts), flush=True)
                save(records)
        for kind in (*SHORT, *CHUNKS):
            if re.search(given.only, kind.name):
                maker_of = Chunks if kind.chunks else Prompts
                records[kind.name] = maker_of(kind, maker).record()
                print(kind.name, flush=True)
                save(records)
        for kind in KINDS:
            if re.search(given.only, kind.name):
                found = made(kind, maker, given.scheduler or of_kind(kind))
                records[kind.name] = merged(records.get(kind.name, {}), found)
                print(kind.name, *(means_of(found[s]) for s in found["ptx"]), flush=True)
                save(records)
    TABLE.write_text(table_text(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())

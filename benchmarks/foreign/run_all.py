"""Run foreign kernels on the simulator and record what came out.

    python -m benchmarks.foreign.run_all [--only REGEX] [--control] [--json FILE]
    CUTE_DSL_ARCH=sm_90a python -m benchmarks.foreign.run_all

A process runs the cases of the one architecture that the DSL compiles for.  Cases whose package is
not installed keep their latest record.  Each module runs in this process, one case after the other,
under all checks that are not strict, but for the two longest; a fault ends the case, not the run.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import sm100sim
from benchmarks.foreign.cases import Case
from benchmarks.foreign.table import render
from benchmarks.foreign.torch_on_host import target
from sm100sim.host.activation import runtime
from sm100sim.options import Check, run_options
from sm100sim.report import SimulationFault

NEEDS = {
    "flash_attention_4": ("flash_attn.cute", "quack"),
    "flash_attention_4_api": ("flash_attn.cute", "quack"),
    "quack_kernels": ("quack",),
    "hopper": ("flash_attn.cute", "quack"),
    "cutlass_examples": (),
}
"""Module of cases, in the order in which they run -> what has to be installed."""
RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "foreign_kernels.md"
SM_COUNT = 4
TOO_LONG = re.compile("cutlass_primitive_0[23]_")
"""Programs of about 100 million instructions, which run without checks."""


@dataclass
class Record:
    """One case's result.

    Attributes:
        status: "ok", "wrong" (error above the tolerance) or "stopped" (see ``detail``).
        relative_error: Frobenius norm of the difference over that of the reference.
        max_error: largest absolute difference.
        instructions: warp instructions of all its launches.
        findings: codes of what the checkers reported without stopping.
        mode: the order of events, as `RunOptions.mode`.
        seconds: wall time of the case, compilation included.
        note: what is known about a result that is not "ok".
    """

    name: str
    source: str
    status: str
    detail: str = ""
    relative_error: float | None = None
    max_error: float | None = None
    tolerance: float = 0.0
    instructions: int = 0
    seconds: float = 0.0
    note: str = ""
    findings: tuple[str, ...] = ()
    mode: str = "fast"


def available(module: str) -> bool:
    """Whether the packages that a module of cases needs can be imported."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in NEEDS[module])
    except ModuleNotFoundError:
        return False


def cases(pattern: str) -> Iterator[Case]:
    """The cases of the DSL's target whose name matches; modules that lack their package are left
    out."""
    arch = target()
    for module in filter(available, NEEDS):
        yield from (
            case
            for case in importlib.import_module(f".{module}", __package__).CASES
            if case.arch == arch and re.search(pattern, case.name)
        )


def measure(case: Case) -> Record:
    """Run one case; an exception becomes a "stopped" record with its first lines."""
    with sm100sim.record(everywhere=True) as reports:
        record = _attempt(case)
    record.instructions = sum(report.instructions for report in reports)
    record.findings = tuple(sorted({f.code for report in reports for f in report.findings}))
    return record


def in_order(case: Case) -> Record:
    """Run one case with work that lands at once, and again by modelled time if that is not ok."""
    checks = Check.NONE if TOO_LONG.match(case.name) else Check.ALL
    for mode in ("fast", "timed"):
        with run_options(mode=mode, checks=checks):
            record = replace(measure(case), mode=mode)
        if record.status == "ok":
            break
    return record


def _reason(error: BaseException) -> str:
    """The kind and first words of an exception; a fault's first line only names the kernel."""
    lines = str(error).strip().splitlines()
    if isinstance(error, SimulationFault):
        lines = lines[1:]
    return f"{type(error).__name__}: {' '.join(lines)[:600]}"


def _attempt(case: Case) -> Record:
    start = time.perf_counter()
    record = Record(case.name, case.source, "stopped", tolerance=case.tolerance, note=case.note)
    try:
        outcome = case.run()
    except (Exception, SystemExit) as error:
        record.detail = _reason(error)
    else:
        record.status = "ok"
        if outcome is not None:
            record.relative_error = outcome.relative_error()
            record.max_error = outcome.max_error()
            record.status = "ok" if record.relative_error <= case.tolerance else "wrong"
    record.seconds = round(time.perf_counter() - start, 2)
    return record


def update(path: Path, records: list[Record]) -> list[Record]:
    """Merge new records into the file's and return all, sorted by source and name."""
    known = {}
    if path.is_file():
        known = {row["name"]: Record(**row) for row in json.loads(path.read_text())}
    known.update({record.name: record for record in records})
    merged = sorted(known.values(), key=lambda record: (record.source, record.name))
    path.write_text(json.dumps([asdict(record) for record in merged], indent=1) + "\n")
    return merged


def control(pattern: str) -> int:
    """Launch nothing and count the cases that pass all the same: their comparison is worthless."""
    runtime().launcher = lambda _request: SimpleNamespace(instructions=0, findings=())
    passing = [case.name for case in cases(pattern) if measure(case).status == "ok"]
    print("\n".join(passing) or "no case passes without its kernel")
    return int(bool(passing))


def main() -> int:
    """Command line; the exit status is 1 when a case stopped or was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over case names")
    parser.add_argument(
        "--control", action="store_true", help="launch nothing: then no case may pass"
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--markdown", type=Path, default=PAGE)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("QUACK_CACHE_ENABLED", "0")  # its cached objects come without PTX
    sm100sim.activate(sm_count=SM_COUNT)
    if arguments.control:
        return control(arguments.only)
    records = []
    for case in cases(arguments.only):
        record = in_order(case)
        records.append(record)
        error = "" if record.relative_error is None else f"error {record.relative_error:.2e} "
        result = error + record.detail[:300]
        print(f"{record.status:8}{case.name:44}{record.seconds:7.1f} s  {result}", flush=True)
        arguments.markdown.write_text(render(update(arguments.json, records)))
    return int(any(record.status != "ok" for record in records))


if __name__ == "__main__":
    raise SystemExit(main())

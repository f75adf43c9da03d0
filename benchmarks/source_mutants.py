"""Planted faults in the Python source, and which tests find them: ``make source-mutants``.

A fault is one changed expression or statement of one function (``benchmarks.source_faults``). It is
planted in a copy of the tree, never in the tree itself, and has to be killed by what the fault
names: probes (``testing.probes``, tiny calls under all checkers, compared with float64) or quick
tests. A survivor needs a reason why no test can tell it from the original; one without, or a reason
whose fault is killed after all, makes the exit status 1.

    python -m benchmarks.source_mutants                   all faults
    python -m benchmarks.source_mutants --check-anchors   only name faults whose place is not found
    python -m benchmarks.source_mutants WORD ..           faults whose place contains a word
    python -m benchmarks.source_mutants --trust ..        do not try the unchanged source first
    python -m benchmarks.source_mutants --processes N ..  this many trials at a time
    python -m benchmarks.source_mutants --sample N --seed S   N faults, of every storey by turns
    python -m benchmarks.source_mutants --resume ..       only faults without a verdict of now

Verdicts are written to the record as they come (``--record FILE``: to another), from which the page
of results is made. One is of now while the fault's function and killers are as they were then
(``benchmarks.source_faults.record``); faults without any verdict are tried first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks.source_anchors import Edit, Fault
from benchmarks.source_faults import FAULTS, record
from benchmarks.source_faults.record import RECORD, ROOT, TESTS_FOLDER, Row, resolved, verdict

PROCESSES: Final = 2
LIMIT: Final = 300.0
"""Seconds after which a fault counts as found: the original takes a tenth."""
COPIED: Final = ("fa4_cute", "sm100sim", "testing", "tests", "benchmarks", "pyproject.toml")
PRELOADED: Final = ("numpy", "torch", "cutlass", "cutlass.cute", "pytest")
"""What every trial needs and no fault changes; imported once, trials are forked from it."""
WRONG_USE: Final = (3, 4, 5)
"""Exit statuses of pytest that say nothing of a fault: no test, or no such file."""

_tree: Path | None = None


def start_worker(cache: str) -> None:
    """Copy the tree for this process, and import what does not change."""
    global _tree
    _tree = Path(tempfile.mkdtemp(prefix="source_mutants_", dir=cache))
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "out")
            shutil.copytree(source, _tree / name, ignore=ignored)
        else:
            shutil.copy(source, _tree / name)
    os.environ["FA4_CUTE_CACHE_DIR"] = str(_tree / "kernels")
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(_tree / "hypothesis")
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # of a changed file, by a program of a test
    os.chdir(_tree)
    sys.path[:] = [str(_tree), *(path for path in sys.path if path not in ("", str(ROOT)))]
    for name in list(sys.modules):
        if name.partition(".")[0] in COPIED and not name.startswith("benchmarks"):
            del sys.modules[name]
    for name in PRELOADED:
        import_module(name)


def trial(edit: Edit, killers: Sequence[str]) -> tuple[str | None, float]:
    """Plant a fault, run what has to kill it, and remove it.

    Returns:
        What killed it, or None, and the seconds that this took.
    """
    assert _tree is not None
    place, start = _tree / edit.path, time.perf_counter()
    original = place.read_bytes()
    place.write_bytes(edit.applied(original))
    try:
        found = next((how for name in killers if (how := _killed_by(name))), None)
    finally:
        place.write_bytes(original)
    return found, time.perf_counter() - start


def _killed_by(name: str) -> str | None:
    """Run one probe, or the tests of a path, in a fork; say how it failed, or None."""
    assert _tree is not None
    log = _tree / "log"
    child = os.fork()
    if child == 0:
        _run_and_exit(name, log)
    deadline = time.monotonic() + LIMIT
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"{name}: no end"
        time.sleep(0.02)
    if status == 0:
        return None
    if name.startswith(TESTS_FOLDER) and os.waitstatus_to_exitcode(status) in WRONG_USE:
        raise RuntimeError(f"{name}: {log.read_text(errors='replace')[-500:]}")
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("E  ", f"{name}:"))] or lines[-1:]
    return f"{name}: {said[0].removeprefix(name + ':').strip()[:160] if said else status}"


def _run_and_exit(name: str, log: Path) -> None:
    """Run in the forked process; never returns."""
    status = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if name.startswith(TESTS_FOLDER):
            plugins = ["-p", "no:cacheprovider", "-p", "benchmarks.source_faults.plugin"]
            status = import_module("pytest").main(["-x", "-q", "-n0", *plugins, name])
        else:
            status = import_module("testing.probes").main([name])
    except BaseException as error:  # The exit status says it; the parent must not see it.
        print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    finally:
        sys.stdout.flush()
        os._exit(int(status))


def clean(killers: Sequence[str]) -> dict[str, str]:
    """Run everything that may kill on the unchanged copy: name -> how it fails there."""
    return {name: how for name in killers if (how := _killed_by(name))}


def sampled(
    found: Sequence[tuple[Fault, Edit]], number: int, seed: int
) -> list[tuple[Fault, Edit]]:
    """Return ``number`` faults, taken from the folders of the package by turns.

    The same seed gives the same order, so a larger sample goes on where a smaller one ends.
    """
    storeys = defaultdict(list)
    for fault, edit in found:
        storeys[Path(edit.path).parts[1]].append((fault, edit))
    draw = random.Random(seed)
    for faults in storeys.values():
        draw.shuffle(faults)
    longest = max(map(len, storeys.values()), default=0)
    turns = [faults[n] for n in range(longest) for faults in storeys.values() if n < len(faults)]
    return turns[:number]


def main(arguments: list[str] | None = None) -> int:
    """Run the tier; the exit status is 1 when a fault survives without a reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("words", nargs="*", help="words of places; none takes all faults")
    parser.add_argument("--check-anchors", action="store_true", help="only look for the places")
    parser.add_argument("--trust", action="store_true", help="do not try the unchanged source")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="at a time")
    parser.add_argument("--sample", type=int, help="number of faults, of every storey by turns")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of verdicts")
    parser.add_argument("--resume", action="store_true", help="keep its verdicts that are of now")
    given = parser.parse_intermixed_args(arguments)
    chosen = [f for f in FAULTS if not given.words or any(w in f.place for w in given.words)]
    found, problems = resolved(chosen)
    for problem in problems:
        print(f"NO PLACE {problem}")
    print(f"{len(found)} of {len(chosen)} faults have their place")
    if problems or given.check_anchors:
        return int(bool(problems))
    if given.sample is not None:
        found = sampled(found, given.sample, given.seed)
    rows = record.read(given.record)
    old = [f for f in found if given.resume and record.is_of_now(rows.get(str(f[0])), *f)]
    left = sorted((f for f in found if f not in old), key=lambda f: str(f[0]) in rows)
    print(f"{len(left)} to try, {len(old)} kept")
    _run(left, given)
    return _told(found, record.read(given.record))


def _run(found: Sequence[tuple[Fault, Edit]], given: argparse.Namespace) -> None:
    """Try ``found`` and write what comes of it to the record.

    Raises:
        SystemExit: something that has to kill fails without a fault.
    """
    context = get_context("spawn")
    killers = sorted({name for fault, _ in found for name in fault.killers})
    with (
        tempfile.TemporaryDirectory(prefix="source_mutants_") as cache,
        ProcessPoolExecutor(given.processes, context, start_worker, (cache,)) as pool,
        given.record.open("a") as verdicts,
    ):
        tried = [] if given.trust else killers
        parts = [pool.submit(clean, (name,)) for name in tried]
        broken = {name: how for part in parts for name, how in part.result().items()}
        for said in broken.values():
            print(f"FAILS WITHOUT A FAULT {said}", flush=True)
        if broken:
            raise SystemExit(1)
        print(f"{len(tried)} probes and tests pass without a fault", flush=True)
        trials = {
            pool.submit(trial, edit, fault.killers): (fault, edit, record.untried(fault, edit))
            for fault, edit in found
        }
        for future in as_completed(trials):
            fault, edit, row = trials[future]
            how, seconds = future.result()
            print(f"{verdict(fault, how):9} {seconds:6.1f} s  {fault}  "
                  f"({edit.path}:{edit.line})  {how or ''}", flush=True)  # fmt: skip
            verdicts.write(json.dumps({**row, "how": how}) + "\n")
            verdicts.flush()
    record.tidy(FAULTS, given.record)


def _told(found: Sequence[tuple[Fault, Edit]], rows: dict[str, Row]) -> int:
    """Say what the verdicts on ``found`` make; 1 when some are neither killed nor argued."""
    ways = Counter(verdict(fault, rows[str(fault)]["how"]) for fault, _ in found)
    unexplained = len(found) - ways["killed"] - ways["argued"]
    print(f"{ways['killed']} of {len(found)} killed, {ways['argued']} argued, {unexplained} "
          "unexplained")  # fmt: skip
    return int(bool(unexplained))


if __name__ == "__main__":
    raise SystemExit(main())

"""One run of one program on the simulator, in a process of its own with a limit of time."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from .places import FOLDER, ROOT

CPU_SECONDS: Final = 60
"""That a run may take of the processor, all threads together, unless it is given more."""
WALL_FACTOR: Final = 7
"""As many times that long it may take in all, on a busy machine."""
OUTPUT_KEPT: Final = 20_000
"""Characters of an output that are kept."""
BLANK: Final = "benchmarks.programs.blank"
BLANKED: Final = "SM100SIM_BLANK"
"""Variable: the kernel whose launches do nothing, or EVERY."""
EVERY: Final = "every kernel"
EXIT: Final = "program's exit code: "
"""Before the exit code of an executable, which is printed since findings replace it."""


@dataclass(frozen=True)
class Attempt:
    """What came out of a run.

    Attributes:
        printed: what the program put on its standard output.
        output: that, and then what it and the simulator put on standard error.
        exit_code: the program's own; of scripts, the command's.
        in_time: it ended within the limits.
        reports: of its launches, as the command writes them.
        seconds: wall time.
    """

    printed: str
    output: str
    exit_code: int
    in_time: bool
    reports: tuple[dict[str, Any], ...]
    seconds: float


_KILLED: Final = {
    sign * number + base
    for number in (signal.SIGXCPU, signal.SIGKILL) for sign, base in ((-1, 0), (1, 128))
}  # fmt: skip


def _used() -> float:
    """Seconds of processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _words(path: Path, arguments: Sequence[str]) -> list[str]:
    """The program as the command is told it; executables by way of a shell, for their exit code."""
    if path.suffix == ".py":
        return [str(path), *arguments]
    return ["sh", "-c", f'"$0" "$@"; echo "{EXIT}$?"', str(path), *arguments]


def run(
    path: Path, arguments: Sequence[str], folder: Path, python: Path, command: str,
    *, blank: str = "", seconds: int = CPU_SECONDS,
) -> Attempt:  # fmt: skip
    """Run a program.

    Args:
        path: an executable or a Python script.
        arguments: its arguments.
        folder: where it runs.
        python: of the environment that its packages are in.
        command: of the simulator.
        blank: a kernel whose launches do nothing, or EVERY.
        seconds: of the processor that it may take.
    """
    module = BLANK if blank else "sm100sim"
    with tempfile.TemporaryDirectory(prefix="programs-") as scratch:
        written = Path(scratch) / "report.json"
        words = [str(python), "-m", module, command, "--output", str(written),
                 *_words(path, arguments)]  # fmt: skip
        start = time.perf_counter()
        before = _used()
        printed, told, code = _ended(words, folder, seconds, {BLANKED: blank} if blank else {})
        in_time = code not in _KILLED and _used() - before < seconds
        took = time.perf_counter() - start
        reports = tuple(json.loads(written.read_text())["launches"]) if written.is_file() else ()
    own = _own_code(printed, code)
    return Attempt(printed, printed + told, own, in_time, reports, round(took, 1))


def keep_output(project: str, name: str, attempt: Attempt) -> None:
    """Write what a run printed into the folder of outputs, for whoever looks into it."""
    folder = FOLDER / "output" / project
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(attempt.output[-OUTPUT_KEPT:])


def plainly(path: Path, arguments: Sequence[str], folder: Path) -> Attempt:
    """Run an executable without the simulator: on the host alone, or on the GPU of this machine."""
    start = time.perf_counter()
    printed, told, code = _ended(_words(path, arguments), folder, CPU_SECONDS)
    seconds = round(time.perf_counter() - start, 1)
    own = _own_code(printed, code)
    return Attempt(printed, printed + told, own, code not in _KILLED, (), seconds)


def _ended(
    words: Sequence[str], folder: Path, seconds: int, more: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, str, int]:
    """Standard output, standard error and the exit code of a process with limits."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}
    limit = ["prlimit", f"--cpu={seconds}:{seconds + 5}"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        process = subprocess.Popen(
            [*limit, *words], cwd=folder, env=variables, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=error,
        )  # fmt: skip
        try:
            code = process.wait(WALL_FACTOR * seconds)
        except subprocess.TimeoutExpired:
            code = -signal.SIGXCPU
        finally:
            _end_group(process.pid)
            process.wait()
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return texts[0], texts[1], code


def _end_group(leader: int) -> None:
    """End what a process that led a session has left behind."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _own_code(output: str, code: int) -> int:
    found = [line for line in output.splitlines() if line.startswith(EXIT)]
    return int(found[-1].removeprefix(EXIT)) if found else code

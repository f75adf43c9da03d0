"""The stand-ins under a Python script that runs in this process.

A process cannot serve itself: the library waits for an answer, and code that holds Python's lock
while it calls the driver would wait for ever. So the simulator of the script's driver calls is a
copy of this process, made before the script begins, and the reports come back at the end.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...report import Report, keep, record
from .place import DRIVER, RUNTIME, environment
from .server import Server

NVML = "libnvidia-ml.so.1"
FAILED = 1
_loaded: list[ctypes.CDLL] = []
"""The stand-ins, driver first; what is loaded stays so."""


@contextmanager
def stand_ins_beside(folder: Path) -> Iterator[None]:
    """Let driver calls of this process, and of processes that it starts, go to the virtual device.

    Args:
        folder: furnished with the stand-ins.
    """
    sys.stdout.flush()
    stop_reader, stop = os.pipe()
    reports, answer = os.pipe()
    ready_reader, ready = os.pipe()
    child = os.fork()
    if child == 0:
        for unused in (stop, reports, ready_reader):
            os.close(unused)
        _serve(folder / "socket", stop_reader, answer, ready)
    for unused in (stop_reader, answer, ready):
        os.close(unused)
    os.read(ready_reader, 1)
    os.close(ready_reader)
    before = dict(os.environ)
    os.environ.update(environment(folder, folder / "socket", os.environ))
    # Whoever asks for a library by these names gets the one that is loaded already.
    _loaded[:] = [ctypes.CDLL(str(folder / name)) for name in (DRIVER, RUNTIME, NVML)]
    _loaded[0].sm100sim_begin()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        _loaded[0].sm100sim_leave()
        os.close(stop)
        with open(reports, "rb") as pipe:
            raw = pipe.read()
        os.waitpid(child, 0)
        for report in pickle.loads(raw) if raw else ():
            keep(report)


def _plain(report: Report) -> Report:
    """The report without the function that got what the kernel printed."""
    return replace(report, options=replace(report.options, print_to=None))


def _serve(path: Path, stop: int, answer: int, ready: int) -> None:
    """Be the simulator's process until the other closes its pipe."""
    code = FAILED
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with record() as reports:
            server = Server(path)
            os.close(ready)
            os.read(stop, 1)
            server.close()
        with open(answer, "wb") as pipe:
            pickle.dump([_plain(report) for report in reports], pipe)
        sys.stdout.flush()
        code = 0
    finally:
        os._exit(code)

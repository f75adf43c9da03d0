"""Compiling and interrupts: the DSL never sees one, and the caller does, when it has ended."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from fa4_cute.host.compile.compiler import compile_traced

ROOT = Path(__file__).resolve().parents[3]
COMPILED = SimpleNamespace(__ptx__=".visible .entry made(\n", __cubin__=b"cubin")

INTERRUPTED = """
import os, signal, time
from types import SimpleNamespace
from fa4_cute.host.compile.compiler import compile_traced

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
log = []

def trace(options):
    try:
        for _ in range(3):  # whoever is impatient presses again
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)  # the main thread wakes ten times a second
        log.append("traced")
    except BaseException as error:
        log.append(f"hit by {error!r}")
        raise
    return SimpleNamespace(__ptx__=".visible .entry made(", __cubin__=b"cubin")

try:
    compile_traced(trace)
except KeyboardInterrupt:
    log.append("interrupted")
log.append(compile_traced(lambda options: SimpleNamespace(
    __ptx__=".visible .entry again(", __cubin__=b""))[2])
print(*log)
"""

COMPILING = """
import os, signal, sys, threading
import fa4_cute

signal.signal(signal.SIGINT, signal.default_int_handler)
timer = threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT))
timer.start()
try:
    while True:
        fa4_cute.warmup([{"head_dim": 64, "dtype": "bf16", "heads_q": 1, "heads_k": 1}])
        fa4_cute.clear_cache()
except KeyboardInterrupt:
    timer.join()
    print("interrupted", flush=True)
"""


def test_an_interrupt_never_reaches_the_compiler() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "traced interrupted again\n"), done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("seconds", [1.0, 3.0, 5.0])
def test_an_interrupt_while_the_dsl_compiles(seconds: float) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILING, str(seconds)], env={**os.environ, "FA4_CUTE_CACHE": "0"},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_errors_and_context_cross_the_threads() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("of the caller")
    seen = []

    def trace(options: str) -> SimpleNamespace:
        seen.append((variable.get(), threading.current_thread() is threading.main_thread()))
        return COMPILED

    assert compile_traced(trace) == (COMPILED.__ptx__, b"cubin", "made")
    assert seen == [("of the caller", False)]

    def fail(options: str) -> None:
        raise ValueError("no such tile")

    with pytest.raises(ValueError, match="no such tile"):
        compile_traced(fail)


def test_a_thread_of_the_caller_compiles_by_itself() -> None:
    seen: list[int] = []

    def trace(options: str) -> SimpleNamespace:
        seen.append(threading.get_ident())
        return COMPILED

    caller = threading.Thread(target=compile_traced, args=(trace,))
    caller.start()
    caller.join()
    assert seen == [caller.ident]

"""Ctrl-C while a launch runs: first the engine stops, then the interrupt goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import faulthandler, os, signal, threading, time
import numpy as np
from testing.harness import run_ptx

faulthandler.enable()
out = np.zeros(1, np.uint32)

def hear(number, frame):
    # Only inside of a launch: what comes later than its end belongs to nobody.
    while frame is not None:
        if frame.f_code.co_name == "run_ptx":
            raise KeyboardInterrupt
        frame = frame.f_back

signal.signal(signal.SIGINT, hear)

def press(moments):
    for pause in moments:
        time.sleep(pause)
        os.kill(os.getpid(), signal.SIGINT)

run_ptx("st.global.b32 [%p0], 0;", out)
for moments in MOMENTS:
    fingers = threading.Thread(target=press, args=(moments,))
    fingers.start()
    try:
        run_ptx("L: st.global.b32 [%p0], 1; bra L;", out, grid=(4, 1, 1), block=1024)
    except KeyboardInterrupt:
        out[0] = 7
        fingers.join()
        time.sleep(0.02)
        print("interrupted", out[0])
    run_ptx("st.global.b32 [%p0], 5;", out)
print("alive", out[0])
"""


def test_an_interrupt_stops_the_engine_before_it_goes_on() -> None:
    """Once, early and late, and several times at once; the next launch is as if nothing was."""
    moments = [[0.2], [0.02], [0.1, 0.0002, 0.0002, 0.001], [0.05, 0.0005, 0.0005], [0.3]]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("MOMENTS", repr(moments))],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["interrupted 7"] * len(moments) + ["alive 5"]
    assert "Exception ignored" not in done.stderr

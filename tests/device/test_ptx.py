"""Source lines of inline PTX, where the DSL is asked to write lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fa4_cute.device.ptx import f32
from sm100sim.ptx.places import Places

KERNEL = "combine fp16 d64"
PRINT = f"""
from fa4_cute.host.compile.cache import compiled
from testing.kernels import KERNELS
print(compiled(KERNELS["{KERNEL}"]).ptx)
"""


@pytest.mark.slow
def test_inline_ptx_has_the_line_of_the_helper_that_emits_it() -> None:
    """Not that of the traced function's decorator, which stands for code without a line."""
    done = subprocess.run(
        [sys.executable, "-c", PRINT], cwd=Path(__file__).parents[2], capture_output=True,
        env={**os.environ, "CUTE_DSL_LINEINFO": "1"}, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    places, lines = Places(done.stdout), done.stdout.split("\n")
    texts = []
    for number, line in enumerate(lines):
        if line.strip() == "// begin inline asm":
            first = next(k for k in range(number + 1, len(lines)) if ".loc" not in lines[k])
            place = places.at(first + 1)
            assert place is not None
            assert "/device/" in place.file
            texts.append(place.text)
    assert texts
    assert all("emit(" in text for text in texts)


@pytest.mark.parametrize(
    ("value", "literal"),
    [(1.0, "0f3F800000"), (-8.0, "0fC1000000"), (2.0**127, "0f7F000000"), (-0.0, "0f80000000")],
)
def test_literals_have_the_bits_of_the_number(value: float, literal: str) -> None:
    assert f32(value) == literal

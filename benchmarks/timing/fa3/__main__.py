"""Predicts FlashAttention-3's published times on an H100. No GPU is needed.

    SM100SIM_FA3=CHECKOUT SM100SIM_CUTLASS=CHECKOUT \\
        python -m benchmarks.timing.fa3 docs/timing_fa3.md [--draw] [--only REGEX]

Checkouts of Dao-AILab/flash-attention and of NVIDIA/cutlass (the commit that the first names as
its submodule); nvcc makes the PTX, minutes a kernel. Launches lie in launches.json.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.foreign.cutlass_examples import CHECKOUT_VARIABLE
from benchmarks.machine_state import model
from benchmarks.originals.programs import FOLDER
from benchmarks.timing.fa3.page import page
from benchmarks.timing.fa3.table import EXECUTED, Case, Key
from benchmarks.timing.side_by_side.callers import assembler
from benchmarks.timing.side_by_side.others import compile_program, launched
from benchmarks.timing.side_by_side.records import load, write
from sm100sim.crew.recording import recording
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.run import run
from sm100sim.timing.chips import load_chip
from sm100sim.timing.predict.gpu import time_launch
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.trace import traced

FA3: Final = "SM100SIM_FA3"
"""The checkout of Dao-AILab/flash-attention."""
LAUNCHES: Final = Path(__file__).with_name("launches.json")
SOURCE: Final = Path(__file__).with_name("fa3.cu")
ARCH: Final = "sm_90a"
PTXAS: Final = "13.0"
"""Of the nvcc that makes the PTX; 12.9 refuses that."""
DRAWS: Final = 4
"""Besides the chip's own values."""
FLAGS: Final = (
    "--expt-extended-lambda", "--use_fast_math", "-DNDEBUG",
    "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED", "-DCUTLASS_ENABLE_GDC_FOR_SM90",
    "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",
)  # fmt: skip
"""As its own build has them; the fourth lets the program find the driver by its name."""


def program(dim: int, causal: bool) -> Path:
    """The program of a head dim and a mask, compiled if it is not there.

    Raises:
        FileNotFoundError: a checkout is not named. subprocess.CalledProcessError: nvcc refuses it.
    """
    found = FOLDER / "fa3" / f"fa3-{dim}-{int(causal)}"
    if not found.is_file():
        folders = {name: os.environ.get(name) for name in (FA3, CHECKOUT_VARIABLE)}
        for name, folder in folders.items():
            if folder is None:
                raise FileNotFoundError(f"{name} names no checkout")
        kernel, cutlass = (Path(str(folder)) for folder in folders.values())
        included = kernel / "hopper", cutlass / "include", cutlass / "tools/util/include"
        compile_program(
            found, SOURCE, *FLAGS, *(f"-I{folder}" for folder in included), f"-DDIM={dim}",
            f"-DCAUSAL={int(causal)}", arch="90a",
        )  # fmt: skip
    return found


def ran(key: Key) -> dict[str, Any]:
    """What one CTA, or one pair, takes for all tiles of a launch: the chip's own values first."""
    dim, causal, length, heads = key
    found: list[dict[str, Any]] = []

    def hear(request: LaunchRequest) -> None:
        with recording([0], others=False) as launches:
            run(request, RunOptions(mode="fast"))
        (recorded,) = launches
        kernel = compiled(request.ptx, ARCH, request.kernel, ptxas=assembler(PTXAS))
        launch, chip = traced(kernel, recorded), load_chip("h100")
        times = [time_launch(launch, chip.draw(k)).cycles for k in range(DRAWS + 1)]
        found.append({
            "dim": dim, "causal": causal, "length": length, "heads": heads,
            "cycles": [round(time) for time in times],
            "local": sum(i.opcode in ("LDL", "STL") for i in kernel.instructions),
            "compiler": kernel.compiler, "model": model(),
        })  # fmt: skip

    ctas = Case(dim, causal, 1, heads, length, 0, 0).pair
    launched([str(program(dim, causal)), str(heads), str(length), str(ctas)], hear, "wgmma")
    return found[0]


def key_of(row: dict[str, Any]) -> Key:
    """What a record is of."""
    return row["dim"], row["causal"], row["length"], row["heads"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run launches and write the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--draw", action="store_true", help="only draw the page")
    parser.add_argument("--only", default="", help="regular expression over d64 causal 512 1")
    given = parser.parse_args(arguments)
    for key in () if given.draw else EXECUTED:
        name = f"d{key[0]} {'causal' if key[1] else 'all'} {key[2]} {key[3]}"
        if re.search(given.only, name):
            row = ran(key)
            rows = {key_of(one): one for one in load(LAUNCHES)} | {key: row}
            write([rows[key] for key in sorted(rows)], LAUNCHES)
            print(name, row["cycles"], flush=True)
    given.page.write_text(page(load(LAUNCHES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

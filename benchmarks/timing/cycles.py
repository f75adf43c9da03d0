"""Cycles of an SM's own clock that kernels take on a Hopper GPU: attention, GEMMs, and others.

    FA4_CUTE_CACHE_DIR=carry/kernels python -m benchmarks.timing.cycles OUT.json \\
        [--attention carry/fa4] [--gemm carry/gemm] [--judges carry/judges] [--only REGEX] \\
        [--rounds N] [--seconds N] [--warm]

Clocks of a GPU move with its load, and the driver says only now and then how fast it runs. So a
tiny kernel before and one behind the measured one read every SM's clock: the difference is in
cycles, whatever their length was. What two such kernels take by themselves is taken off.
Folders: `benchmarks.hopper.times.record_fa4`, `benchmarks.timing.record_gemm` and
`benchmarks.timing.judges.launches`. The L2 is
overwritten before each run, but for those that begin with their tensors there (`--warm`,
`judges.warm_round`); results are compared before they are timed. Needs torch for CUDA.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch

from benchmarks.hopper.attention_times import prepared
from benchmarks.hopper.times.clocks import card
from benchmarks.hopper.times.launcher import Launcher
from benchmarks.hopper.times.problems import TABLE
from benchmarks.hopper.times.recorded import Place, Recorded, load
from benchmarks.hopper.times.runners import OURS, RECORDED, runners
from benchmarks.hopper.times.timing import WARMUP, Flush
from benchmarks.timing.gemms import LADDER, Gemm
from benchmarks.timing.judges.cases import ROUNDED, Case, error_of
from benchmarks.timing.judges.second_round import EVERY
from benchmarks.timing.judges.warm_round import WARM

PLACES: Final = 256
"""Room for SMs; each has a place of two 64-bit words: its clock, and nanoseconds."""
ALONE_BYTES: Final = 120 * 1024
"""Shared memory of which an SM has room for one CTA."""
TOLERANCE: Final = 1e-2
PAUSE_CYCLES: Final = 400_000
"""What a pause takes: longer than the host to enqueue three launches."""
STAMP: Final = """.version 8.0
.target sm_90
.address_size 64
.visible .entry stamp(.param .u64 to)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [to];
  mov.u32 %r1, %smid;
  mul.wide.u32 %d2, %r1, 16;
  add.s64 %d1, %d1, %d2;
  mov.u64 %d3, %clock64;
  mov.u64 %d4, %globaltimer;
  st.global.v2.u64 [%d1], {%d3, %d4};
  ret;
}
"""
Call = Callable[[], Any]


class Stamps:
    """Reads the clock of every SM before and behind a call."""

    def __init__(self, sms: int, flush: Call = lambda: None) -> None:
        """Load the kernel that reads clocks; one CTA lies on each of `sms` SMs.

        What lies between two of them without a kernel is taken off. They have to be enqueued behind
        a flush, as with a kernel: without one the second is late by the host's time to enqueue it.
        """
        self._folder = tempfile.TemporaryDirectory()
        image = Path(self._folder.name) / "stamp.ptx"
        image.write_bytes(STAMP.encode() + b"\0")
        self._kept = [torch.zeros(PLACES, 2, dtype=torch.int64, device="cuda") for _ in range(2)]
        launch = Recorded(
            "stamp", image.name, (sms, 1, 1), (1, 1, 1), (1, 1, 1), ALONE_BYTES, (bytes(8),),
            (Place(0, 0, "to", 0),),
        )  # fmt: skip
        launcher = Launcher(image.parent)
        self._runs = [launcher.prepared(launch, {"to": t.data_ptr()}) for t in self._kept]
        self.empty = 0.0
        self.bare = median(self.around(lambda: None)[0] for _ in range(10))
        self.empty = median(self.around(lambda: None, flush)[0] for _ in range(10))

    def around(self, call: Call, flush: Call = lambda: None) -> tuple[float, float]:
        """Cycles that a call takes, and MHz at which they passed.

        The call is enqueued behind the flush, which takes longer than enqueueing it.
        """
        for tensor in self._kept:
            tensor.zero_()
        stream = torch.cuda.current_stream().cuda_stream
        flush()
        self._runs[0](stream)
        call()
        self._runs[1](stream)
        torch.cuda.synchronize()
        before, after = (tensor.cpu() for tensor in self._kept)
        passed = after - before
        both = passed[(before[:, 0] != 0) & (after[:, 0] != 0)]
        cycles, nanoseconds = (float(column.double().median()) for column in both.T)
        return cycles - self.empty, 1e3 * cycles / nanoseconds


def pause() -> None:
    """Keep the GPU busy while the host enqueues, with nothing that asks the L2 for more."""
    torch.cuda._sleep(PAUSE_CYCLES)


def row(name: str, runner: str, stamps: Stamps, call: Call, asked: argparse.Namespace) -> Any:
    """What is stored of a kernel."""
    flush = asked.flush
    runs = [stamps.around(call, flush) for _ in range(WARMUP + asked.rounds)][WARMUP:]
    cycles, clocks = zip(*runs, strict=True)
    return {
        "name": name, "runner": runner, "cycles": median(cycles), "runs": cycles,
        "mhz": median(clocks), "mhz_lowest": min(clocks),
    }  # fmt: skip


def attention(asked: argparse.Namespace, stamps: Stamps) -> Iterator[Any]:
    """Problems of the first table of docs/hopper_times.md, by this package and FlashAttention-4."""
    offered = {k: v for k, v in runners(asked.attention).items() if k in (OURS, RECORDED)}
    for problem in TABLE:
        if problem.group == "full" and re.search(asked.only, problem.name) and asked.left() > 0:
            calls, _, refused = prepared(problem, offered)
            for name, call in calls.items():
                yield row(problem.name, name, stamps, call, asked)
            for name, reason in refused.items():
                yield {"name": problem.name, "runner": name, "failed": reason}


def gemms(asked: argparse.Namespace, stamps: Stamps) -> Iterator[Any]:
    """The recorded GEMMs."""
    launches, launcher = load(asked.gemm), Launcher(asked.gemm)
    for gemm in LADDER:
        if gemm.name in launches and re.search(asked.only, gemm.name) and asked.left() > 0:
            yield _gemm(gemm, launches[gemm.name], launcher, stamps, asked)


def _gemm(
    gemm: Gemm, launch: Recorded, launcher: Launcher, stamps: Stamps, asked: argparse.Namespace
) -> Any:
    torch.manual_seed(1)
    t = {
        name: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        for name, shape in gemm.shapes().items()
    }
    run = launcher.prepared(launch, {name: tensor.data_ptr() for name, tensor in t.items()})

    def call() -> None:
        run(torch.cuda.current_stream().cuda_stream)

    call()
    expected = (t["a"] @ t["b"].T).float()
    error = float((t["out"].float() - expected).norm() / expected.norm())
    if not error <= TOLERANCE:
        return {"name": gemm.name, "runner": "quack", "failed": f"wrong: relative error {error}"}
    return row(gemm.name, "quack", stamps, call, asked)


def judges(asked: argparse.Namespace, stamps: Stamps) -> Iterator[Any]:
    """The recorded launches of `benchmarks.timing.judges`."""
    launches, launcher = load(asked.judges), Launcher(asked.judges)
    for case in WARM if asked.warm else EVERY:
        if case.name in launches and re.search(asked.only, case.name) and asked.left() > 0:
            try:
                yield _judge(case, launches[case.name], launcher, stamps, asked)
            except (RuntimeError, OSError) as error:  # the others have their figures
                yield {"name": case.name, "runner": case.family, "failed": str(error)[:200]}
            torch.cuda.empty_cache()


def _judge(
    case: Case, launch: Recorded, launcher: Launcher, stamps: Stamps, asked: argparse.Namespace
) -> Any:
    t = case.drawn()
    run = launcher.prepared(launch, {name: tensor.data_ptr() for name, tensor in t.items()})

    def call() -> None:
        run(torch.cuda.current_stream().cuda_stream)

    call()
    error = error_of(t["out"], case.problem.expected(t))
    if not error <= ROUNDED:
        return {"name": case.name, "runner": case.family, "failed": f"wrong: error {error}"}
    return row(case.name, case.family, stamps, call, asked)


STREAMS: Final = {
    "read": lambda x, y: torch.sum(x),
    "write": lambda x, y: y.fill_(1.0),
    "copy": lambda x, y: torch.add(x, 1.0, out=y),
}
"""What torch does with memory, by name."""
MEBIBYTES: Final = (16, 32, 64, 128, 256, 1024)


def streams(asked: argparse.Namespace, stamps: Stamps) -> Iterator[Any]:
    """Memory read, written and copied by torch's own kernels, in float32; sizes of one tensor."""
    for size in MEBIBYTES:
        x, y = (torch.ones(size << 18, device="cuda") for _ in range(2))
        for name, stream in STREAMS.items():
            if re.search(asked.only, f"{name} of {size} MiB") and asked.left() > 0:
                call = partial(stream, x, y)
                yield row(f"{name} of {size} MiB", "torch", stamps, call, asked)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--attention", type=Path, help="folder of FlashAttention-4's launches")
    parser.add_argument("--gemm", type=Path, help="folder of quack's launches")
    parser.add_argument("--judges", type=Path, help="folder of the other judges' launches")
    parser.add_argument("--warm", action="store_true", help="judges whose tensors the L2 has")
    parser.add_argument("--streams", action="store_true", help="also torch's reads and writes")
    parser.add_argument("--only", default="", help="regular expression over names")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=75, help="begin nothing after them")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure and write after each row; 2 without a Hopper GPU."""
    asked, start = parse(arguments), time.monotonic()
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("cycles needs a GPU of compute capability 9.0 (H100, H200) and torch for it")
        return 2
    asked.left = lambda: asked.seconds - (time.monotonic() - start)
    asked.flush = pause if asked.warm else Flush(cold=True)
    stamps = Stamps(torch.cuda.get_device_properties(0).multi_processor_count, asked.flush)
    found: dict[str, Any] = {
        "card": card(), "rounds": asked.rounds, "empty": stamps.empty,
        "empty_without_flush": stamps.bare, "rows": [],
    }  # fmt: skip
    parts = [gemms] * (asked.gemm is not None) + [judges] * (asked.judges is not None)
    parts += [attention] * (asked.attention is not None) + [streams] * asked.streams
    for part in parts:
        for one in part(asked, stamps):
            found["rows"].append(one)
            print(f"{asked.left():4.0f} s left", {k: v for k, v in one.items() if k != "runs"})
            asked.out.write_text(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run a published example program as it is and record the comparison which it makes itself.

The examples of NVIDIA/cutlass check their kernels against torch with ``assert_close`` or
``allclose``; these calls are watched, so the figures recorded are those of the example's own
reference.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import sm100sim
from benchmarks.foreign.cases import Outcome
from benchmarks.foreign.scaled_mm import scaled_mm
from benchmarks.foreign.torch_on_host import cuda_tensors_on_host


@dataclass
class Comparisons:
    """Every (actual, expected) pair that a program compared."""

    pairs: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def outcome(self) -> Outcome:
        """All pairs as one result.

        Raises:
            AssertionError: the program compared nothing, so nothing is known about its kernel.
        """
        if not self.pairs:
            raise AssertionError("the example finished without comparing anything")
        first, *others = (Outcome(*pair) for pair in self.pairs)
        return Outcome(first.actual, first.expected, tuple(others))

    def watch(self, actual: Any, expected: Any, *_args: Any, **_kwargs: Any) -> bool:
        """Stands in for the comparisons; the caller judges the error instead."""
        a, b = (torch.as_tensor(x).detach().double().flatten() for x in (actual, expected))
        self.pairs.append((a.clone(), b.clone()))
        return True


def run_script(
    path: Path, arguments: list[str], *, sm_count: int, asserts: bool = False
) -> Outcome | None:
    """Run an example as ``__main__`` with command-line arguments and return what it compared.

    Args:
        path, arguments: the program and what it is told.
        sm_count: of the device.
        asserts: it judges itself by assertions of its own; then nothing is returned.

    Raises:
        Exception: whatever the program raises; its output goes into the exception's notes.
    """
    import cutlass.testing  # after sm100sim.activate()
    from cutlass.cute import testing

    seen, printed, before = Comparisons(), io.StringIO(), sm100sim.last_report()

    def benchmark(kernel: Any, *, kernel_arguments: Any = None, **_options: Any) -> float:
        """Launches once where the program has not launched yet; times nothing."""
        if kernel_arguments is not None and sm100sim.last_report() is before:
            kernel(*kernel_arguments.args, **kernel_arguments.kwargs)
        return 1.0

    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        enter(mock.patch.object(sys, "argv", [str(path), *arguments]))
        enter(mock.patch.object(sys, "path", [str(path.parent), *sys.path]))
        enter(mock.patch.object(torch.testing, "assert_close", seen.watch))
        enter(mock.patch.object(torch, "allclose", seen.watch))
        enter(mock.patch.object(torch, "_scaled_mm", scaled_mm))
        for module in (testing, cutlass.testing):
            enter(mock.patch.object(module, "benchmark", benchmark))
        enter(cuda_tensors_on_host(sm_count))
        enter(contextlib.redirect_stdout(printed))
        try:
            runpy.run_path(str(path), run_name="__main__")
        except (Exception, SystemExit) as error:
            error.add_note(printed.getvalue()[-2000:])
            raise
    return None if asserts else seen.outcome()

"""One comparison: both sides on the same inputs, held against float64 and against each other."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.kernel_facts import Facts
from benchmarks.originals.cases import Original
from benchmarks.originals.inputs import result, written
from benchmarks.originals.launches import Heard, LaunchFacts, hearing, launch_facts
from benchmarks.originals.machine_code import Cycles, facts_of_ptx, predicted
from benchmarks.originals.programs import built
from fa4_cute.plan.facts.hardware import SM_COUNT
from sm100sim.command.program import run_program
from sm100sim.crew.recording import Recording
from sm100sim.launch_request import LaunchRequest
from testing.arguments import Arguments
from testing.reference.exact import attention_float64
from testing.runner import call

LATENT = 512
"""Columns of the keys that are the values of MLA decode."""


@dataclass(frozen=True)
class Side:
    """One kernel's results and launches.

    Attributes:
        max_error, rms_error: against float64.
        equal: share of elements with the bits of this package's; None for this package.
        launches: those with MMAs; helpers are counted only.
        helpers: launches without.
    """

    max_error: float
    rms_error: float
    equal: float | None
    launches: tuple[LaunchFacts, ...]
    helpers: int = 0


@dataclass(frozen=True)
class Row:
    """A comparison: ours, if there is one, and theirs by release."""

    name: str
    ours: Side | None
    theirs: dict[str, Side] = field(default_factory=dict)


def expected(original: Original, given: Arguments) -> torch.Tensor:
    """The exact result."""
    if original.program == "decode":
        return attention_float64(given.q, given.k, given.k[..., :LATENT], **given.options).out
    return attention_float64(*given.inputs, **given.options).out


def _code(request: LaunchRequest) -> Facts | None:
    try:
        return facts_of_ptx(request.ptx)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


def _cycles(recorded: Recording | None) -> Cycles | None:
    try:
        return predicted(recorded) if recorded else None
    except FileNotFoundError:
        return None


def side(
    out: torch.Tensor, exact: torch.Tensor, ours: torch.Tensor | None, heard: Heard
) -> Side:
    """Figures of a result and the launches that led to it.

    Raises:
        ValueError: the result is not finite, or a launch stopped.
    """
    stopped = [f for _, report, _ in heard for f in report.findings if f.fatal]
    if stopped:
        raise ValueError(f"a launch stopped: {stopped[0]}")
    error = (out.double() - exact).abs()
    if not torch.isfinite(error).all():
        raise ValueError(f"{int((~torch.isfinite(error)).sum())} elements are not finite")
    equal = None if ours is None else float((out == ours).double().mean())
    main = [one for one in heard if one[1].mma_instructions]
    launches = tuple(launch_facts(q, r, _code(q), _cycles(recorded)) for q, r, recorded in main)
    rms = float(error.square().mean().sqrt())
    return Side(float(error.max()), rms, equal, launches, len(heard) - len(main))


def theirs(
    original: Original, release: str, given: Arguments, **options: Any
) -> tuple[torch.Tensor, Heard]:
    """Run Modular's kernel of a release; returns its result and launches.

    Args:
        original: what is compared.
        release: of Modular.
        given: its inputs.
        options: fields of `RunOptions` other than the usual.

    Raises:
        RuntimeError: the program failed.
    """
    program = built(release, original.program, original.definitions)
    columns = LATENT if original.program == "decode" else given.v.shape[-1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = written(folder, original, given)
        with hearing(**options) as heard:
            ended = run_program([str(program), *words])
        if ended:
            stopped = [f for _, report, _ in heard for f in report.findings if f.fatal]
            raise RuntimeError(f"{original.name}, {release}: exit code {ended}; {stopped}")
        return result(folder, given, columns), heard


def compared(original: Original) -> Row:
    """Run both sides of a comparison; errors as :func:`side` and :func:`theirs`."""
    given = original.arguments()
    exact = expected(original, given)
    out, own = None, None
    if original.counterpart:
        with hearing() as heard:
            out = call(given, num_sms=SM_COUNT).out
        own = side(out, exact, None, heard)
    results = {release: theirs(original, release, given) for release in original.releases}
    return Row(
        original.name, own,
        {release: side(o, exact, out, heard) for release, (o, heard) in results.items()},
    )  # fmt: skip

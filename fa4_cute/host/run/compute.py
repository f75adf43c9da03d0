"""A call carried out: resolve it to a kernel and a problem, then pack its addresses and launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ...plan.facts.hardware import SM_COUNT
from ...plan.launch.launch import Workspace
from ...plan.spec.attention_spec import AttentionSpec
from ..ask.arguments import Batch, Inputs, Options
from ..ask.request import Request, request
from ..choose.support import Choice, choose, require
from ..compile import cache
from . import device, simulator
from .launch import Launched, PackedLaunch, pack_combine, pack_launch
from .operands import Call, describe_call, outputs_of


class Done(NamedTuple):
    """A call that was carried out.

    Attributes:
        out, lse: its results; LSE may be None.
        asked: the call.
        call: its memory; None where nothing was launched.
        launches: what was launched.
        spec: the kernel; None where nothing was launched.
    """

    out: Any
    lse: Any
    asked: Request
    call: Call | None = None
    launches: tuple[Launched, ...] = ()
    spec: AttentionSpec | None = None


def compute(inputs: Inputs, options: Options, batch: Batch | None = None) -> tuple[Any, Any]:
    """Return O, and LSE or None, of ``inputs`` (q, k, v); errors as ``fa4_cute.flash_attn``."""
    done = carry_out(inputs, options, batch)
    return done.out, done.lse


def carry_out(inputs: Inputs, options: Options, batch: Batch | None = None) -> Done:
    """Compute, and return with the results how it was done; errors as ``fa4_cute.flash_attn``."""
    asked, spec = _resolved(inputs, options, batch)
    if asked.problem.has_no_output or asked.problem.has_no_keys:
        return Done(*_filled(asked), asked)
    return _launched(asked, spec)


def _resolved(
    inputs: Inputs, options: Options, batch: Batch | None
) -> tuple[Request, AttentionSpec]:
    """Return the call, checked, and the kernel that was chosen for it. No address is looked at."""
    asked = request(inputs, options, batch)
    choice: Choice = require(choose(asked.problem))
    require(device.refusal_of(inputs[0], asked.problem.arch))
    problem = asked.problem.settled(choice.spec.variant, choice.num_splits)
    return replace(asked, problem=problem, posed=asked.problem), choice.spec


def _filled(asked: Request) -> tuple[Any, Any]:
    """Return the results of a call whose queries see no key, which no kernel computes."""
    out, lse = outputs_of(asked.problem, asked.inputs[0], asked.given)
    out.zero_()
    if lse is not None:
        lse.fill_(float("-inf"))
        if asked.tensors.sink is not None:
            lse.copy_(asked.tensors.sink.unsqueeze(-1).expand_as(lse))
    return out, lse


def _launched(asked: Request, spec: AttentionSpec) -> Done:
    """Launch the kernel of ``spec``, and after it the one that combines split keys."""
    artifact = cache.compiled(spec)
    if asked.inputs[0].device.type != "cpu":
        return _launched_on_cuda(asked, spec, artifact)

    def launch(call: Call, artifact: Any, packed: PackedLaunch) -> None:
        simulator.launch(artifact.ptx, artifact.kernel_name, packed, call.host_buffers())

    return _steps(asked, (spec, SM_COUNT), artifact, pack_launch, launch)


def _launched_on_cuda(asked: Request, spec: AttentionSpec, artifact: Any) -> Done:
    import torch

    launcher = device.launcher()
    index = asked.inputs[0].device.index

    def launch(_: Call, artifact: Any, packed: PackedLaunch) -> None:
        stream = torch.cuda.current_stream(index).cuda_stream
        launcher.launch(artifact, packed, index, stream)

    # Copies of unsuitable inputs are made on the same stream, so they are ready before the kernel
    # runs, and their memory is not handed out again before it ends; so are partial results.
    with torch.cuda.device(index):
        num_sms = launcher.num_sms(index)
        pack = partial(pack_launch, encode=launcher.encode, num_sms=num_sms)
        return _steps(asked, (spec, num_sms), artifact, pack, launch)


def _steps(
    asked: Request,
    kernel: tuple[AttentionSpec, int],
    artifact: Any,
    pack: Callable[..., PackedLaunch],
    launch: Callable[[Call, Any, PackedLaunch], None],
) -> Done:
    """Pack and launch; ``kernel`` is what was chosen, and the SMs of the device."""
    spec, num_sms = kernel
    problem = asked.problem
    workspace = Workspace.of(spec, problem.sizes, problem.features.count, num_sms)
    call = describe_call(problem, asked.inputs, asked.tensors, asked.given, workspace)
    launches = [Launched(artifact, spec.params, pack(spec, call.described))]
    launch(call, artifact, launches[0].packed)
    splits = call.splits(problem)
    if splits is not None:
        combine = cache.compiled(splits.spec)
        launches.append(Launched(combine, splits.spec.params, pack_combine(splits)))
        launch(call, combine, launches[1].packed)
    return Done(call.out, call.lse, asked, call, tuple(launches), spec)

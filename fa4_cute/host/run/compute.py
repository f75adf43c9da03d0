"""A call carried out: resolve it to a kernel and a problem, then pack its addresses and launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...plan.spec.attention_spec import AttentionSpec
from ..ask.arguments import Batch, Inputs, Options
from ..ask.request import Request, request
from ..choose.support import Choice, choose, require
from ..compile import cache
from . import device, simulator
from .launch import pack_combine, pack_launch
from .operands import Call, describe_call, new_outputs


def compute(inputs: Inputs, options: Options, batch: Batch | None = None) -> tuple[Any, Any]:
    """Return O, and LSE or None, of ``inputs`` (q, k, v); errors as ``fa4_cute.flash_attn``."""
    asked, spec = _resolved(inputs, options, batch)
    if asked.problem.has_no_output or asked.problem.has_no_keys:
        return _filled(asked)
    call = _launched(asked, spec)
    return call.out, call.lse


def _resolved(
    inputs: Inputs, options: Options, batch: Batch | None
) -> tuple[Request, AttentionSpec]:
    """Return the call, checked, and the kernel that was chosen for it. No address is looked at."""
    asked = request(inputs, options, batch)
    choice: Choice = require(choose(asked.problem))
    require(device.refusal_of(inputs[0]))
    problem = asked.problem.with_partition(choice.spec.variant.partition)
    return replace(asked, problem=problem), choice.spec


def _filled(asked: Request) -> tuple[Any, Any]:
    """Return the results of a call whose queries see no key, which no kernel computes."""
    out, lse = new_outputs(asked.problem, asked.inputs[0])
    out.zero_()
    if lse is not None:
        lse.fill_(float("-inf"))
        if asked.tensors.sink is not None:
            lse.copy_(asked.tensors.sink.unsqueeze(-1).expand_as(lse))
    return out, lse


def _launched(asked: Request, spec: AttentionSpec) -> Call:
    """Launch the kernel of ``spec``, and after it the one that combines split keys."""
    artifact = cache.compiled(spec)
    if asked.inputs[0].device.type != "cpu":
        return _launched_on_cuda(asked, spec, artifact)
    call = describe_call(asked.problem, asked.inputs, asked.tensors)
    packed = pack_launch(spec, call.described)
    simulator.launch(artifact.ptx, artifact.kernel_name, packed, call.host_buffers())
    splits = call.splits(asked.problem)
    if splits is not None:
        combine = cache.compiled(splits.spec)
        packed = pack_combine(splits)
        simulator.launch(combine.ptx, combine.kernel_name, packed, call.host_buffers())
    return call


def _launched_on_cuda(asked: Request, spec: AttentionSpec, artifact: Any) -> Call:
    import torch

    launcher = device.launcher()
    index = asked.inputs[0].device.index
    # Copies of unsuitable inputs are made on the same stream, so they are ready before the kernel
    # runs, and their memory is not handed out again before it ends; so are partial results.
    with torch.cuda.device(index):
        call = describe_call(asked.problem, asked.inputs, asked.tensors)
        packed = launcher.pack(spec, call.described, index)
        stream = torch.cuda.current_stream(index).cuda_stream
        launcher.launch(artifact, packed, index, stream)
        splits = call.splits(asked.problem)
        if splits is not None:
            launcher.launch(cache.compiled(splits.spec), pack_combine(splits), index, stream)
    return call

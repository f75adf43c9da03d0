"""A call carried out: choose the kernel, compile or load it, pack, launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...plan.spec.attention_spec import AttentionSpec
from ..ask.request import Batch, Inputs, Options, Request, request
from ..choose.support import Choice, choose, require
from ..compile import cache
from . import device, simulator
from .launch import pack_combine, pack_launch
from .operands import Call, describe_call, new_outputs


def compute(inputs: Inputs, options: Options, batch: Batch | None = None) -> tuple[Any, Any]:
    """Return O, and LSE or None, of ``inputs`` (q, k, v); errors as ``fa4_cute.flash_attn``."""
    asked = request(inputs, options, batch)
    problem = asked.problem
    choice: Choice = require(choose(problem))
    require(device.refusal_of(inputs[0]))
    if not (problem.has_no_output or problem.has_no_keys):
        return _launch(asked, choice.spec)
    out, lse = new_outputs(problem, inputs[0])
    out.zero_()
    if lse is not None:
        lse.fill_(float("-inf"))
        if asked.tensors.sink is not None:
            lse.copy_(asked.tensors.sink.unsqueeze(-1).expand_as(lse))
    return out, lse


def _launch(asked: Request, spec: AttentionSpec) -> tuple[Any, Any]:
    asked = replace(asked, problem=asked.problem.with_partition(spec.variant.partition))
    artifact = cache.compiled(spec)
    if asked.inputs[0].device.type != "cpu":
        call = _launch_on_cuda(asked, spec, artifact)
        return call.out, call.lse
    call = describe_call(asked.problem, asked.inputs, asked.tensors)
    packed = pack_launch(spec, call.described)
    simulator.launch(artifact.ptx, artifact.kernel_name, packed, call.host_buffers())
    shares = call.shares(asked.problem)
    if shares is not None:
        combine = cache.compiled(shares.spec)
        packed = pack_combine(shares)
        simulator.launch(combine.ptx, combine.kernel_name, packed, call.host_buffers())
    return call.out, call.lse


def _launch_on_cuda(asked: Request, spec: AttentionSpec, artifact: Any) -> Call:
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
        shares = call.shares(asked.problem)
        if shares is not None:
            launcher.launch(cache.compiled(shares.spec), pack_combine(shares), index, stream)
    return call

"""``combined``: results of calls over different keys, put together by the combine kernel."""

from __future__ import annotations

from typing import Any

from ...plan.facts.dtypes import DType
from ...plan.spec.combine_spec import CombineSpec
from ..ask.architecture import arch_for, capability_of
from ..ask.problem import dtype_name
from ..compile import cache
from . import device, simulator
from .launch import pack_combine
from .operands import extent, splits_of


def combined(out: Any, lse: Any) -> tuple[Any, Any]:
    """Return O and log-sum-exp over the keys of all calls.

    Args:
        out: (calls, ..., rows, heads, head_dim), contiguous, bfloat16 or float16: O of each call.
            It is not read where a call saw no key.
        lse: (calls, ..., heads, rows), float32: natural log-sum-exp, -inf where it saw no key.

    Returns:
        O (..., rows, heads, head_dim), 0 for a row without keys, and LSE (..., heads, rows).
    """
    import torch

    results = torch.empty_like(out[0]), torch.empty_like(lse[0])
    if not results[1].numel():
        return results
    of_rows = lse.transpose(-1, -2).contiguous()
    dtype, arch = DType(dtype_name(out.dtype)), arch_for(None, capability_of(out))
    spec = CombineSpec(dtype, out.shape[-1], True, arch, of_calls=True)
    artifact = cache.compiled(spec)
    packed = pack_combine(splits_of(spec, (out, of_rows), *results))
    if out.device.type == "cpu":
        buffers = [extent(tensor, writable=False) for tensor in (out, of_rows)]
        buffers += [extent(tensor, writable=True) for tensor in results]
        simulator.launch(artifact.ptx, artifact.kernel_name, packed, buffers)
        return results
    index = out.device.index
    with torch.cuda.device(index):
        stream = torch.cuda.current_stream(index).cuda_stream
        device.launcher().launch(artifact, packed, index, stream)
    return results

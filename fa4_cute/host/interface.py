"""The public calls: attention on tensors, and questions that need neither tensors nor a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import simulator
from ..plan.depth512_spec import AttentionSpec
from ..plan.launch import plan_launch
from ..plan.selection import LONG_PROMPT
from . import cache, device
from .launch import pack_launch
from .operands import Call, describe_call, new_outputs
from .problem import Problem, dtype_name
from .support import Choice, Refusal, Support, answer, choose, device_refusal, require

if TYPE_CHECKING:
    import torch


def flash_attn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    return_lse: bool = False,
) -> Any:
    """Compute ``softmax(softmax_scale * q k') v`` per head.

    CPU tensors run on ``sm100sim``, the virtual SM100; CUDA tensors run on devices of compute
    capability 10.x, on torch's current stream of their device. The inputs are never changed.
    Strided tensors are read in place where TMA can (last dimension contiguous, other strides
    multiples of 16 bytes, 16-byte aligned); others are copied. There is no backward pass.

    Args:
        q: (batch, seqlen_q, num_q_heads, head_dim), bfloat16 or float16.
        k: (batch, seqlen_k, num_kv_heads, head_dim); ``num_q_heads`` is a multiple of
            ``num_kv_heads``, and query head ``h`` reads key/value head
            ``h // (num_q_heads // num_kv_heads)``.
        v: shape of ``k``.
        causal: query ``i`` sees the keys ``j <= i + seqlen_k - seqlen_q`` (bottom-right aligned).
        softmax_scale: any finite number; None means ``1 / sqrt(head_dim)``.
        return_lse: also return the log-sum-exp of the scaled scores.

    Returns:
        O, contiguous, with shape and dtype of ``q``; or (O, LSE) with LSE float32 of shape
        (batch, num_q_heads, seqlen_q), natural logarithm. A query that sees no key has O = 0 and
        LSE = -inf.

    Raises:
        TypeError, ValueError, NotImplementedError: the arguments are wrong, or nothing here can
            run them; the message names the argument, its value and the nearest supported choice.
    """
    if _is_compiling():
        from . import torch_op

        out, lse = torch_op.attention(q, k, v, causal, softmax_scale, return_lse)
    else:
        out, lse = compute((q, k, v), causal, softmax_scale, return_lse)
    return (out, lse) if return_lse else out


def _is_compiling() -> bool:
    """Whether ``torch.compile`` is tracing; it could not follow a launch."""
    import torch

    return bool(torch.compiler.is_compiling())


def compute(
    inputs: tuple[Any, Any, Any], causal: bool, softmax_scale: float | None, return_lse: bool
) -> tuple[Any, Any]:
    """Return O, and LSE or None, of ``inputs`` (q, k, v); errors as :func:`flash_attn`."""
    problem = Problem.from_tensors(
        *inputs, causal=causal, softmax_scale=softmax_scale, return_lse=return_lse
    )
    choice: Choice = require(choose(problem))
    require(device.refusal_of(inputs[0]))
    if not (problem.has_no_output or problem.has_no_keys):
        return _launch(problem, choice.spec, inputs)
    out, lse = new_outputs(problem, inputs[0])
    out.zero_()
    if lse is not None:
        lse.fill_(float("-inf"))
    return out, lse


def _launch(problem: Problem, spec: AttentionSpec, inputs: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    artifact = cache.compiled(spec)
    if inputs[0].device.type == "cpu":
        call = describe_call(problem, inputs)
        packed = pack_launch(spec, call.described)
        simulator.launch(artifact.ptx, artifact.kernel_name, packed, call.host_buffers())
    else:
        call = _launch_on_cuda(problem, spec, artifact, inputs)
    return call.out, call.lse


def _launch_on_cuda(
    problem: Problem, spec: AttentionSpec, artifact: Any, inputs: tuple[Any, Any, Any]
) -> Call:
    import torch

    launcher = device.launcher()
    index = inputs[0].device.index
    # Copies of unsuitable inputs are made on the same stream, so they are ready before the kernel
    # runs, and their memory is not handed out again before it ends.
    with torch.cuda.device(index):
        call = describe_call(problem, inputs)
        packed = launcher.pack(spec, call.described)
        stream = torch.cuda.current_stream(index).cuda_stream
        launcher.launch(artifact, packed, index, stream)
    return call


def can_implement(
    q: Any = None,
    k: Any = None,
    v: Any = None,
    *,
    head_dim: int | None = None,
    head_dim_v: int | None = None,
    heads_q: int = 1,
    heads_k: int | None = None,
    dtype: Any = "bf16",
    batch: int = 1,
    seqlen_q: int = 1,
    seqlen_k: int | None = None,
    causal: bool = False,
    softmax_scale: float | None = None,
    return_lse: bool = False,
    device_type: str | None = None,
    compute_capability: tuple[int, int] | None = None,
) -> Support:
    """Say whether :func:`flash_attn` would run a problem, and if not, why; no device is needed.

    Give either the tensors, or ``head_dim`` and whatever else matters; sizes that are left out are
    1 (``heads_k`` and ``seqlen_k``: as for the queries).

    Args:
        q, k, v: tensors as for :func:`flash_attn`; they answer for their shapes and their device.
        head_dim, head_dim_v: elements per row of q and k, and of v (default: ``head_dim``).
        heads_q, heads_k: query heads and key/value heads.
        dtype: a torch dtype or a name such as ``"bf16"`` or ``"float16"``.
        batch, seqlen_q, seqlen_k: further sizes.
        causal, softmax_scale, return_lse: as for :func:`flash_attn`.
        device_type: ``"cpu"``, ``"cuda"`` or another torch device type; None leaves it open.
        compute_capability: that of the ``cuda`` device, such as ``(10, 0)``.

    Returns:
        :class:`Support`, true or false, with the kernel or the reason and the nearest choice.

    Raises:
        TypeError: neither tensors nor ``head_dim`` are given, or a size is no integer.
    """
    if any(tensor is not None for tensor in (q, k, v)):
        if head_dim is not None:
            raise TypeError("head_dim: give either tensors or sizes, not both")
        options = {"causal": causal, "softmax_scale": softmax_scale, "return_lse": return_lse}
        return _can_run((q, k, v), options)
    try:
        problem = _described(
            head_dim=head_dim, head_dim_v=head_dim_v, heads_q=heads_q, heads_k=heads_k,
            dtype=dtype, batch=batch, seqlen_q=seqlen_q, seqlen_k=seqlen_k, causal=causal,
            softmax_scale=softmax_scale, return_lse=return_lse,
        )  # fmt: skip
    except ValueError as error:
        return Support(False, str(error))
    result: Choice | Refusal = choose(problem)
    if isinstance(result, Choice) and device_type is not None:
        result = device_refusal(device_type, compute_capability) or result
    return answer(result)


def _can_run(inputs: tuple[Any, Any, Any], options: Mapping[str, Any]) -> Support:
    try:
        problem = Problem.from_tensors(*inputs, **options)
    except (TypeError, ValueError, NotImplementedError) as error:
        return Support(False, str(error))
    result = choose(problem)
    if isinstance(result, Choice):
        result = device.refusal_of(inputs[0]) or result
    return answer(result)


def _described(
    *,
    head_dim: int | None = None,
    head_dim_v: int | None = None,
    heads_q: int = 1,
    heads_k: int | None = None,
    dtype: Any = "bf16",
    batch: int = 1,
    seqlen_q: int = 1,
    seqlen_k: int | None = None,
    causal: bool = False,
    softmax_scale: float | None = None,
    return_lse: bool = False,
) -> Problem:
    if head_dim is None:
        raise TypeError("head_dim: give tensors q, k and v, or at least head_dim")
    return Problem(
        dtype=dtype_name(dtype),
        batch=batch,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_q if seqlen_k is None else seqlen_k,
        num_q_heads=heads_q,
        num_kv_heads=heads_q if heads_k is None else heads_k,
        head_dim=head_dim,
        head_dim_v=head_dim if head_dim_v is None else head_dim_v,
        causal=causal,
        softmax_scale=softmax_scale,
        return_lse=return_lse,
    )


def explain(q: Any = None, k: Any = None, v: Any = None, **sizes: Any) -> str:
    """Return as text which kernel, configuration and schedule a problem gets, or why none does.

    Args:
        q, k, v: tensors, or
        sizes: the keyword arguments of :func:`can_implement`.

    Raises:
        TypeError: as :func:`can_implement`.
    """
    support = can_implement(q, k, v, **sizes)
    if not support:
        nearest = f"\nnearest supported choice: {support.nearest}" if support.nearest else ""
        return f"not supported: {support.reason}{nearest}"
    problem = (
        _described(**{n: value for n, value in sizes.items() if n not in _DEVICE_ARGUMENTS})
        if q is None
        else Problem.from_tensors(q, k, v, **sizes)
    )
    choice: Choice = require(choose(problem))
    lines = [f"kernel {choice.row.name} ({choice.spec.name})"]
    lines += [choice.query_tiles.text] if choice.query_tiles else []
    lines.append(choice.spec.config.describe())
    if problem.has_no_output or problem.has_no_keys:
        lines.append("nothing to launch: the output is filled on the host")
    else:
        plan = plan_launch(choice.spec, problem.sizes, problem.scale)
        lines.append(f"grid {plan.grid} x block {plan.block}, cluster {plan.cluster}")
    lines.append(choice.spec.schedule.describe())
    return "\n".join(lines)


_DEVICE_ARGUMENTS = frozenset({"device_type", "compute_capability"})


def warmup(problems: Iterable[Mapping[str, Any]]) -> list[str]:
    """Compile kernels ahead of their first use, or load them from the cache.

    Args:
        problems: one mapping per kernel with keyword arguments of :func:`can_implement`, such as
            ``{"head_dim": 128, "dtype": "bf16", "causal": True}``. Key lengths, heads with the
            same ratio, and the scale share a kernel. The number of queries decides how many Q tiles
            a CTA takes; without ``seqlen_q`` the kernels for few and for many are compiled.

    Returns:
        The kernels' names, in order, each once.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`flash_attn`, for the first problem
            that cannot be run; nothing is compiled in that case.
    """
    described = [sizes for problem in problems for sizes in _all_lengths(problem)]
    choices: list[Choice] = [require(choose(_described(**sizes))) for sizes in described]
    specs = dict.fromkeys(choice.spec for choice in choices)
    return [cache.compiled(spec).kernel_name for spec in specs]


def _all_lengths(problem: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return ``problem`` with each number of queries that may change its kernel."""
    if "seqlen_q" in problem:
        return (problem,)
    return problem, {**problem, "seqlen_q": LONG_PROMPT}

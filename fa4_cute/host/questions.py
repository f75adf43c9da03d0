"""Questions that need no device, and mostly no tensors: is a problem supported, and by what?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..plan.facts.hardware import SM90A
from ..plan.launch.launch import plan_launch
from ..plan.launch.tiles import TileShape
from ..plan.masks.masks import NULL
from ..plan.spec.attention_spec import AttentionSpec
from ..plan.spec.combine_spec import CombineSpec
from .ask.architecture import arch_for
from .ask.arguments import Inputs, options_and_batch
from .ask.checks import check_count, check_name, kind_of
from .ask.described import DESCRIPTION, described
from .ask.names import check_names
from .ask.request import request
from .choose.asked import predicted_for_asked
from .choose.equal_lengths import predicted_if_equal
from .choose.open_sizes import may_differ, open_sizes
from .choose.refusals import Refusal, device_refusal
from .choose.specify import combine_spec
from .choose.support import Choice, Support, answer, choose, require
from .compile import cache
from .run import device


def can_implement(
    q: Any = None,
    k: Any = None,
    v: Any = None,
    *,
    head_dim: int | None = None,
    device_type: str | None = None,
    compute_capability: tuple[int, int] | None = None,
    **options: Any,
) -> Support:
    """Say whether :func:`flash_attn` would run a problem, and if not, why; no device is needed.

    Give either the tensors, or ``head_dim`` and whatever else matters; sizes that are left out
    count as 1 (``heads_k`` and ``seqlen_k``: the same as for the queries).

    Args:
        q, k, v: tensors as for :func:`flash_attn` or, with ``cu_seqlens_q``, for
            :func:`flash_attn_varlen`; the question is about their shapes and their device, and
            ``options`` are the other arguments of that call.
        head_dim: elements per row of q and k.
        device_type: ``"cpu"``, ``"cuda"`` or another torch device type; None leaves it open, unless
            there is a ``compute_capability``.
        compute_capability: that of the ``cuda`` device, such as ``(10, 0)``; others than 10.x and
            9.0 have no kernels.
        options: without tensors: ``head_dim_v`` (default: ``head_dim``), ``heads_q``, ``heads_k``,
            ``dtype`` (a torch dtype or a name, default ``"bf16"``), ``batch``, ``seqlen_q``,
            ``seqlen_k``, ``total_q`` (queries of all packed sequences; default: as many in each as
            in the longest); ``causal``, ``softmax_scale``, ``return_lse``, ``mask``,
            ``window_size``, ``score_mod``, ``softcap``, ``aux_tensors``, ``num_splits``, ``split``,
            ``scheduler`` and ``num_qo`` as for the call; ``rope_dtype``, the type of the columns
            beyond ``head_dim_v`` if it is not that of the others, and ``shared_rope``, whether one
            head of k has them for all; ``pair_cta``, whether two CTAs share an MMA; ``arch``, by
            default that of ``compute_capability``; and ``sink``, ``ragged_q``,
            ``ragged_k``, ``used_k``, ``token_scales`` (True or False) and ``page_size``.

    Returns:
        :class:`Support`, true or false, with the kernel or the reason and the nearest choice.

    Raises:
        TypeError: neither tensors nor ``head_dim`` are given, a size is not an integer, or an
            option does not exist.
    """
    if any(tensor is not None for tensor in (q, k, v)):
        if head_dim is not None:
            raise TypeError("head_dim: give either tensors or sizes, not both")
        return _can_run((q, k, v), options)
    check_names(options, DESCRIPTION)
    _check_device(device_type, compute_capability)
    try:
        problem = described(
            head_dim=head_dim, compute_capability=compute_capability, **options
        )
    except ValueError as error:
        return Support(False, str(error))
    result: Choice | Refusal = choose(problem)
    if isinstance(result, Choice):
        result = _refusal_of_device(device_type, compute_capability, problem.arch) or result
    return answer(result)


def _refusal_of_device(
    device_type: str | None, compute_capability: tuple[int, int] | None, arch: str
) -> Refusal | None:
    """Return why no kernel runs on a described device, or None; one of a capability is ``cuda``."""
    if device_type is None and compute_capability is None:
        return None
    return device_refusal(device_type or "cuda", compute_capability, arch=arch)


def _check_device(device_type: Any, compute_capability: Any) -> None:
    if device_type is not None:
        check_name("device_type", device_type)
    if compute_capability is None:
        return
    if not isinstance(compute_capability, tuple) or len(compute_capability) != 2:
        raise TypeError(
            f"compute_capability={compute_capability!r}: expected (major, minor); nearest "
            f"supported choice: (10, 0)"
        )
    for number in compute_capability:
        check_count("compute_capability", number, 0, "(10, 0)")


def _can_run(inputs: Inputs, options: Mapping[str, Any]) -> Support:
    sorted_options = options_and_batch(options)
    try:
        problem = request(inputs, *sorted_options).problem
    except (TypeError, ValueError, NotImplementedError) as error:
        return Support(False, str(error))
    result = choose(problem)
    if isinstance(result, Choice):
        result = device.refusal_of(inputs[0], problem.arch) or result
    return answer(result)


def explain(q: Any = None, k: Any = None, v: Any = None, **options: Any) -> str:
    """Return as text which kernel, configuration and schedule a problem gets, or why none does.

    Args:
        q, k, v: tensors, or None.
        options: the keyword arguments of :func:`can_implement`.

    Raises:
        TypeError: as :func:`can_implement`.
    """
    support = can_implement(q, k, v, **options)
    if not support:
        nearest = f"\nnearest supported choice: {support.nearest}" if support.nearest else ""
        return f"not supported: {support.reason}{nearest}"
    if q is None:
        rest = {name: value for name, value in options.items() if name != "device_type"}
        problem = described(**rest)
    else:
        rest = {name: value for name, value in options.items() if name not in _DEVICE_ARGUMENTS}
        problem = request((q, k, v), *options_and_batch(rest)).problem
    choice: Choice = require(choose(problem))
    lines = [f"kernel {choice.row.name} ({choice.spec.name})"]
    decisions = (choice.query_tiles, choice.scheduler, choice.key_splits, choice.split)
    lines += [decision.text for decision in decisions if decision]
    lines += predicted_for_asked(problem, choice.spec)
    lines += predicted_if_equal(problem, choice.spec)
    lines += [choice.spec.config.describe(), *_feature_lines(choice)]
    if problem.has_no_output or problem.has_no_keys:
        lines.append("nothing to launch: the output is filled on the host")
    else:
        plan = plan_launch(
            choice.spec, problem.sizes, problem.scale, choice.num_splits, problem.sms
        )
        lines.append(f"grid {plan.grid} x block {plan.block}, cluster {plan.cluster}")
        lines += choice.whole_keys(problem, plan.grid)
    lines.append(choice.spec.schedule.describe())
    return "\n".join(lines)


_DEVICE_ARGUMENTS = frozenset({"device_type", "compute_capability"})


def _feature_lines(choice: Choice) -> list[str]:
    """Say what the kernel is specialised on besides shapes, and what that means for it."""
    variant = choice.spec.variant
    lines = []
    if variant.mask != NULL:
        is_ordered = variant.longest_first and not variant.streams_keys
        order = "; the longest query tiles start first" if is_ordered else ""
        lines.append(f"mask {variant.mask.name}: {len(variant.terms)} intervals a row{order}")
    if variant.modifies_scores:
        lines.append("scores are scaled before the softmax, because something is done to them")
    if variant.partial_values:
        lines.append("keys end inside a tensor: the last tile's values are cleaned before use")
    if variant.token_scales:
        lines.append("a scale for every token of q and k: scores are multiplied by both first")
    if variant.by_rows:
        lines.append(
            "packed sequences differ: query tiles are counted by the rows of all of them, and "
            "warps find the sequence of theirs"
        )
    if variant.streams_keys:
        lines.append(
            "stream-K: the key tiles of all query tiles in a line, of which every CTA takes as many"
        )
    elif variant.is_persistent:
        lines.append(_persistent_line(choice.spec.cluster_size, is_dynamic=variant.is_dynamic))
    if variant.is_split:
        who = "a second kernel" if variant.is_combined else "the last CTA of a query tile"
        lines.append(f"keys are split; {who} weighs the partial results, float32")
    if variant.in_cluster:
        lines.append("keys are split; the CTAs of a cluster add up their results, a band each")
    if variant.extra_names:
        lines.append(f"further parameters: {', '.join(variant.extra_names)}")
    return lines


def _persistent_line(cluster_size: int, *, is_dynamic: bool) -> str:
    if is_dynamic:
        workers = "a CTA" if cluster_size == 1 else "a pair of CTAs"
        return f"dynamic: {workers} for every query tile; one that runs takes over others' tiles"
    workers = "a CTA for every SM" if cluster_size == 1 else "a pair of CTAs for every two SMs"
    return f"persistent: {workers}, which takes query tile after query tile"


def warmup(problems: Iterable[Mapping[str, Any]]) -> list[str]:
    """Compile kernels ahead of their first use, or load them from the cache.

    Args:
        problems: one mapping per kernel with keyword arguments of :func:`can_implement`, such as
            ``{"head_dim": 128, "dtype": "bf16", "causal": True}``. Problems that differ
            only in key lengths, scale, or numbers of heads of the same ratio share a kernel.
            Sizes decide how many Q tiles a CTA takes, who takes them, splits, and whether a window
            hides anything: where ``seqlen_q`` or ``seqlen_k`` is missing, the kernels of many
            lengths and, without ``batch``, of many batches are compiled, up to eleven, of a window
            twice as many; name them to compile fewer.
            Packed queries without ``total_q`` get the kernels of sequences of one length and of
            sequences that differ, up to twice as many.

    Returns:
        The names of the kernels, in order and each once; also of those that combine split keys.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`flash_attn`, for the first problem
            that cannot be run; nothing is compiled in that case.
    """
    if not isinstance(problems, Iterable):
        raise _no_mapping(problems)
    specs = dict.fromkeys(spec for problem in problems for spec in _all_specs(problem))
    return [cache.compiled(spec).kernel_name for spec in specs]


def _all_specs(problem: Mapping[str, Any]) -> Iterator[AttentionSpec | CombineSpec]:
    """Yield the kernels that a call of ``problem`` may choose."""
    for sizes in _all_sizes(problem):
        posed = described(**sizes)
        require(_refusal_of_device(None, sizes.get("compute_capability"), posed.arch))
        spec: AttentionSpec = require(choose(posed)).spec
        yield spec
        if spec.may_count_rows and may_differ(problem, TileShape.of(spec.config).positions):
            yield replace(spec, variant=replace(spec.variant, by_rows=True))
        if spec.variant.is_combined:
            yield combine_spec(posed)


def _all_sizes(problem: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield ``problem`` with each size that may change its kernel; on Hopper split too."""
    if not isinstance(problem, Mapping):
        raise _no_mapping(problem)
    check_names(problem, {"head_dim", *DESCRIPTION})
    _check_device(None, problem.get("compute_capability"))
    arch = arch_for(problem.get("arch"), problem.get("compute_capability"))
    for sizes in open_sizes(problem):
        yield sizes
        if arch == SM90A and not {"seqlen_k", "num_splits"} & problem.keys():
            yield {**sizes, "num_splits": 2}


def _no_mapping(value: Any) -> TypeError:
    got = kind_of(value)
    return TypeError(f"problems: expected mappings such as {{'head_dim': 128}}, got {got}")

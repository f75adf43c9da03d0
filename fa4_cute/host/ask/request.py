"""``Request``: one call, checked: its problem, its operands and the tensors of its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...plan.spec.variant import Partition, Scheduler
from .architecture import arch_for, capability_of, check_arch, num_sms_of
from .arguments import Batch, Inputs, Options
from .checks import DENSE, PACKED, PAGED, Layout, check_count, check_inputs
from .features import NO_TENSORS, PLAIN, Features, FeatureTensors
from .outputs import NEW, Outputs, given_outputs
from .problem import Problem
from .scales import scales_of, token_scales_of
from .score_changes import ScoreChanges, score_changes
from .sequences import Sequences, sequences

PARTITIONS: Final = {kind.name.lower(): kind for kind in Partition if kind is not Partition.NONE}
SCHEDULERS: Final = {kind.name.lower(): kind for kind in Scheduler}


@dataclass(frozen=True, eq=False)
class Request:
    """A call that fits together.

    Attributes:
        problem: its facts.
        posed: the same with all that the call left open, where ``problem`` leaves nothing open.
        inputs: q, k and v as they were given.
        tensors: what the features add.
        given: tensors for the results.
    """

    problem: Problem
    inputs: Inputs
    tensors: FeatureTensors = NO_TENSORS
    given: Outputs = NEW
    posed: Problem | None = None


def request(inputs: Inputs, options: Options, batch: Batch | None = None) -> Request:
    """Return the call of ``inputs`` (q, k, v), with everything checked that can be.

    Raises:
        TypeError, ValueError, NotImplementedError: an argument is wrong, or two of them do not fit
            together; the message names them.
    """
    batch = Batch() if batch is None else batch
    check_inputs(inputs, options, _layouts(batch))
    check_arch(options.arch)
    where = sequences(inputs, batch, unchecked=options.unchecked)
    if options.is_plain and batch.is_plain:
        features, tensors = PLAIN, NO_TENSORS
    else:
        features, tensors = _featured(inputs, options, where)
    problem = Problem.from_shapes(
        *inputs,
        where=where,
        features=features,
        scales=scales_of(options, inputs[0]),
        num_qo=options.num_qo,
        pair_cta=options.pair_cta,
        arch=arch_for(options.arch, capability_of(inputs[0])),
        num_sms=num_sms_of(inputs[0]),
        causal=options.causal,
        softmax_scale=options.softmax_scale,
        return_lse=options.return_lse,
        rope=options.rope,
    )
    read = (*tensors.all(), tensors.q_rope, tensors.k_rope)
    return Request(problem, inputs, tensors, given_outputs(options, inputs, read))


def _layouts(batch: Batch) -> tuple[Layout, Layout]:
    """Return the dimensions of q, and of k and v."""
    of_q = DENSE if batch.cu_seqlens_q is None else PACKED
    if batch.page_table is not None:
        return of_q, PAGED
    return of_q, DENSE if batch.cu_seqlens_k is None else PACKED


def _featured(
    inputs: Inputs, options: Options, where: Sequences
) -> tuple[Features, FeatureTensors]:
    """Return what a kernel is specialised on, and the tensors that go with it."""
    split, scheduler = split_of(options.split, options.num_splits), scheduler_of(options.scheduler)
    if options.num_splits is not None:
        check_count("num_splits", options.num_splits, 1)
    changes = score_changes(options, inputs, where)
    q_scale, k_scale = token_scales_of(options, *inputs[:2], where=where)
    features = Features(
        mask=changes.mask,
        score_mod=changes.score_mod,
        sink=changes.sink is not None,
        ragged_q=where.cu_seqlens_q is not None,
        ragged_k=where.cu_seqlens_k is not None,
        used_k=where.seqused_k is not None,
        page_size=where.page_size,
        num_splits=options.num_splits,
        split=split,
        scheduler=scheduler,
        token_scales=q_scale is not None,
    )
    return features, _tensors(options, where, changes, q_scale=q_scale, k_scale=k_scale)


def _tensors(
    options: Options, where: Sequences, changes: ScoreChanges, *, q_scale: Any, k_scale: Any
) -> FeatureTensors:
    return FeatureTensors(
        padding=changes.padding,
        biases=changes.biases,
        aux=changes.aux,
        sink=changes.sink,
        cu_seqlens_q=where.cu_seqlens_q,
        cu_seqlens_k=where.cu_seqlens_k,
        seqused_k=where.seqused_k,
        page_table=where.page_table,
        q_scale=q_scale,
        k_scale=k_scale,
        q_rope=options.q_rope,
        k_rope=options.k_rope,
    )


def split_of(value: Any, num_splits: int | None) -> Partition | None:
    """Return the partition of that name; None leaves it open, and so does a single split.

    Raises:
        TypeError: it is no name, or there is no ``num_splits`` to go with it.
        ValueError: there is none of that name.
    """
    if value is None:
        return None
    names = PARTITIONS
    if not isinstance(value, str):
        raise TypeError(f"split={value!r}: expected one of {', '.join(names)} or None")
    if value not in names:
        raise ValueError(f"split={value!r}: nearest supported choice: {' or '.join(names)}")
    if num_splits is None:
        raise TypeError(
            f"split={value!r}: says where the results of split keys meet; nearest supported "
            f"choice: num_splits=2 with it"
        )
    return None if num_splits == 1 else names[value]


def scheduler_of(value: Any) -> Scheduler | None:
    """Return the scheduler of that name; None leaves it to the kernel.

    Raises:
        TypeError, ValueError: there is none.
    """
    names = SCHEDULERS
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"scheduler={value!r}: expected one of {', '.join(names)} or None")
    if value not in names:
        raise ValueError(f"scheduler={value!r}: nearest supported choice: {' or '.join(names)}")
    return names[value]

"""``Request``: one call, checked: its problem, its operands and the tensors of its features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...plan.spec.tensor_maps import ROPE_OPERANDS
from ...plan.spec.variant import Partition, Scheduler
from ...score_mods import Derived
from . import checks
from .checks import DENSE, PACKED, PAGED, check_count, check_operands
from .features import (
    NO_TENSORS,
    PLAIN,
    Features,
    FeatureTensors,
    Modifiers,
    bias_tensor,
    check_slopes,
    float_tensor,
    sink_tensor,
)
from .lengths import (
    Extents,
    Integers,
    check_counts,
    check_pages,
    integers,
    longest,
    sequence_lengths,
)
from .problem import Problem
from .scales import GivenScales, scales_of, token_scales_of

Inputs = tuple[Any, Any, Any]


@dataclass(frozen=True, eq=False)
class Request:
    """A call that fits together.

    Attributes:
        problem: its facts.
        inputs: q, k and v as they were given.
        tensors: what the features add.
    """

    problem: Problem
    inputs: Inputs
    tensors: FeatureTensors = NO_TENSORS


@dataclass(frozen=True, eq=False)
class Options:
    """The arguments of a call beside q, k and v; each as in the public functions."""

    causal: bool = False
    softmax_scale: float | None = None
    return_lse: bool = False
    modifiers: Modifiers | None = None
    num_splits: int | None = None
    scheduler: str | None = None
    unchecked: bool = False
    scales: GivenScales | None = None
    num_qo: int | None = None
    rope: tuple[Any, Any] | None = None
    pair_cta: bool = False
    split: str | None = None


@dataclass(frozen=True, eq=False)
class Batch:
    """The arguments that say where sequences lie; each as in the public functions."""

    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_k: Any = None
    page_table: Any = None
    max_seqlen_q: int | None = None
    max_seqlen_k: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether every sequence is an entry of dense tensors, as long as they are."""
        given = (self.cu_seqlens_q, self.cu_seqlens_k, self.seqused_k, self.page_table)
        return all(value is None for value in given)


def request(inputs: Inputs, options: Options, batch: Batch | None = None) -> Request:
    """Return the call of ``inputs`` (q, k, v), with everything checked that can be.

    Raises:
        TypeError, ValueError, NotImplementedError: an argument is wrong, or two of them do not fit
            together; the message names them.
    """
    batch = Batch() if batch is None else batch
    layouts = (
        DENSE if batch.cu_seqlens_q is None else PACKED,
        PAGED if batch.page_table is not None else DENSE if batch.cu_seqlens_k is None else PACKED,
    )
    check_operands(*inputs, layouts=layouts)
    checks.check_no_grad(dict(zip("qkv", inputs, strict=True)))
    checks.check_flag("unchecked", options.unchecked)
    if options.rope is not None:
        checks.check_rope(options.rope, inputs, layouts)
        checks.check_no_grad(dict(zip(ROPE_OPERANDS, options.rope, strict=True)))
    features, tensors, extents = PLAIN, NO_TENSORS, None
    if not batch.is_plain:
        features, tensors, extents = _sequences(inputs, batch, unchecked=options.unchecked)
    if _has_choices(options):
        features = replace(
            features,
            num_splits=_num_splits(options.num_splits),
            split=split_of(options.split, options.num_splits),
            scheduler=scheduler_of(options.scheduler),
        )
    if extents is None:
        extents = Extents(inputs[0].shape[0], inputs[0].shape[1], inputs[1].shape[1])
    if options.modifiers is not None:
        features, tensors = _modified(inputs, options, (features, tensors), extents)
    tokens = token_scales_of(
        options.scales,
        *inputs[:2],
        pages=batch.page_table is not None,
        cu_seqlens_k=tensors.cu_seqlens_k,
    )
    if tokens is not None:
        features = replace(features, token_scales=True)
        tensors = replace(tensors, q_scale=tokens.q, k_scale=tokens.k)
    if options.rope is not None:
        tensors = replace(tensors, q_rope=options.rope[0], k_rope=options.rope[1])
    problem = Problem.from_shapes(
        *inputs,
        extents=extents,
        features=features,
        scales=scales_of(options.scales, inputs[0]),
        num_qo=options.num_qo,
        pair_cta=options.pair_cta,
        causal=options.causal,
        softmax_scale=options.softmax_scale,
        return_lse=options.return_lse,
        rope=options.rope,
    )
    return Request(problem, inputs, tensors)


def _has_choices(options: Options) -> bool:
    chosen = (options.num_splits, options.scheduler, options.split)
    return any(choice is not None for choice in chosen)


def _num_splits(value: int | None) -> int:
    if value is None:
        return 1
    check_count("num_splits", value, 1)
    return value


def split_of(value: Any, num_splits: int | None) -> Partition | None:
    """Return the partition of that name; None leaves it open, and so does a single part.

    Raises:
        TypeError: it is no name, or there is no ``num_splits`` to go with it.
        ValueError: there is none of that name.
    """
    if value is None:
        return None
    names = {kind.name.lower(): kind for kind in Partition if kind is not Partition.NONE}
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


def scheduler_of(value: Any) -> Scheduler:
    """Return the scheduler of that name; None is the usual one.

    Raises:
        TypeError, ValueError: there is none.
    """
    names = {kind.name.lower(): kind for kind in Scheduler}
    if value is None:
        return Scheduler.TILE
    if not isinstance(value, str):
        raise TypeError(f"scheduler={value!r}: expected one of {', '.join(names)} or None")
    if value not in names:
        raise ValueError(f"scheduler={value!r}: nearest supported choice: {' or '.join(names)}")
    return names[value]


def _sequences(
    inputs: Inputs, batch: Batch, *, unchecked: bool
) -> tuple[Features, FeatureTensors, Extents]:
    """Check where sequences lie."""
    q, k, _ = inputs
    if batch.cu_seqlens_k is not None and batch.page_table is not None:
        raise ValueError(
            "cu_seqlens_k: keys of a paged cache have no row offsets; nearest supported choice: "
            "seqused_k with page_table"
        )
    if batch.page_table is not None and batch.seqused_k is None:
        raise ValueError("page_table: a paged cache needs seqused_k, the keys of each sequence")

    def read(name: str, *layout: str) -> Integers | None:
        value = getattr(batch, name)
        return None if value is None else integers(name, value, layout, q, unchecked=unchecked)

    cu_q, cu_k = read("cu_seqlens_q", "batch + 1"), read("cu_seqlens_k", "batch + 1")
    used, table = read("seqused_k", "batch"), read("page_table", "batch", "pages_per_row")
    lengths_q = None if cu_q is None else sequence_lengths(cu_q, q.shape[0], whole=True)
    count = q.shape[0] if cu_q is None else cu_q.count - 1
    seqlen_q = (
        q.shape[1]
        if cu_q is None
        else longest("max_seqlen_q", batch.max_seqlen_q, lengths_q, otherwise=None)
    )
    seqlen_k, used_k = _keys(k, (cu_k, used, table), count, batch.max_seqlen_k)
    features = Features(
        ragged_q=cu_q is not None,
        ragged_k=cu_k is not None,
        used_k=used is not None,
        page_size=0 if table is None else k.shape[1],
    )
    tensors = FeatureTensors(
        cu_seqlens_q=None if cu_q is None else cu_q.tensor,
        cu_seqlens_k=None if cu_k is None else cu_k.tensor,
        seqused_k=None if used is None else used.tensor,
        page_table=None if table is None else table.tensor,
    )
    return features, tensors, Extents(count, seqlen_q, seqlen_k, used_k)


def _keys(
    k: Any, given: tuple[Integers | None, ...], count: int, max_seqlen_k: int | None
) -> tuple[int, int | None]:
    """Check what says where keys lie; return the room for keys and, if known, the most of them."""
    offsets, used, table = given
    lengths: list[int] | None = None
    if table is not None and used is not None:
        _check_rows("page_table", table.tensor.shape[0], count)
        check_pages(table, used, page_size=k.shape[1], num_pages=k.shape[0])
        capacity: int | None = table.tensor.shape[1] * k.shape[1]
    elif offsets is not None:
        lengths = sequence_lengths(offsets, k.shape[0], whole=False)
        _check_rows("cu_seqlens_k", offsets.count - 1, count)
        capacity = None
    else:
        _check_rows("k", k.shape[0], count)
        lengths, capacity = [k.shape[1]] * count, k.shape[1]
    if used is not None:
        check_counts(used, count, lengths, "keys of the sequence")
        lengths = used.values
    if max_seqlen_k is None and capacity is not None:
        # The room for keys changes less often than their number, and so fewer launches are planned.
        return capacity, None if lengths is None else max(lengths, default=0)
    return longest("max_seqlen_k", max_seqlen_k, lengths, otherwise=None), None


def _check_rows(name: str, have: int, batch: int) -> None:
    if have != batch:
        raise ValueError(f"{name}: {have} sequences, but the queries have {batch}")


def _modified(
    inputs: Inputs,
    options: Options,
    known: tuple[Features, FeatureTensors],
    extents: Extents,
) -> tuple[Features, FeatureTensors]:
    """Check what changes the scores."""
    features, tensors = known
    given, q = options.modifiers, inputs[0]
    assert given is not None
    mask, modifier = given.full_mask(), given.modifier()
    if modifier is not None:
        check_slopes(modifier, q, extents.batch)
    lengths = []
    for tensor in mask.lengths:
        found = integers("padding lengths", tensor, ("batch",), q, unchecked=options.unchecked)
        check_counts(found, extents.batch, None, "")
        lengths.append(found.tensor)
    sizes = (extents.batch, q.shape[-2], extents.seqlen_q, extents.most_keys)
    sink = given.sink
    features = replace(
        features,
        mask=mask.plan,
        score_mod=None if modifier is None else modifier.plan,
        sink=sink is not None,
    )
    aux = () if modifier is None else tuple(_aux(modifier.tensors, inputs, tensors, extents))
    return features, replace(
        tensors,
        padding=tuple(lengths),
        biases=tuple(bias_tensor("bias", tensor, q, sizes) for tensor in mask.biases),
        aux=aux,
        sink=None if sink is None else sink_tensor(sink, q, unchecked=options.unchecked),
    )


def _aux(
    wanted: tuple[Any, ...], inputs: Inputs, tensors: FeatureTensors, extents: Extents
) -> Iterator[Any]:
    """Yield the auxiliary tensors as float32, those included that follow from the lengths."""
    q = inputs[0]
    for i, tensor in enumerate(wanted):
        if tensor is Derived.OFFSETS:
            yield _offsets(inputs, tensors, extents)
        elif isinstance(tensor, Derived):
            raise TypeError(f"aux_tensors[{i}]={tensor}: no rule makes it")
        else:
            layout = tuple(f"size{axis}" for axis in range(tensor.dim()))
            yield float_tensor(f"aux_tensors[{i}]", tensor, layout, q)


def _offsets(inputs: Inputs, tensors: FeatureTensors, extents: Extents) -> Any:
    """Return keys minus queries of every sequence, computed where the lengths are."""
    import torch

    q = inputs[0]
    queries = keys = None
    if tensors.cu_seqlens_q is not None:
        queries = tensors.cu_seqlens_q.diff()
    if tensors.seqused_k is not None:
        keys = tensors.seqused_k
    elif tensors.cu_seqlens_k is not None:
        keys = tensors.cu_seqlens_k.diff()
    plain = torch.zeros(extents.batch, dtype=torch.int32, device=q.device)
    of_keys = plain + inputs[1].shape[1] if keys is None else keys
    of_queries = plain + q.shape[1] if queries is None else queries
    return (of_keys - of_queries).float()

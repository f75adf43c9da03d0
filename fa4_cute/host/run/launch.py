"""Pack one call: operand addresses and layouts become the bytes of every kernel parameter.

Nothing here touches a device or the DSL. The encoder of tensor maps is an argument: our own for
host memory, the driver's on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...plan.facts.hardware import SM_COUNT
from ...plan.facts.tensor_map_bits import TensorMapFields, encode_tensor_map
from ...plan.launch.launch import LaunchPlan, plan_combine, plan_launch
from ...plan.launch.tiles import AttentionSizes
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.combine_spec import CombineSpec
from ...plan.spec.extras import CachedRows
from ...plan.spec.kernel_spec import KernelSpec
from ...plan.spec.params import KernelParams
from ...plan.spec.tensor_maps import ROPE_OPERANDS, OperandLayout, tensor_maps

Encoder = Callable[[TensorMapFields], bytes]


@dataclass(frozen=True)
class Operand:
    """Address of element 0 and layout (batch, seqlen, heads, head_dim) of a tensor."""

    address: int
    layout: OperandLayout


@dataclass(frozen=True)
class AttentionCall:
    """Operands of one call.

    Attributes:
        q, k, v, o: tensors; packed ones are a batch of one, and a page of a cache is a batch entry.
        softmax_scale: factor of the scores.
        lse: address of a float32 array (batch, heads, seqlen_q), or (heads, total_q) for packed
            queries; 0 when the kernel does not write it.
        extras: values of the parameters that the kernel's features add.
        longest: sizes of the call where those of q and k do not tell them.
        num_splits: CTAs that the keys of a query tile are split over.
        value_scale: factor of O, for kernels with fp8 operands.
        rope: rope columns of Q and of K where they are tensors of their own.
    """

    q: Operand
    k: Operand
    v: Operand
    o: Operand
    softmax_scale: float
    lse: int = 0
    extras: tuple[tuple[str, int], ...] = ()
    longest: AttentionSizes | None = None
    num_splits: int = 1
    value_scale: float = 1.0
    rope: tuple[Operand, ...] = ()

    @property
    def sizes(self) -> AttentionSizes:
        """Sizes of the call."""
        if self.longest is not None:
            return self.longest
        batch, seqlen_q, num_q_heads, _ = self.q.layout.shape
        _, seqlen_k, num_kv_heads, _ = self.k.layout.shape
        return AttentionSizes(batch, seqlen_q, seqlen_k, num_q_heads, num_kv_heads)


@dataclass(frozen=True)
class Splits:
    """Partial results of split keys, and where they go.

    Attributes:
        spec: the kernel that combines them.
        num_rows: (query, head) rows.
        values: the kernel's parameters by name.
    """

    spec: CombineSpec
    num_rows: int
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PackedLaunch:
    """Everything a launch needs: the plan, and one byte string per kernel parameter."""

    plan: LaunchPlan
    params: tuple[bytes, ...]


class Launched(NamedTuple):
    """One launch of a call: the compiled kernel, its parameters, and what was packed."""

    artifact: Any
    params: KernelParams
    packed: PackedLaunch


def pack_launch(
    spec: AttentionSpec,
    call: AttentionCall,
    encode: Encoder = encode_tensor_map,
    num_sms: int = SM_COUNT,
) -> PackedLaunch:
    """Return the packed launch of ``call`` by the kernel of ``spec`` on ``num_sms`` SMs.

    Raises:
        ValueError: when the operands do not belong to ``spec``, a layout has no tensor map, or the
            kernel writes the log-sum-exp and ``call.lse`` is 0.
    """
    if spec.return_lse and not call.lse:
        raise ValueError("lse=0: the kernel was compiled to write the log-sum-exp")
    plan = plan_launch(spec, call.sizes, call.softmax_scale, call.num_splits, num_sms)
    operands = {"q": call.q, "k": call.k, "v": call.v, "o": call.o}
    operands.update(zip(ROPE_OPERANDS, call.rope, strict=False))
    maps = tensor_maps(spec, *(operand.layout for operand in operands.values()))
    values: dict[str, bytes | int | float] = {"lse": call.lse, **plan.scalars, **dict(call.extras)}
    if isinstance(spec, KernelSpec) and spec.config.copies_by_lanes:
        values |= _cache_values(call, spec.config.qkv_dtype_size)
    if spec.scales_values:
        values["value_scale"] = call.value_scale
    for tensor_map in maps:
        operand = operands[tensor_map.address_of]
        # An empty operand may have no address; it is never read, but a map needs a valid one.
        address = operand.address if 0 not in operand.layout.shape else call.q.address
        values[f"{tensor_map.address_of}_map"] = encode(tensor_map.fields(address))
    return PackedLaunch(plan, tuple(spec.params.pack(values)))


def _cache_values(call: AttentionCall, item_bytes: int) -> dict[str, int]:
    """Return the parameters of K and V whose rows lanes copy, of pages (page, key, head, column).
    """
    found: dict[str, int] = {}
    for slot, operand in enumerate((call.k, call.v)):
        page, key, head, _ = (stride * item_bytes for stride in operand.layout.strides)
        rows = CachedRows(slot, operand.address, (page, head, key))
        found |= zip(rows.names, (rows.address, *rows.strides), strict=True)
    return found


def repacked(
    launched: Launched, plan: LaunchPlan, changes: Mapping[str, bytes | int | float]
) -> Launched:
    """Return a launch with another plan and, where it has them, the parameters of ``changes``."""
    values = {**plan.scalars, **changes}
    pairs = zip(launched.params.params, launched.packed.params, strict=True)
    params = (p.pack(values[p.name]) if p.name in values else old for p, old in pairs)
    return launched._replace(packed=PackedLaunch(plan, tuple(params)))


def pack_combine(splits: Splits) -> PackedLaunch:
    """Return the packed launch that combines ``splits``."""
    params = splits.spec.params.pack(dict(splits.values))
    return PackedLaunch(plan_combine(splits.spec, splits.num_rows), tuple(params))

"""Packing a call: every byte string belongs to its parameter."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.host.run.launch import AttentionCall, Operand, pack_launch
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from fa4_cute.plan.spec.tensor_maps import OperandLayout
from fa4_cute.plan.spec.variant import Variant

SPEC = KernelSpec.for_attention(DType.BF16, 64, return_lse=True)
ADDRESSES = {"q": 0x10000, "k": 0x20000, "v": 0x30000, "o": 0x40000}


def call(seqlen_k: int = 96, lse: int = 0x50000) -> AttentionCall:
    operands: dict[str, Any] = {}
    for name, address in ADDRESSES.items():
        seqlen = seqlen_k if name in "kv" else 300
        operands[name] = Operand(address, OperandLayout.contiguous((2, seqlen, 4, 64)))
    return AttentionCall(**operands, softmax_scale=0.125, lse=lse)


def test_each_map_carries_the_address_of_its_operand() -> None:
    packed = pack_launch(SPEC, call())
    assert [len(b) for b in packed.params] == [p.size for p in KERNEL_PARAMS.params]
    for name, data in zip("qkvo", packed.params, strict=False):
        assert struct.unpack("<Q", data[:8])[0] == ADDRESSES[name]
    assert struct.unpack("<Q", packed.params[4])[0] == 0x50000
    assert [struct.unpack("<i", b)[0] for b in packed.params[5:8]] == [300, 96, 4]


def test_an_empty_operand_borrows_a_valid_address() -> None:
    packed = pack_launch(SPEC, call(seqlen_k=0))
    for data in packed.params[1:3]:
        assert struct.unpack("<Q", data[:8])[0] == ADDRESSES["q"]


def test_the_encoder_is_replaceable() -> None:
    seen: list[Any] = []

    def noted(fields: Any) -> bytes:
        seen.append(fields)
        return bytes(128)

    pack_launch(SPEC, call(), encode=noted)
    assert [fields.address for fields in seen] == list(ADDRESSES.values())


def test_a_missing_lse_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="lse=0"):
        pack_launch(SPEC, call(lse=0))


def test_lanes_are_told_where_pages_heads_and_keys_lie() -> None:
    """Strides in bytes: an element has one, and keys of a head lie behind one another here."""
    spec = KernelSpec.for_attention(
        DType.FP8_E4M3, 64, group=4, num_qo=1, variant=Variant(used_k=True, page_size=16)
    )
    spec = spec.with_config(replace(spec.config, row_copies=4))
    assert spec.config.copies_by_lanes
    pages = OperandLayout((9, 16, 2, 64), (2048, 64, 1024, 1))
    given: dict[str, Any] = {name: Operand(address, pages) for name, address in ADDRESSES.items()}
    query = OperandLayout.contiguous((3, 1, 8, 64))
    given |= {name: Operand(ADDRESSES[name], query) for name in "qo"}
    asked = AttentionCall(
        **given, softmax_scale=0.125, longest=AttentionSizes(3, 1, 48, 8, 2),
        extras=(("seqused_k", 0x60000), ("page_table", 0x70000), ("pages_per_row", 3)),
    )  # fmt: skip
    packed = dict(zip(spec.params.names, pack_launch(spec, asked).params, strict=True))
    for name in "kv":
        found = [packed[name + axis] for axis in ("", "_page", "_head", "_key")]
        values = [struct.unpack("<Q", data)[0] for data in found]
        assert values == [ADDRESSES[name], 2048, 1024, 64]

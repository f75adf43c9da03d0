"""The parameter block: PTX layout rules, and bytes that read back as the values put in."""

import struct

import pytest

from fa4_cute.plan.spec.params import KERNEL_PARAMS, Param


def test_every_parameter_is_aligned_and_follows_the_one_before() -> None:
    end = 0
    for param in KERNEL_PARAMS.params:
        assert param.offset % param.align == 0
        assert end <= param.offset < end + param.align
        end = param.offset + param.size
    assert KERNEL_PARAMS.size == end == 536


def test_tensor_maps_come_first() -> None:
    maps = [p for p in KERNEL_PARAMS.params if p.kind == "tensor_map"]
    assert [p.name for p in maps] == ["q_map", "k_map", "v_map", "o_map"]
    assert [p.offset for p in maps] == [0, 128, 256, 384]


def test_pack_keeps_order_and_values() -> None:
    maps = {f"{name}_map": bytes([i]) * 128 for i, name in enumerate("qkvo")}
    values = {"lse": 1 << 40, "seqlen_q": 7, "seqlen_k": 9, "num_q_heads": 3, "scale_log2": -0.5}
    packed = KERNEL_PARAMS.pack({**values, **maps})
    assert packed[:4] == [bytes([i]) * 128 for i in range(4)]
    assert struct.unpack("<Qiiif", b"".join(packed[4:])) == (1 << 40, 7, 9, 3, -0.5)


def test_pack_refuses_missing_unknown_and_unfitting_values() -> None:
    with pytest.raises(ValueError, match="expected"):
        KERNEL_PARAMS.pack({"lse": 0})
    with pytest.raises(ValueError, match=r"seqlen_q=4294967296"):
        Param("seqlen_q", "u32", 0).pack(1 << 32)
    with pytest.raises(ValueError, match="3 bytes given, 128 expected"):
        Param("q_map", "tensor_map", 0).pack(b"abc")

"""Flat arguments of kernels that releases of Triton before 3.8 compiled."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from sm100sim.triton.signature import expansion

SIGNATURE = {"x": "*fp16", "d": "tensordesc<fp16[64, 32]>", "n": "i32"}
SIZES = ("i32", "i32", "i64", "i64")


@pytest.fixture(autouse=True)
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6's modules, as far as arguments need them."""
    names = ("triton", "triton.backends", "triton.backends.driver", "triton.backends.nvidia")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    driver = SimpleNamespace(make_tensordesc_arg=lambda value, metadata: [value, metadata])
    monkeypatch.setitem(sys.modules, "triton.backends.nvidia.driver", driver)


def test_a_tensor_map_is_followed_by_sizes_and_strides() -> None:
    kinds, expanded = expansion(SIGNATURE, ["swizzled"])
    assert kinds == ["*fp16", ("nvTmaDesc", *SIZES), "i32"]
    assert expanded([1, "tensor", 3]) == [1, ["tensor", "swizzled"], 3]


def test_a_descriptor_that_became_a_pointer_has_them_twice() -> None:
    kinds, expanded = expansion(SIGNATURE, None)
    assert kinds == ["*fp16", ("*fp16", *["i64"] * 4, "i1", *SIZES), "i32"]
    assert expanded([1, "tensor", 3]) == [1, ["tensor", None], 3]


def test_what_is_no_descriptor_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="tensordesc!"):
        expansion({"d": "tensordesc!"}, None)

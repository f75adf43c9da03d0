"""Every wrong argument is refused with its name, its value and the nearest choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import fa4_cute
from fa4_cute.host.ask.problem import Problem, dtype_name
from fa4_cute.plan.facts.dtypes import DType


def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def good() -> dict[str, Any]:
    return {"q": tensor(2, 5, 6, 64), "k": tensor(2, 7, 3, 64), "v": tensor(2, 7, 3, 64)}


def refused(error: type[Exception], *words: str, **changes: Any) -> None:
    with pytest.raises(error) as caught:
        Problem.from_tensors(**{**good(), **changes})
    for word in words:
        assert word in str(caught.value)


def test_fields_of_a_good_call() -> None:
    problem = Problem.from_tensors(**good(), causal=True, return_lse=True)
    assert problem == Problem("bf16", 2, 5, 7, 6, 3, 64, 64, True, None, True)
    assert problem.group == 2
    assert problem.scale == 1 / 8
    assert not problem.has_no_output
    assert not problem.has_no_keys


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_not_a_tensor(name: str) -> None:
    refused(TypeError, f"{name}: expected a torch.Tensor", "list", **{name: [1, 2]})
    refused(TypeError, f"{name}: expected a torch.Tensor", "numpy.ndarray", **{name: np.zeros(3)})
    refused(TypeError, f"{name}: expected a torch.Tensor", "NoneType", **{name: None})


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_wrong_rank(name: str) -> None:
    words = (f"{name}: shape (5, 6, 64) has 3 dimensions", "(batch, seqlen, heads, head_dim)")
    refused(ValueError, *words, **{name: tensor(5, 6, 64)})


def test_tensor_subclass_and_layout() -> None:
    class Wrapped(torch.Tensor):
        pass

    refused(NotImplementedError, "q:", "Wrapped", "as_subclass", q=good()["q"].as_subclass(Wrapped))
    refused(NotImplementedError, "k.layout=torch.sparse_coo", "to_dense", k=good()["k"].to_sparse())


def test_dtype_mismatch() -> None:
    refused(
        TypeError, "v.dtype=torch.float16", "q.dtype=torch.bfloat16", "v.to(torch.bfloat16)",
        v=good()["v"].half(),
    )  # fmt: skip


def test_device_mismatch() -> None:
    refused(ValueError, "k.device=meta", "q.device=cpu", k=good()["k"].to("meta"))


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("k", (3, 7, 3, 64), ("k: batch=3", "batch=2 of q")),
        ("v", (3, 7, 3, 64), ("v: batch=3", "batch=2 of q")),
        ("k", (2, 7, 3, 128), ("k: head_dim=128", "head_dim=64 of q")),
        ("v", (2, 8, 3, 64), ("v: seqlen=8", "seqlen=7 of k")),
        ("v", (2, 7, 6, 64), ("v: heads=6", "heads=3 of k")),
    ],
)
def test_shapes_that_do_not_fit(name: str, shape: tuple[int, ...], words: tuple[str, ...]) -> None:
    refused(ValueError, *words, "(batch, seqlen, heads, head_dim)", **{name: tensor(*shape)})


@pytest.mark.parametrize(("heads_k", "nearest"), [(4, 3), (5, 6), (0, 1), (12, 6)])
def test_heads_that_do_not_divide(heads_k: int, nearest: int) -> None:
    kv = tensor(2, 7, heads_k, 64)
    refused(
        ValueError,
        "q has 6 heads",
        f"{heads_k} heads of k and v",
        f"choice: {nearest} key",
        k=kv,
        v=kv,
    )


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_requires_grad(name: str) -> None:
    asks = {name: good()[name].requires_grad_()}
    refused(NotImplementedError, f"{name}.requires_grad", "no_grad()", f"{name}.detach()", **asks)
    with torch.no_grad():
        Problem.from_tensors(**{**good(), **asks})
    parameter = torch.nn.Parameter(good()[name], requires_grad=False)
    Problem.from_tensors(**{**good(), name: parameter})


@pytest.mark.parametrize("name", ["causal", "return_lse"])
@pytest.mark.parametrize("value", [1, None, "yes", np.True_])
def test_flags_are_booleans(name: str, value: object) -> None:
    refused(TypeError, f"{name}={value!r}", "True or False", **{name: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_scale_is_finite(value: float) -> None:
    refused(ValueError, f"softmax_scale={float(value)}", "finite", softmax_scale=value)


def test_scale_fits_float32() -> None:
    refused(ValueError, "softmax_scale=1e+39", "float32", softmax_scale=1e39)
    Problem.from_tensors(**good(), softmax_scale=2e38)


@pytest.mark.parametrize("value", ["0.1", True, 1j, torch.tensor(0.5), [0.5]])
def test_scale_is_a_real_number(value: object) -> None:
    refused(TypeError, "softmax_scale=", "real number", softmax_scale=value)


@pytest.mark.parametrize("value", [0, 1, -0.5, np.float32(0.25), np.int64(2)])
def test_scales_that_are_taken(value: float) -> None:
    assert Problem.from_tensors(**good(), softmax_scale=value).scale == float(value)


@pytest.mark.parametrize(("axis", "empty"), [(0, "batch"), (1, "seqlen_q"), (2, "num_q_heads")])
def test_nothing_to_compute(axis: int, empty: str) -> None:
    shapes = {"q": [2, 5, 6, 64], "k": [2, 7, 3, 64], "v": [2, 7, 3, 64]}
    shapes["q"][axis] = 0
    if axis == 0:
        shapes["k"][0] = shapes["v"][0] = 0
    problem = Problem.from_tensors(**{name: tensor(*shape) for name, shape in shapes.items()})
    assert getattr(problem, empty) == 0
    assert problem.has_no_output


def test_no_keys() -> None:
    kv = tensor(2, 0, 3, 64)
    problem = Problem.from_tensors(good()["q"], kv, kv)
    assert problem.has_no_keys
    assert not problem.has_no_output


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bfloat16, "bf16"), ("bfloat16", "bf16"), (DType.FP16, "fp16"), ("half", "fp16"),
        (torch.float64, "float64"), (torch.float8_e5m2, "float8_e5m2"), ("int8", "int8"),
    ],
)  # fmt: skip
def test_dtype_names(dtype: object, name: str) -> None:
    assert dtype_name(dtype) == name


def test_dtype_of_something_else() -> None:
    with pytest.raises(TypeError, match="dtype=16"):
        dtype_name(16)


def test_sizes_are_integers() -> None:
    with pytest.raises(TypeError, match=r"seqlen_q=1\.5: expected an integer, got float"):
        Problem("bf16", 1, 1.5, 1, 1, 1, 64, 64)  # type: ignore[arg-type]  # refused
    with pytest.raises(ValueError, match=r"batch=-1: must be 0 or more; .* choice: batch=0$"):
        Problem("bf16", -1, 1, 1, 1, 1, 64, 64)
    with pytest.raises(ValueError, match=r"heads_k=-4: .* choice: heads_k=0$"):
        Problem("bf16", 1, 1, 1, 4, -4, 64, 64)


@pytest.mark.parametrize(("dtype", "least"), [("bf16", 8), ("fp8_e4m3", 16), ("invalid", 8)])
def test_a_negative_head_dim_has_the_smallest_one_as_its_nearest(dtype: str, least: int) -> None:
    with pytest.raises(ValueError, match=f"^head_dim=-8: .* choice: head_dim={least}$"):
        Problem(dtype, 1, 1, 1, 1, 1, -8, 64)
    with pytest.raises(ValueError, match=f"^head_dim_v=-8: .* choice: head_dim_v={least}$"):
        Problem(dtype, 1, 1, 1, 1, 1, 64, -8)
    if dtype != "invalid":
        assert fa4_cute.can_implement(head_dim=least, dtype=dtype)

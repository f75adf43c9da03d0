"""The operator is one that torch's own checks accept, and modes and transforms see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import fa4_cute
from fa4_cute.host.operator.define import ATTENTION, ATTENTION_INTO
from tests.host.operator.cases import CASES, FP8, INPUTS, SLOPES, Case, normal
from tests.host.operator.stand_in import StandIn, same

Q, K, V = INPUTS
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")
TRACED = ("test_aot_dispatch_static", "test_aot_dispatch_dynamic")


class Watching(TorchDispatchMode):
    """Remembers the calls of the operator that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (ATTENTION, ATTENTION_INTO):
            self.calls.append(args)
        return func(*args, **(kwargs or {}))


def operator_arguments(case: Case) -> tuple[Any, ...]:
    with Watching() as watching:
        case.call(*case.tensors)
    (args,) = watching.calls
    return args


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_torch_accepts_the_operator(case: Case, stand_in: StandIn) -> None:
    args = operator_arguments(case)
    # What compares arguments before and after multiplies them, which float8 cannot.
    checks = CHECKS[1:] if args[0].dtype == torch.float8_e4m3fn else CHECKS
    torch.library.opcheck(ATTENTION, args, test_utils=checks)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_torch_traces_the_operator(case: Case, stand_in: StandIn) -> None:
    torch.library.opcheck(ATTENTION, operator_arguments(case), test_utils=TRACED)


@pytest.mark.slow
def test_torch_accepts_the_operator_that_writes(stand_in: StandIn) -> None:
    written = (torch.empty_like(Q), torch.empty(2, 4, 5))
    torch.library.opcheck(ATTENTION_INTO, (*written, *INPUTS, [], [], [], True, None, True))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_shapes_without_memory_are_those_of_the_call(case: Case, stand_in: StandIn) -> None:
    def shapes(found: Any) -> list[tuple[Any, ...]]:
        each = found if isinstance(found, tuple) else (found,)
        return [(tuple(t.shape), t.dtype, t.stride()) for t in each]

    want = shapes(case.call(*case.tensors))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert shapes(case.call(*map(mode.from_tensor, case.tensors))) == want
    assert len(stand_in.calls) == 1


def test_tensors_of_the_meta_device(stand_in: StandIn) -> None:
    out, lse = fa4_cute.flash_attn(*(t.to("meta") for t in INPUTS), return_lse=True)
    assert (out.device.type, out.shape, lse.shape) == ("meta", Q.shape, (2, 4, 5))
    assert stand_in.calls == []


def test_what_has_no_memory_is_refused_as_the_call_is() -> None:
    meta = [t.to("meta") for t in INPUTS]
    with pytest.raises(NotImplementedError, match="dtype fp32"):
        fa4_cute.flash_attn(*(t.float() for t in meta))
    with pytest.raises(ValueError, match=r"k\.device=cpu differs from q\.device=meta"):
        fa4_cute.flash_attn(meta[0], K, meta[2])
    with pytest.raises(ValueError, match="head_dim=16"):
        fa4_cute.flash_attn(meta[0][..., :8], *meta[1:])
    with pytest.raises(ValueError, match=r"out: shape \(2, 5, 4, 8\)"):
        fa4_cute.flash_attn(*meta, out=meta[0][..., :8])


def test_make_fx_records_one_call(stand_in: StandIn) -> None:
    case = CASES["masks"]
    graph = make_fx(case.call)(*case.tensors)
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert targets.count(ATTENTION) == 1
    assert same(graph(*case.tensors), case.call(*case.tensors))


def test_autocast_casts_the_operands_only(stand_in: StandIn) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        out = fa4_cute.flash_attn(Q.float(), K.bfloat16(), V, sink=SLOPES)
        kept = fa4_cute.flash_attn(*FP8)
    assert out.dtype == kept.dtype == torch.bfloat16
    assert [stand_in.calls[0][n].dtype for n in (*"qkv", "sink")] == [torch.bfloat16] * 3 + [
        torch.float32
    ]
    assert stand_in.calls[1]["q"].dtype == torch.float8_e4m3fn


def test_autocast_casts_rope_columns_and_what_is_written_fits(stand_in: StandIn) -> None:
    q, k, v, columns = (normal(1, 4, 2, 128, dtype=torch.float32) for _ in range(4))
    rope = {"q_rope": columns[..., :64], "k_rope": columns[..., :1, :64]}
    out = torch.empty(q.shape, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert fa4_cute.flash_attn(q, k, v, out=out, **rope) is out
    assert stand_in.calls[0]["k_rope"].dtype == torch.bfloat16


def test_autocast_does_not_cast_float64() -> None:
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(NotImplementedError, match="float64"),
    ):
        fa4_cute.flash_attn(*(t.double() for t in INPUTS))


def test_the_profiler_names_the_call(stand_in: StandIn) -> None:
    with torch.profiler.profile() as profile:
        fa4_cute.flash_attn(*INPUTS)
    assert "fa4_cute::attention" in {event.key for event in profile.key_averages()}


def test_modes_of_functions_see_the_call(stand_in: StandIn) -> None:
    class Names(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen: list[Any] = []
    with Names():
        fa4_cute.flash_attn(*INPUTS)
    assert ATTENTION in seen


def _of_autograd(call: Callable[..., Any]) -> None:
    call(Q.clone().requires_grad_(), K, V)


def _of_transform(call: Callable[..., Any]) -> None:
    torch.func.grad(lambda q: call(q, K, V).sum())(Q)


@pytest.mark.parametrize("ask", [_of_autograd, _of_transform])
@pytest.mark.parametrize("call", [fa4_cute.flash_attn, lambda *a: ATTENTION(*a, [], [], [])[0]])
def test_gradients_are_refused_in_the_same_words(
    ask: Callable[..., None], call: Callable[..., Any], stand_in: StandIn
) -> None:
    with pytest.raises(
        NotImplementedError, match=r"q\.requires_grad=True: there is a forward pass"
    ):
        ask(call)
    assert stand_in.calls == []


def test_gradients_of_features_are_refused(stand_in: StandIn) -> None:
    for options in ({"sink": SLOPES.clone().requires_grad_()},
                    {"out": torch.empty_like(Q).requires_grad_()}):  # fmt: skip
        (name,) = options
        with (
            torch.autograd.profiler.profile(),
            pytest.raises(NotImplementedError, match=rf"{name}\.requires_grad=True"),
        ):
            fa4_cute.flash_attn(*INPUTS, **options)


def test_gradients_of_members_of_lists_are_refused(stand_in: StandIn) -> None:
    bias = torch.zeros(1, 4, 5, 20, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"mask_biases\[0\]\.requires_grad=True"):
        ATTENTION(*INPUTS, [], [bias], [], mask='["bias", 0]')


def test_tangents_are_refused(stand_in: StandIn) -> None:
    with pytest.raises(NotImplementedError, match="k carries a tangent"):
        torch.func.jvp(lambda k: fa4_cute.flash_attn(Q, k, V), (K,), (K,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(V, V)
        with pytest.raises(NotImplementedError, match="v carries a tangent"):
            fa4_cute.flash_attn(Q, K, dual)
        assert same(fa4_cute.flash_attn(*INPUTS), fa4_cute.flash_attn(*INPUTS))


def test_parameters_serve_without_gradients(stand_in: StandIn) -> None:
    weight = torch.nn.Parameter(Q)
    with torch.no_grad(), torch.autograd.profiler.profile():
        assert same(fa4_cute.flash_attn(weight, K, V), fa4_cute.flash_attn(*INPUTS))

"""The path of a call, with stand-ins for the compiler and for what runs the kernel."""

from __future__ import annotations

import contextlib
import inspect
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.ask.arguments import Options
from fa4_cute.host.ask.request import Request, request
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.host.run import compute
from fa4_cute.host.run.device import CudaLauncher
from fa4_cute.host.run.operands import describe_call
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from tests.host.compilers import artifact_of
from tests.host.fake_driver import FakeDriver

SEQLEN_Q = 5


@dataclass
class Recorder:
    """Takes the place of compiler and simulator; fills O with ones and LSE with twos."""

    compiled: list[Any] = field(default_factory=list)
    launches: list[tuple[str, str, Any, list[Any]]] = field(default_factory=list)

    def compile(self, spec: Any) -> Any:
        self.compiled.append(spec)
        return artifact_of(spec)

    def launch(self, ptx: str, kernel: str, packed: Any, buffers: list[Any]) -> None:
        self.launches.append((ptx, kernel, packed, buffers))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr("fa4_cute.host.run.compute.cache.compiled", made.compile)
    monkeypatch.setattr("fa4_cute.host.run.compute.simulator.launch", made.launch)
    return made


def tensors(
    *, seqlen_q: int = SEQLEN_Q, seqlen_k: int = 7, batch: int = 2
) -> tuple[torch.Tensor, ...]:
    shapes = ((batch, seqlen_q, 6, 64), (batch, seqlen_k, 3, 64), (batch, seqlen_k, 3, 64))
    return tuple(torch.randn(shape).half() for shape in shapes)


def test_signature_is_the_promised_one() -> None:
    parameters = inspect.signature(fa4_cute.flash_attn).parameters
    assert list(parameters)[:6] == ["q", "k", "v", "causal", "softmax_scale", "return_lse"]
    assert [p.default for p in list(parameters.values())[3:6]] == [False, None, False]
    assert all(p.kind is p.KEYWORD_ONLY for p in list(parameters.values())[3:])


def test_both_calls_take_the_same_features() -> None:
    dense, varlen = (
        set(inspect.signature(call).parameters)
        for call in (fa4_cute.flash_attn, fa4_cute.flash_attn_varlen)
    )
    assert varlen - dense == {"cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"}
    assert not dense - varlen


def test_one_launch_with_everything_packed(recorder: Recorder) -> None:
    out, lse = fa4_cute.flash_attn(*tensors(), causal=True, softmax_scale=0.5, return_lse=True)
    assert (out.shape, out.dtype) == ((2, SEQLEN_Q, 6, 64), torch.float16)
    assert (lse.shape, lse.dtype) == ((2, 6, SEQLEN_Q), torch.float32)
    (spec,) = recorder.compiled
    assert (spec.causal, spec.return_lse, spec.config.group) == (True, True, 2)
    ((ptx, kernel, packed, buffers),) = recorder.launches
    assert (ptx, kernel) == (artifact_of(spec).ptx, f"{spec.name}_0")
    assert packed.plan.scalars["scale_log2"] == pytest.approx(0.5 / math.log(2))
    assert [p.size for p in KERNEL_PARAMS.params] == [len(value) for value in packed.params]
    assert [b.address for b in buffers[3:]] == [out.data_ptr(), lse.data_ptr()]


def test_only_o_is_returned_by_default(recorder: Recorder) -> None:
    out = fa4_cute.flash_attn(*tensors())
    assert isinstance(out, torch.Tensor)
    (spec,) = recorder.compiled
    assert not spec.return_lse
    assert recorder.launches[0][2].plan.scalars["seqlen_k"] == 7
    assert len(recorder.launches[0][3]) == 4


@pytest.mark.parametrize("sizes", [{"batch": 0}, {"seqlen_q": 0}, {"seqlen_k": 0}])
def test_nothing_is_launched_for_nothing(recorder: Recorder, sizes: dict[str, int]) -> None:
    q, k, v = tensors(**sizes)
    out, lse = fa4_cute.flash_attn(q, k, v, return_lse=True)
    assert out.shape == q.shape
    assert torch.all(out == 0)
    assert lse.shape == (q.shape[0], 6, q.shape[1])
    assert torch.all(torch.isneginf(lse))
    assert recorder.compiled == []
    assert recorder.launches == []


def test_no_heads(recorder: Recorder) -> None:
    q = torch.zeros(2, 5, 0, 64, dtype=torch.float16)
    out, lse = fa4_cute.flash_attn(q, q, q, return_lse=True)
    assert (out.shape, lse.shape) == ((2, 5, 0, 64), (2, 0, 5))
    assert recorder.launches == []


def test_nothing_is_compiled_for_what_is_refused(recorder: Recorder) -> None:
    q, k, v = tensors()
    with pytest.raises(NotImplementedError, match=r"dtype fp32.*nearest supported choice: bf16"):
        fa4_cute.flash_attn(q.float(), k.float(), v.float())
    with pytest.raises(NotImplementedError, match="head_dim=60"):
        fa4_cute.flash_attn(q[..., :60], k[..., :60], v[..., :60])
    with pytest.raises(TypeError, match="dropout"):
        fa4_cute.flash_attn(q, k, v, dropout=0.1)  # type: ignore[call-overload]  # refused
    assert recorder.compiled == []


def test_call_and_question_agree() -> None:
    q, k, v = (t.float() for t in tensors())
    support = fa4_cute.can_implement(q, k, v)
    assert not support
    with pytest.raises(NotImplementedError) as caught:
        fa4_cute.flash_attn(q, k, v)
    assert str(caught.value) == f"{support.reason}; nearest supported choice: {support.nearest}"


def test_the_cuda_path(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = tuple(p.size for p in KERNEL_PARAMS.params)
    driver = FakeDriver(sizes=sizes, num_sms=(148,) * 4)
    monkeypatch.setattr("fa4_cute.host.run.compute.device._launcher", CudaLauncher(driver))
    entered: list[Any] = []

    @contextlib.contextmanager
    def on_device(index: int | None) -> Any:
        entered.append(index)
        yield
        assert len(driver.launches) == 1, "the launch happens on the tensor's device"

    class Stream:
        cuda_stream = 0xABC

    monkeypatch.setattr(torch.cuda, "device", on_device)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: Stream)
    q, k, v = tensors()
    asked = request((q, k, v), Options(return_lse=True))
    choice = choose(asked.problem)
    assert isinstance(choice, Choice)

    class OnGpu:
        device = torch.device("cuda", 3)

    monkeypatch.setattr(compute, "describe_call", lambda p, *_: describe_call(p, (q, k, v)))
    artifact = artifact_of(choice.spec)
    on_gpu = Request(asked.problem, (OnGpu, k, v))
    call = compute._launched_on_cuda(on_gpu, choice.spec, artifact)
    (launch,) = driver.launches
    assert entered == [3]
    assert launch["stream"] == 0xABC
    assert launch["params"][4] == call.lse.data_ptr().to_bytes(8, "little")
    assert [m[2] for m in driver.maps] == [t.data_ptr() for t in (q, k, v, call.out)]


def test_warmup_compiles_each_kernel_once(recorder: Recorder) -> None:
    names = fa4_cute.warmup(
        [
            {"head_dim": 128, "dtype": "bf16", "causal": True},
            {"head_dim": 64, "heads_q": 8, "heads_k": 2, "return_lse": True, "seqlen_q": 9},
            {"head_dim": 128, "dtype": "bf16", "causal": True, "seqlen_q": 7},
        ]
    )
    name = "fa4_sm100_bf16_d128_g1_causal"
    assert set(names) == {
        *(f"{name}_{rest}0" for rest in ("", "persistent_", "dynamic_", "split_")),
        *(f"{name}_{rest}1q_0" for rest in ("", "cluster2_", "cluster4_", "cluster8_", "split_")),
        *(f"{name}_{rest}1q_x2_0" for rest in ("", "cluster8_", "split_")),
        *(f"{name}_{rest}1q_x4_0" for rest in ("", "last_", "split_")),
        "fa4_combine_bf16_d128_0",
        *(f"fa4_sm100_bf16_d64_g4_{rest}1q_x2_0"
          for rest in ("lse_", "persistent_lse_", "split_lse_")),
        # With fewer keys than a tile there are no copies.
        *(f"fa4_sm100_bf16_d64_g4_{rest}1q_0" for rest in ("lse_", "persistent_lse_")),
        *(f"fa4_sm100_bf16_d64_g4_cluster{size}_lse_1q_x2_0" for size in (2, 4, 8)),
        "fa4_combine_bf16_d64_lse_0",
    }  # fmt: skip
    assert len(recorder.compiled) == len(names), "each once"


def test_warmup_compiles_persistent_dynamic_and_split_pairs(recorder: Recorder) -> None:
    name = "fa4_sm100_pair_bf16_d256_g1_causal"
    assert set(fa4_cute.warmup([{"head_dim": 256, "dtype": "bf16", "causal": True}])) == {
        *(f"{name}_{rest}0" for rest in ("", "persistent_", "dynamic_", "split_")),
        "fa4_combine_bf16_d256_0",
    }


def test_warmup_knows_that_hopper_splits_keys(recorder: Recorder) -> None:
    hopper = {"head_dim": 128, "dtype": "bf16", "arch": "sm_90a"}
    name = "fa4_sm90_bf16_d128_g1"
    assert set(fa4_cute.warmup([hopper])) == {
        f"{name}_few_0", f"{name}_few_split_0", "fa4_combine_bf16_d128_0",
        f"{name}_persistent_0", f"{name}_split_persistent_0",
        f"{name}_long_persistent_0", f"{name}_long_split_persistent_0",
        f"{name}_long_0", f"{name}_long_split_0", f"{name}_0", f"{name}_split_0",
    }  # fmt: skip
    assert fa4_cute.warmup([{**hopper, "seqlen_q": 9, "num_splits": 1}]) == [f"{name}_few_0"]
    assert fa4_cute.warmup([{**hopper, "seqlen_q": 9, "seqlen_k": 9000}]) == [
        f"{name}_few_split_0", "fa4_combine_bf16_d128_0"
    ]  # fmt: skip


def test_warmup_knows_packed_sequences_that_differ(recorder: Recorder) -> None:
    packed = {"head_dim": 128, "heads_q": 32, "heads_k": 8, "causal": True, "ragged_q": True,
              "page_size": 64, "batch": 64, "seqlen_q": 2048, "seqlen_k": 8192}  # fmt: skip
    name = "fa4_sm100_bf16_d128_g4_causal_varq_used_page64_dynamic"
    assert fa4_cute.warmup([packed]) == [f"{name}_0", f"{name}_rows_0"]
    assert fa4_cute.warmup([{**packed, "total_q": 2111}]) == [f"{name}_rows_0"]
    assert fa4_cute.warmup([{**packed, "total_q": 64 * 2048}]) == [f"{name}_0"]


def test_rows_that_packed_sequences_cannot_have_are_refused() -> None:
    with pytest.raises(ValueError, match=r"total_q=5: only packed queries .* ragged_q=True"):
        fa4_cute.warmup([{"head_dim": 64, "total_q": 5}])
    sizes: dict[str, Any] = {"batch": 2, "seqlen_q": 10, "ragged_q": True}
    told = fa4_cute.can_implement(head_dim=64, total_q=21, **sizes)
    assert not told
    assert "nearest supported choice: total_q=20" in told.reason
    assert fa4_cute.can_implement(head_dim=64, total_q=20, **sizes)
    with pytest.raises(TypeError, match="total_q='x'"):
        fa4_cute.can_implement(head_dim=64, total_q="x", **sizes)


def test_explain_says_that_rows_are_counted() -> None:
    sizes: dict[str, Any] = {
        "head_dim": 128, "batch": 8, "seqlen_q": 2048, "ragged_q": True, "ragged_k": True
    }  # fmt: skip
    line = "query tiles are counted by the rows of all of them"
    assert line in fa4_cute.explain(total_q=2055, **sizes)
    assert line not in fa4_cute.explain(**sizes)


def test_warmup_refuses_before_it_compiles(recorder: Recorder) -> None:
    with pytest.raises(NotImplementedError, match="head_dim=100"):
        fa4_cute.warmup([{"head_dim": 64}, {"head_dim": 100}])
    assert recorder.compiled == []


def test_the_number_of_query_tiles_can_be_fixed(recorder: Recorder) -> None:
    q = torch.zeros(1, 300, 1, 64, dtype=torch.float16)
    for num_qo in (None, 1, 2):
        fa4_cute.flash_attn(q, q, q, num_qo=num_qo)
    assert [spec.config.num_qo for spec in recorder.compiled] == [1, 1, 2]
    with pytest.raises(ValueError, match="num_qo=3: choose 1 or 2"):
        fa4_cute.flash_attn(q, q, q, num_qo=3)
    assert "two Q tiles per CTA: as asked for" in fa4_cute.explain(q, q, q, num_qo=2)
    assert "two Q tiles per CTA: as asked for" in fa4_cute.explain(head_dim=64, num_qo=2)


@pytest.mark.parametrize("capability", [(8, 0), (9, 1), (11, 0), (12, 0)])
def test_a_capability_without_kernels_needs_no_device_type(capability: tuple[int, int]) -> None:
    asked: dict[str, Any] = {"head_dim": 64, "compute_capability": capability}
    found = fa4_cute.can_implement(**asked)
    version = "{}.{}".format(*capability)
    assert not found
    assert f"has compute capability {version}" in found.reason
    text = fa4_cute.explain(**asked)
    assert text.startswith("not supported: ")
    for supported in ("compute capability 10.x (Blackwell", "compute capability 9.0 (Hopper"):
        assert supported in text
    assert fa4_cute.can_implement(**asked, device_type="cpu")
    with pytest.raises(NotImplementedError, match=version):
        fa4_cute.warmup([asked])


@pytest.mark.parametrize(
    ("capability", "kernel"),
    [((10, 0), "SM100MHA2Q"), ((10, 3), "SM100MHA2Q"), ((9, 0), "SM90MHA")],
)
def test_a_capability_alone_says_which_kernel(capability: tuple[int, int], kernel: str) -> None:
    assert fa4_cute.can_implement(head_dim=64, compute_capability=capability).kernel == kernel
    other = fa4_cute.can_implement(
        head_dim=64, compute_capability=capability,
        arch="sm_90a" if kernel == "SM100MHA2Q" else "sm_100a",
    )  # fmt: skip
    assert "arch=" in other.reason

"""Tensors on "cuda" in host memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import sm100sim.torch
from sm100sim.torch import on_host
from sm100sim.torch.mode import ALIGNMENT

ROOT = Path(__file__).parents[3]


def test_cuda_tensors_are_aligned_host_tensors() -> None:
    with on_host():
        made = [torch.empty(n, device="cuda") for n in (1, 7, 1000)]
        made.append(torch.arange(6.0).reshape(2, 3).to("cuda"))
        made.append(torch.ones(3, 5).cuda())
        assert torch.cuda.is_available()
        assert torch.version.cuda
        assert torch.cuda.get_device_capability() == (10, 0)
        assert all(t.is_cuda and t.device == torch.device("cuda", 0) for t in made)
    assert torch.version.cuda is None
    assert all(t.device.type == "cpu" for t in made)
    assert all(t.data_ptr() % ALIGNMENT == 0 for t in made)
    assert [t.untyped_storage().nbytes() for t in made] == [4, 28, 4000, 24, 60]
    assert made[3].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_copy_to_the_device_is_a_copy_and_a_view_stays_a_view() -> None:
    with on_host():
        host = torch.zeros(4)
        device = host.to("cuda")
        view = device[1:]
        view.fill_(1)
        back = device.cpu()
        device.fill_(2)
        assert [t.is_cuda for t in (host, device, view, back)] == [False, True, True, False]
    assert host.tolist() == [0, 0, 0, 0]
    assert device.tolist() == [2, 2, 2, 2]
    assert view.tolist() == [2, 2, 2]
    assert back.tolist() == [0, 1, 1, 1]


def test_what_is_made_of_a_tensor_is_where_it_is() -> None:
    with on_host():
        device, host = torch.ones(4, 2, device="cuda:0"), torch.ones(4, 2)
        made = [device + 1, device.T, torch.empty_like(device), *device.chunk(2)]
        made.append(torch.cat([device, device]))
        assert all(t.is_cuda for t in made)
        assert not any(t.is_cuda for t in (host * 2, device.to("cpu"), torch.zeros(3)))
        assert torch.zeros(2, device=device.device).is_cuda
        host.copy_(device)
        assert device.is_cuda
        assert not host.is_cuda
        linear = torch.nn.Linear(2, 3).to("cuda")
        assert linear.weight.is_cuda
        assert torch.nn.Parameter(torch.ones(2, device="cuda")).is_cuda
        assert (device.get_device(), host.get_device()) == (0, -1)
        generator = torch.Generator(device="cuda").manual_seed(3)
        assert torch.randn(2, device="cuda", generator=generator).is_cuda
        assert linear(device).is_cuda
        torch.set_default_device("cuda")
        assert torch.randn(3).is_cuda
        assert not torch.zeros(3, device="cpu").is_cuda
        torch.set_default_device(None)
        assert not torch.randn(3).is_cuda
        with torch.device("cuda"):
            assert torch.randn(3).is_cuda


def test_all_tensors_claim_to_be_cuda_when_asked() -> None:
    made = torch.zeros(2)
    with on_host():
        assert not made.is_cuda
    with on_host(all_tensors=True):
        assert made.is_cuda
        assert made.device == torch.device("cuda", 0)
        assert torch.empty(2, device=made.device).is_cuda
    assert not made.is_cuda
    assert not torch.cuda.is_available()


def test_the_device_is_the_one_that_was_asked_for() -> None:
    with on_host(capability=90, sm_count=3), torch.cuda.device(0):
        properties = torch.cuda.get_device_properties("cuda")
        assert (properties.major, properties.multi_processor_count) == (9, 3)
        assert properties.shared_memory_per_block_optin == 232_448
        assert properties.shared_memory_per_multiprocessor == 233_472
        for kind in (torch.cuda.Stream, torch.cuda.device):
            assert isinstance(kind, type)  # so that annotations may say `Stream | None`
        with torch.cuda.device(0):
            torch.cuda.Stream(device="cuda").wait_event(torch.cuda.Stream().record_event())
        assert torch.cuda.Stream().cuda_stream == 0
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        assert event.elapsed_time(event) > 0
    with pytest.raises(ValueError, match="capability: 80 is not one of"), on_host(capability=80):
        pass


def test_activation_is_undone() -> None:
    sm100sim.torch.activate()
    sm100sim.torch.activate()
    assert torch.ones(2, device="cuda").is_cuda
    sm100sim.torch.deactivate()
    sm100sim.torch.deactivate()
    assert not torch.cuda.is_available()


INCREMENT = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry increment(.param .u64 a)
{
  .reg .b64 %a;
  .reg .b32 %x;
  ld.param.u64 %a, [a];
  ld.global.u32 %x, [%a];
  add.u32 %x, %x, 1;
  st.global.u32 [%a], %x;
  ret;
}
"""


def test_a_graph_launches_when_it_is_replayed() -> None:
    with on_host():
        a = torch.zeros(1, dtype=torch.int32, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            assert torch.cuda.is_current_stream_capturing()
            for _ in range(3):
                assert not sm100sim.launch(INCREMENT, grid=1, block=1, args=[a]).complete
            assert torch.empty_like(a).is_cuda
        assert not torch.cuda.is_current_stream_capturing()
        assert a.item() == 0
        for after in (3, 6):
            graph.replay()
            assert a.item() == after
        assert torch.cuda.Event().cuda_event


@pytest.mark.parametrize("change", [lambda a: a.add_(1), lambda a: a + 1])
def test_a_graph_refuses_functions_of_torch(change: Callable[[torch.Tensor], object]) -> None:
    with on_host():
        a = torch.zeros(1, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(NotImplementedError, match="only launches"), torch.cuda.graph(graph):
            change(a)
        assert not torch.cuda.is_current_stream_capturing()


SCRIPT = """
import torch
import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def double_kernel(a: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    a[t] = a[t] * 2

@cute.jit
def double(a: cute.Tensor):
    double_kernel(a).launch(grid=[1, 1, 1], block=[64, 1, 1])

assert torch.cuda.is_available()
a = torch.arange(64.0, device="cuda")
double(from_dlpack(a))
torch.cuda.synchronize()
print("right" if torch.equal(a.cpu(), torch.arange(64.0) * 2) else "wrong")
"""


@pytest.mark.slow
def test_a_program_of_the_command_line_finds_the_device(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "sm100sim", "check", str(tmp_path / "script.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    assert "1 launches, 1 clean" in done.stderr

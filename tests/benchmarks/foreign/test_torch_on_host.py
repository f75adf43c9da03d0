from __future__ import annotations

import pytest
import torch

from benchmarks.foreign.torch_on_host import ALIGNMENT, cuda_tensors_on_host, target


def test_cuda_tensors_are_aligned_host_tensors() -> None:
    with cuda_tensors_on_host(4):
        made = [torch.empty(n, device="cuda") for n in (1, 7, 1000)]
        made.append(torch.arange(6.0).reshape(2, 3).to("cuda"))
        made.append(torch.ones(3, 5).cuda())
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability() == (10, 0)
    assert all(t.device.type == "cpu" for t in made)
    assert all(t.data_ptr() % ALIGNMENT == 0 for t in made)
    assert made[3].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_device_is_the_one_that_the_dsl_compiles_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    with cuda_tensors_on_host(4):
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_properties(0).major == 9
        assert torch.cuda.Stream().cuda_stream == 0
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_80")
    with pytest.raises(ValueError, match="'sm_80': expected one of sm_100a, sm_90a"):
        target()


def test_a_copy_to_the_device_is_a_copy_and_a_view_stays_a_view() -> None:
    with cuda_tensors_on_host(4):
        host = torch.zeros(4)
        device = host.to("cuda")
        view = device[1:]
        view.fill_(1)
        back = device.cpu()
        device.fill_(2)
    assert host.tolist() == [0, 0, 0, 0]
    assert device.tolist() == [2, 2, 2, 2]
    assert view.tolist() == [2, 2, 2]
    assert back.tolist() == [0, 1, 1, 1]


def test_tensors_claim_to_be_cuda_only_when_asked() -> None:
    made = torch.zeros(2)
    with cuda_tensors_on_host(4):
        assert not made.is_cuda
    with cuda_tensors_on_host(4, claim_cuda=True):
        assert made.is_cuda
        assert made.device == torch.device("cuda", 0)
        assert torch.empty(2, device=made.device).is_cuda
    assert not made.is_cuda
    assert not torch.cuda.is_available()

from __future__ import annotations

import pytest
import torch
from cuda.bindings import driver

from benchmarks.foreign.torch_on_host import cuda_tensors_on_host, target


def test_the_device_is_the_one_that_the_dsl_compiles_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    with cuda_tensors_on_host(4):
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_properties(0).multi_processor_count == 4
        assert driver.cuDeviceGetCount() == (driver.CUresult.CUDA_SUCCESS, 1)
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_80")
    with pytest.raises(ValueError, match="'sm_80': expected one of sm_100a, sm_90a"):
        target()


def test_every_tensor_claims_to_be_cuda_only_when_asked() -> None:
    made = torch.zeros(2)
    with cuda_tensors_on_host(4):
        assert not made.is_cuda
    with cuda_tensors_on_host(4, claim_cuda=True):
        assert made.is_cuda

"""The calls whose cost is measured are repeated ones, and everything but the launch is done."""

from __future__ import annotations

import re
from unittest import mock

import pytest

from benchmarks.call_cost.__main__ import empty_kernel, measured
from benchmarks.call_cost.cases import CALLS, FURTHER
from fa4_cute.host.run import calls
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.combine_spec import CombineSpec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.launches import no_launch


def test_every_call_is_measured() -> None:
    with no_launch():
        found = measured("cpu", CALLS | FURTHER, seconds=0)
    assert list(found) == [*CALLS, *FURTHER]
    assert {"dense", "paged", "worst"} <= {*CALLS}
    assert all(0 < value < 1e6 for value in found.values())


@pytest.mark.parametrize("name", CALLS | FURTHER)
def test_a_measured_call_takes_the_short_way(name: str) -> None:
    with no_launch():
        call = (CALLS | FURTHER)[name]("cpu")
        first = call()
        with mock.patch.object(calls, "carry_out") as long_way:
            again = call()
        assert not long_way.called
    for one, other in zip(
        *(r if isinstance(r, tuple) else (r,) for r in (first, again)), strict=True
    ):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


def test_a_call_that_cannot_be_repeated_is_no_result() -> None:
    forgetful = mock.patch.object(calls, "kept", calls.Kept(0))
    refused = pytest.raises(RuntimeError, match="dense: the call cannot be repeated")
    with no_launch(), forgetful, refused:
        measured("cpu", CALLS, seconds=0)


@pytest.mark.parametrize(
    "spec", [KernelSpec.for_attention(DType.BF16, 64), CombineSpec(DType.BF16, 64, True)]
)
def test_an_empty_kernel_has_the_parameters_of_the_real_one(spec: KernelSpec | CombineSpec) -> None:
    made = empty_kernel(spec)
    declared = re.findall(r"\.param [^,)]*? (\w+)(?:\[128\])?(?=[,)])", made.ptx)
    assert tuple(declared) == spec.params.names
    assert made.params == spec.params

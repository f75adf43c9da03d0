"""Packages of AOTInductor: an exported program compiled to C++, which calls the operator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fa4_cute.host.operator.define import ATTENTION, _without_derivative
from fa4_cute.host.operator.schema import ARGUMENTS, TENSORS, bound, with_lists
from tests.host.operator.cases import INPUTS
from tests.host.operator.stand_in import StandIn, same
from tests.host.operator.test_export import TENSORS as TENSORS_OF_MASKED
from tests.host.operator.test_export import Masked

LOADER = """
import fa4_cute
import torch
from pathlib import Path
folder = Path({folder!r})
package = torch._inductor.aoti_load_package(str(folder / "masked.pt2"))
tensors, wanted = torch.load(folder / "tensors.pt")
with torch.no_grad():
    found = package(*tensors)
print(torch.equal(found, wanted[0]))
"""


class Attended(Masked):
    """Its output alone, and something around it for the compiler."""

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Return O, doubled and halved."""
        out: torch.Tensor = super().forward(*tensors)[0] * 2
        return out / 2


def test_lists_without_tensors_may_be_none() -> None:
    args = [default for _, default in ARGUMENTS.values()]
    args[list(ARGUMENTS).index("mask_lengths")] = None
    args[list(ARGUMENTS).index("aux_tensors")] = None
    found = dict(zip(ARGUMENTS, with_lists(args), strict=True))
    for name, (kind, _) in ARGUMENTS.items():
        assert (found[name] is None) == (bound(args)[name] is None)
        assert kind != TENSORS or not len(found[name])
    assert with_lists([None, None, *args[:6]], 2)[:6] == [None, None, None, None, None, []]


def test_none_for_a_list_reaches_the_kernel_as_an_empty_list(stand_in: StandIn) -> None:
    """What the C++ of a package calls: the operator's autograd kernel, unseen by the dispatcher."""
    kernel = _without_derivative(ATTENTION, 0)
    key, keys = torch._C.DispatchKey, torch._C.DispatchKeySet
    given_keys = keys(key.CPU) | keys(key.AutogradCPU)
    found = kernel(given_keys, *INPUTS, None, None, None)
    assert same(found[0], ATTENTION(*INPUTS, [], [], [])[0])


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch's own, of its own call
@pytest.mark.usefixtures("fresh_compiler")
def test_a_package_computes_the_same_in_another_process(tmp_path: Path) -> None:
    """With the kernels of the package and nothing in their place; compiles C++ for a minute."""
    with torch.no_grad():
        program = torch.export.export(Attended(), TENSORS_OF_MASKED)
        path = str(tmp_path / "masked.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=path)
        torch.save((TENSORS_OF_MASKED, Masked()(*TENSORS_OF_MASKED)), tmp_path / "tensors.pt")
    code = LOADER.format(folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stdout.strip() == "True", done.stderr

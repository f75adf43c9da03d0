"""``torch.export``: graphs are saved, and loaded where only the package is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.host.operator.define import ATTENTION
from tests.host.operator.cases import INPUTS, LENGTHS, RELATIVE, SLOPES
from tests.host.operator.stand_in import StandIn, same

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fresh_compiler")]
TENSORS = (*INPUTS, LENGTHS, SLOPES)


class Masked(torch.nn.Module):
    """Attention with a mask with tensors and modifiers of the package."""

    def forward(self, q: Any, k: Any, v: Any, lengths: Any, slopes: Any) -> Any:
        mask = masks.padding(lengths) & (masks.sliding_window(6, 0) | masks.chunked(4))
        mod = score_mods.chain(score_mods.alibi(slopes), score_mods.softcap(3.5))
        return fa4_cute.flash_attn(q * 2, k, v, mask=mask, score_mod=mod, return_lse=True)


class Modified(torch.nn.Module):
    """Attention with a user's function."""

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return fa4_cute.flash_attn(q, k, v, score_mod=RELATIVE)


class Trained(torch.nn.Module):
    """Attention of what depends on a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(16, dtype=torch.float16))

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return fa4_cute.flash_attn(q * self.weight, k, v)


@pytest.mark.parametrize("strict", [False, True])
def test_a_graph_computes_the_same(strict: bool, stand_in: StandIn) -> None:
    program = torch.export.export(Masked(), TENSORS, strict=strict)
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert targets.count(ATTENTION) == 1
    assert same(program.module()(*TENSORS), Masked()(*TENSORS))


def test_sizes_may_stay_open(stand_in: StandIn) -> None:
    queries = torch.export.Dim("queries", min=2, max=50)
    shapes = ({1: queries}, *(None,) * 4)
    program = torch.export.export(Masked(), TENSORS, dynamic_shapes=shapes)
    longer = (torch.cat([INPUTS[0]] * 3, 1), *TENSORS[1:])
    assert same(program.module()(*longer), Masked()(*longer))


@pytest.mark.parametrize("strict", [False, True])
def test_gradients_are_refused_in_the_words_of_a_plain_call(
    strict: bool, stand_in: StandIn
) -> None:
    sentence = r"q\.requires_grad=True: there is a forward pass only"
    refusals = (NotImplementedError, torch._dynamo.exc.Unsupported)
    with pytest.raises(refusals, match=sentence):
        torch.export.export(Trained(), INPUTS, strict=strict)
    with torch.no_grad():
        program = torch.export.export(Trained(), INPUTS, strict=strict)
        assert same(program.module()(*INPUTS), Trained()(*INPUTS))


LOADER = """
import fa4_cute
import torch
from pathlib import Path
folder = Path({folder!r})
programs = [torch.export.load(folder / name) for name in ("masked.pt2", "modified.pt2")]
tensors = torch.load(folder / "tensors.pt")
from fa4_cute.host.run import compute
def show(inputs, options, batch):
    print(options.mask.plan, options.mask.lengths[0].tolist())
    print([(step.kind, step.constants) for step in options.score_mod.steps])
    return inputs[0] - 1, torch.zeros(2, 4, 5)
compute.compute = show
print(torch.equal(programs[0].module()(*tensors)[0], tensors[0] * 2 - 1))
try:
    programs[1].module()(*tensors[:3])
except ValueError as error:
    print(error)
"""


def test_another_process_needs_the_package_only(tmp_path: Path, stand_in: StandIn) -> None:
    """And for functions of the user's, those."""
    torch.export.save(torch.export.export(Masked(), TENSORS), tmp_path / "masked.pt2")
    torch.export.save(torch.export.export(Modified(), INPUTS), tmp_path / "modified.pt2")
    torch.save(TENSORS, tmp_path / "tensors.pt")
    code = LOADER.format(folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    mask, steps, equal, refusal = done.stdout.splitlines()
    wanted = masks.padding(LENGTHS) & (masks.sliding_window(6, 0) | masks.chunked(4))
    assert mask == f"{wanted.plan} {LENGTHS.tolist()}"
    assert steps == "[('alibi', ()), ('softcap', (3.5,))]"
    assert equal == "True"
    assert "'mod_relative_" in refusal
    assert "give the function to fa4_cute.score_mods.function before the graph runs" in refusal

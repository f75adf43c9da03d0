"""What Modular's programs read is what this package's call is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from benchmarks.originals.cases import CASES, Original
from benchmarks.originals.inputs import result, written
from benchmarks.originals.programs import SOURCES

BY_PROGRAM = {case.program: case for case in CASES}


def read(folder: Path, name: str, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.frombuffer(bytearray((folder / f"{name}.bin").read_bytes()), dtype=dtype)


def test_dense(tmp_path: Path) -> None:
    original = BY_PROGRAM["dense"]
    given = original.arguments()
    words = written(tmp_path, original, given)
    assert words[:4] == [str(tmp_path), *map(str, (*given.q.shape[:2], given.k.shape[1]))]
    assert float(words[4]) == given.q.shape[-1] ** -0.5
    assert torch.equal(read(tmp_path, "v", given.v.dtype).reshape(given.v.shape), given.v)


@pytest.mark.parametrize("name", [c.name for c in CASES if c.program == "paged"])
def test_pages_hold_the_keys_that_the_table_names(tmp_path: Path, name: str) -> None:
    (original,) = (case for case in CASES if case.name == name)
    given = original.arguments()
    words = written(tmp_path, original, given)
    batch, _, _, _, pages, columns = map(int, words[1:-1])
    table = read(tmp_path, "table", torch.int32).reshape(batch, columns)
    blocks = read(tmp_path, "blocks").reshape(pages, 2, 1, *given.k.shape[1:])
    cached = read(tmp_path, "cached", torch.int32).tolist()
    assert cached == [keys - queries for queries, keys in original.case.lengths]
    assert columns % 8 == 0
    for number, (_, keys) in enumerate(original.case.lengths):
        last = int(given.options["page_table"][number, (keys - 1) // original.case.page_size])
        assert table[number, (keys - 1) // original.case.page_size] == last
        row = (keys - 1) % original.case.page_size
        assert torch.equal(blocks[last, 0, 0, row], given.k[last, row])
        assert torch.equal(blocks[last, 1, 0, row], given.v[last, row])
    sinks = given.options.get("sink", torch.zeros(original.case.heads))
    assert torch.equal(read(tmp_path, "sinks").float(), sinks)


def test_rope_columns_follow_the_latent_ones(tmp_path: Path) -> None:
    original = BY_PROGRAM["prefill"]
    given = original.arguments()
    words = written(tmp_path, original, given)
    cache = read(tmp_path, "cache").reshape(given.k.shape[1], 576)
    assert torch.equal(cache[:, 512:], given.options["k_rope"][0, :, 0])
    q = read(tmp_path, "q").reshape(*given.q.shape[1:3], 192)
    assert torch.equal(q[..., 128:], given.options["q_rope"][0])
    assert float(words[-1]) == 192**-0.5


def test_a_result_has_the_shape_of_ours(tmp_path: Path) -> None:
    given = BY_PROGRAM["decode"].arguments()
    out = torch.arange(16 * 512).bfloat16().reshape(1, 1, 16, 512)
    (tmp_path / "o.bin").write_bytes(out.view(torch.uint8).numpy().tobytes())
    assert torch.equal(result(tmp_path, given, 512), out)


@pytest.mark.parametrize("original", CASES, ids=lambda case: case.name)
def test_programs_get_what_they_define(original: Original) -> None:
    text = (SOURCES / f"{original.program}.mojo").read_text()
    known = re.findall(r'get_defined_int\["(\w+)"', text)
    assert set(original.definitions) <= {*known, "FA4_FORCE_2Q"}

"""Files and words that a program of ``mojo`` gets, from the arguments of this package's call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.originals.cases import Original
from fa4_cute.plan.facts.hardware import ceil_div
from testing.arguments import Arguments

OUTPUT = "o.bin"
TABLE_PADDING = 16
"""Modular reads page tables in vectors: words after the last page of a row."""
Words = list[str]


def save(folder: Path, **tensors: torch.Tensor) -> None:
    """Write the bytes of tensors to files of their names."""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).numpy()
        (folder / f"{name}.bin").write_bytes(raw.tobytes())


def scale_of(given: Arguments) -> float:
    """The softmax scale of a call."""
    return float(given.options.get("softmax_scale") or given.q.shape[-1] ** -0.5)


def _dense(folder: Path, given: Arguments) -> Words:
    save(folder, q=given.q, k=given.k, v=given.v)
    return [str(given.q.shape[0]), str(given.q.shape[1]), str(given.k.shape[1])]


def _prefill(folder: Path, given: Arguments) -> Words:
    q = torch.cat([given.q, given.options["q_rope"]], -1)[0]
    rope = given.options["k_rope"][0, :, 0]
    latent = rope.new_zeros(rope.shape[0], 512)  # of the cache, prefill reads the rope part only
    queries, keys = q.shape[0], rope.shape[0]
    ends = {f"{name}_ends": torch.tensor([0, n], dtype=torch.int32)
            for name, n in (("q", queries), ("k", keys))}  # fmt: skip
    cache = torch.cat([latent, rope], -1)
    save(folder, q=q, k=given.k[0], v=given.v[0], cache=cache, **ends)
    return [str(queries), str(keys)]


def _decode(folder: Path, given: Arguments) -> Words:
    save(folder, q=given.q[:, 0], cache=given.k[:, :, 0])
    return [str(given.k.shape[0]), str(given.k.shape[1])]


def _paged(folder: Path, given: Arguments) -> Words:
    options = given.options
    queries = options["cu_seqlens_q"].diff()
    cached = options["seqused_k"] - queries
    # Rows that hold no key may be NaN here; Modular multiplies them by zero (docs/originals.md).
    blocks = torch.stack([given.k, given.v], 1).unsqueeze(2).nan_to_num(0.0)
    table = options["page_table"].clamp_min(0)
    columns = ceil_div(table.shape[1], 8) * 8 + TABLE_PADDING
    table = torch.nn.functional.pad(table, (0, columns - table.shape[1]))
    save(
        folder, q=given.q, blocks=blocks, table=table, offsets=options["cu_seqlens_q"],
        cached=cached, sinks=options.get("sink", torch.zeros(given.q.shape[1])).bfloat16(),
    )  # fmt: skip
    numbers = (
        len(queries), given.q.shape[0], int(queries.max()), int(options["seqused_k"].max()),
        blocks.shape[0], columns,
    )  # fmt: skip
    return [str(number) for number in numbers]


WRITERS: dict[str, Callable[[Path, Arguments], Words]] = {
    "dense": _dense,
    "paged": _paged,
    "prefill": _prefill,
    "decode": _decode,
}


def written(folder: Path, original: Original, given: Arguments) -> Words:
    """Write the inputs of a program; returns the words of its command line."""
    words = WRITERS[original.program](folder, given)
    return [str(folder), *words, repr(scale_of(given))]


def result(folder: Path, given: Arguments, columns: int) -> torch.Tensor:
    """What a program wrote, in the shape of this package's result.

    Args:
        folder: of its files.
        given: its inputs.
        columns: head dimension of the values.
    """
    raw = bytearray((folder / OUTPUT).read_bytes())
    return torch.frombuffer(raw, dtype=torch.bfloat16).reshape(*given.q.shape[:-1], columns)

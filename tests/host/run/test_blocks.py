"""Parameter blocks: what is packed, what is patched, and which word of a map an address is."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.host.run.blocks import Blocks
from fa4_cute.plan.facts.tensor_map_bits import TensorMapFields, encode_tensor_map
from fa4_cute.plan.spec.params import KERNEL_PARAMS

RECORDS = Path(__file__).parents[2] / "data" / "tensormaps-h200.json"
VALUES = [
    *(bytes([i]) * 128 for i in range(1, 5)),
    b"LSE ADDR", b"SEQQ", b"SEQK", b"HEAD", b"SCAL",
]  # fmt: skip
addresses = st.integers(0, 2**60 - 1).map(lambda n: n * 16)


def test_a_block_holds_every_parameter_where_it_points() -> None:
    blocks = Blocks(KERNEL_PARAMS, VALUES, SimpleNamespace)
    block = blocks.take()
    assert block.values(KERNEL_PARAMS) == tuple(VALUES)
    pointers = (ctypes.c_void_p * len(VALUES)).from_address(block.pointers)
    seen = [ctypes.string_at(p, len(v)) for p, v in zip(pointers, VALUES, strict=True)]
    assert seen == VALUES
    block.words[blocks.word("lse")] = int.from_bytes(b"OTHERLSE", "little")
    block.words[blocks.word("k_map")] = 7
    block.floats[blocks.float("scale_log2")] = 0.5
    want = [*VALUES[:4], b"OTHERLSE", *VALUES[5:8], b"\0\0\0?"]
    want[1] = (7).to_bytes(8, "little") + VALUES[1][8:]
    assert block.values(KERNEL_PARAMS) == tuple(want)
    assert ctypes.string_at(pointers[4] or 0, 8) == b"OTHERLSE"


def test_a_block_is_lent_to_one_at_a_time() -> None:
    counter = itertools.count()
    blocks = Blocks(KERNEL_PARAMS, VALUES, lambda: next(counter))
    one, other = blocks.take(), blocks.take()
    assert one is not other
    assert (one.config, other.config) == (0, 1)
    blocks.give_back(one)
    assert blocks.take() is one
    assert next(counter) == 2


@settings(deadline=None)
@given(addresses, addresses, st.integers(0, 3), st.integers(1, 300))
def test_another_address_changes_the_first_word_of_a_map(
    one: int, other: int, swizzle: int, rows: int
) -> None:
    fields = TensorMapFields(
        "BFLOAT16", one, (64, rows, 4, 2), (128, 1 << 20, 1 << 30), (8, 16, 1, 1), swizzle
    )
    patched = other.to_bytes(8, "little") + encode_tensor_map(fields)[8:]
    assert patched == encode_tensor_map(dataclasses.replace(fields, address=other))


def test_an_address_is_the_first_word_of_every_map_that_a_driver_made() -> None:
    records = [record for record in json.loads(RECORDS.read_text()) if record["ok"]]
    assert len(records) > 100
    for record in records:
        assert bytes.fromhex(record["hex"])[:8] == record["addr"].to_bytes(8, "little")

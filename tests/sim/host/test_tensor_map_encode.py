from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sm100sim.host.tensor_map_encode import (
    ELEMENT_TYPES,
    TensorMapArguments,
    TensorMapError,
    encode_tiled,
)

ROWS = Path(__file__).resolve().parents[2] / "data" / "tensormaps-h200.json"
NUMBER = {name: number for number, (name, _, _) in ELEMENT_TYPES.items()}
GOOD = TensorMapArguments(
    NUMBER["BFLOAT16"], 0x1000, (128, 64), (256,), (64, 32), (1, 1), swizzle=3
)


@pytest.mark.skipif(not ROWS.is_file(), reason="tests/data/tensormaps-h200.json is missing")
def test_every_descriptor_of_the_real_driver_is_reproduced() -> None:
    rows = [row for row in json.loads(ROWS.read_text()) if row["ok"]]
    assert len(rows) == 293
    for row in rows:
        arguments = TensorMapArguments(
            NUMBER[row["dtype"]],
            row["addr"],
            tuple(row["dims"]),
            tuple(row["strides"]),
            tuple(row["box"]),
            tuple(row["elem_strides"]),
            row["interleave"],
            row["swizzle"],
            row["l2"],
            row["oob"],
        )
        assert encode_tiled(arguments)[:64] == bytes.fromhex(row["hex"])[:64], row


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"address": 0x1008}, "address 0x1008"),
        ({"data_type": 14}, "data type 14"),
        ({"swizzle": 4}, "swizzle 4"),
        ({"interleave": 1}, "interleave 1"),
        ({"strides": (248,)}, "stride 248 of dimension 1"),
        ({"strides": (2**40,)}, "stride 1099511627776"),
        ({"sizes": (0, 64)}, "size 0 of dimension 0"),
        ({"box": (64, 257)}, "box 257 of dimension 1"),
        ({"box": (128, 32)}, "inner box of 256 bytes exceeds the swizzle's span of 128"),
        ({"box": (4, 32)}, "inner box of 8 bytes"),
        ({"element_strides": (1, 9)}, "element stride 9 of dimension 1"),
        ({"data_type": 2, "nan_fill": 1, "box": (16, 32)}, "fill 1 with type UINT32"),
        ({"l2_promotion": 4}, "L2 promotion 4"),
    ],
)
def test_what_the_driver_refuses_is_refused(change: dict[str, object], named: str) -> None:
    assert len(encode_tiled(GOOD)) == 128
    with pytest.raises(TensorMapError, match=named):
        encode_tiled(replace(GOOD, **change))  # type: ignore[arg-type]

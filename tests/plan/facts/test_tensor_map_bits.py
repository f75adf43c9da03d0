"""Our encoder against encodings of a real driver (H200), byte by byte."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fa4_cute.plan.facts.tensor_map_bits import TensorMapFields, encode_tensor_map

DATA = Path(__file__).parents[2] / "data"
ROWS = json.loads((DATA / "tensormaps-h200.json").read_text())
DEFINED_BYTES = 64
GOOD = TensorMapFields("BFLOAT16", 1 << 20, (64, 100), (128,), (64, 32), 3)


def fields(row: dict[str, Any]) -> TensorMapFields:
    return TensorMapFields(
        element_type=row["dtype"],
        address=row["addr"],
        dims=tuple(row["dims"]),
        strides=tuple(row["strides"]),
        box=tuple(row["box"]),
        swizzle=row["swizzle"],
        element_strides=tuple(row["elem_strides"]),
        l2_promotion=row["l2"],
        nan_fill=bool(row["oob"]),
    )


def test_all_driver_encodings_are_reproduced() -> None:
    valid = [row for row in ROWS if row["ok"]]
    assert len(valid) == 345
    for row in valid:
        ours = encode_tensor_map(fields(row))
        assert len(ours) == 128
        assert ours[:DEFINED_BYTES].hex() == row["hex"][: 2 * DEFINED_BYTES], row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"element_type": "FLOAT12"}, "element_type='FLOAT12'"),
        ({"address": 8}, "16-byte alignment"),
        ({"dims": (64, 0)}, r"dims\[1\]=0"),
        ({"strides": (120,)}, "multiple of 16"),
        ({"strides": (1 << 40,)}, "multiple of 16"),
        ({"box": (64, 257)}, r"box\[1\]=257"),
        ({"box": (128, 1)}, "at most 128"),
        ({"swizzle": 4}, "swizzle=4"),
        ({"dims": (64,)}, "rank 1 with 1 strides"),
    ],
)
def test_refusals_name_the_argument(change: dict[str, Any], message: str) -> None:
    encode_tensor_map(GOOD)
    with pytest.raises(ValueError, match=message):
        encode_tensor_map(replace(GOOD, **change))

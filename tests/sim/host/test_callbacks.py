"""The table of C function pointers, called as the shim calls it."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from sm100sim.host.callbacks import ELEMENT_NAMES, CallbackTable, build_table
from sm100sim.host.device_model import DeviceModel
from sm100sim.host.images import PtxCatalogue
from sm100sim.host.runtime import LAUNCH_FAILURE, NOT_SUPPORTED, Runtime

ROWS = Path(__file__).resolve().parents[2] / "data" / "tensormaps-h200.json"


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(PtxCatalogue(), DeviceModel(), lambda request: request)


@pytest.fixture
def table(runtime: Runtime) -> CallbackTable:
    return build_table(runtime)


def encode(table: CallbackTable, row: dict[str, Any]) -> tuple[int, bytes]:
    """Call the tensor-map encoder with C arrays, as ``cuTensorMapEncodeTiled`` is called."""
    target = ctypes.create_string_buffer(128)
    rank = row["rank"]
    kinds = {"dims": ctypes.c_uint64, "strides": ctypes.c_uint64}
    arrays = {
        name: (kinds.get(name, ctypes.c_uint32) * max(len(row[name]), 1))(*row[name])
        for name in ("dims", "strides", "box", "elem_strides")
    }
    status = table.encode_tensor_map(
        ctypes.addressof(target), ELEMENT_NAMES.index(row["dtype"]), rank, row["addr"],
        *(ctypes.addressof(array) for array in arrays.values()),
        row["interleave"], row["swizzle"], row["l2"], row["oob"],
    )  # fmt: skip
    return status, target.raw


def test_tensor_maps_are_those_of_the_real_driver(table: CallbackTable) -> None:
    rows = [row for row in json.loads(ROWS.read_text()) if row["ok"]]
    assert len(rows) == 345
    for row in rows:
        status, descriptor = encode(table, row)
        assert status == 0
        assert descriptor[:64] == bytes.fromhex(row["hex"])[:64], row


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"swizzle": 5}, "swizzle 5"),
        ({"interleave": 1}, "interleave 1"),
        ({"addr": 8}, "address 0x8"),
        ({"rank": 6}, "rank 6"),
    ],
)
def test_refused_tensor_maps_leave_their_reason(
    runtime: Runtime, table: CallbackTable, change: dict[str, Any], named: str
) -> None:
    row = next(row for row in json.loads(ROWS.read_text()) if row["ok"])
    status, _ = encode(table, row | change)
    assert status in {NOT_SUPPORTED, LAUNCH_FAILURE}
    assert named in str(runtime.pending)


def test_device_attributes_are_answered_and_unknown_ones_refused(
    runtime: Runtime, table: CallbackTable
) -> None:
    value = ctypes.c_int32()
    assert table.device_attribute(ctypes.byref(value), 97) == 0
    assert value.value == 232_448
    assert table.device_attribute(ctypes.byref(value), 9999) == NOT_SUPPORTED
    assert "9999" in str(runtime.pending)


def test_calls_without_a_model_are_named(runtime: Runtime, table: CallbackTable) -> None:
    assert table.unsupported(b"_cudaGraphLaunch") == NOT_SUPPORTED
    assert "cudaGraphLaunch is not modelled" in str(runtime.pending)


def test_after_a_failure_launches_are_refused_until_it_is_raised(
    runtime: Runtime, table: CallbackTable
) -> None:
    assert table.assertion_failed(1) == LAUNCH_FAILURE
    assert table.launch(0, 0, 0) == LAUNCH_FAILURE
    assert "failed with error 1" in str(runtime.pending)


def test_the_cause_of_a_failure_is_described_to_c(runtime: Runtime, table: CallbackTable) -> None:
    runtime.pending = ValueError("wild address" * 10)
    text = ctypes.create_string_buffer(b"\xff" * 24, 24)
    assert table.describe(719, ctypes.addressof(text), 24) == 0
    assert text.value == b"ValueError: wild addres"

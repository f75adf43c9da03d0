"""The driver that Triton is given: arguments, properties, tensor maps, modelled time."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sm100sim import triton as virtual
from sm100sim.host.device_model import DeviceModel
from sm100sim.host.on_import import when_imported
from sm100sim.layouts.im2col import Im2colMap
from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import TensorMap, TensorMapRefused
from sm100sim.triton import activation
from sm100sim.triton.clock import Clock, Event
from sm100sim.triton.driver import Driver, Utils
from sm100sim.triton.launcher import buffers, packed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("kind", "value", "raw"),
    [
        ("i32", -3, struct.pack("<i", -3)), ("u8", 200, b"\xc8"), ("i1", True, b"\x01"),
        ("fp32", 1, struct.pack("<f", 1.0)), ("fp64", 0.1, struct.pack("<d", 0.1)),
        ("fp16", 1.5, b"\x00\x3e"), ("bf16", 1.5, b"\xc0\x3f"), ("*fp32", None, bytes(8)),
        ("*i8", 4096, struct.pack("<Q", 4096)), ("nvTmaDesc", bytes(128), bytes(128)),
    ],
)  # fmt: skip
def test_arguments_are_packed_as_by_the_cuda_launcher(kind: str, value: object, raw: bytes) -> None:
    assert packed(kind, value) == raw


def test_tensors_are_addresses_in_host_memory() -> None:
    tensor = torch.zeros(4)
    assert packed("*fp32", tensor) == struct.pack("<Q", tensor.data_ptr())
    with pytest.raises(ValueError, match="'meta'"):
        packed("*fp32", torch.zeros(4, device="meta"))
    with pytest.raises(NotImplementedError, match="'fp8'"):
        packed("fp8", 1)


def test_memory_behind_arguments_is_known_by_name() -> None:
    tensor, array = torch.zeros(4), np.zeros(3)
    given = {"a": tensor[1:], "n": 7, "t": (array, 1), "d": SimpleNamespace(base=tensor)}
    found = list(buffers(given, given.values()))
    assert [(b.name, b.size) for b in found] == [("a", 16), ("t[0]", 24), ("d", 16)]


def test_tensor_maps_have_the_innermost_dimension_first() -> None:
    utils = Utils(DeviceModel())
    raw = utils.fill_tma_descriptor_tiled(4096, 3, 2, 6, [64, 32], [100, 200], [256, 1], 1)
    made = TensorMap.decode(raw)
    assert (made.element, made.address, made.swizzle) == ("FLOAT16", 4096, TmaSwizzle.B128)
    assert (made.sizes, made.strides, made.box) == ((200, 100), (512,), (32, 64))
    assert made.nan_fill
    with pytest.raises(TensorMapRefused):
        utils.fill_tma_descriptor_tiled(4097, 3, 2, 6, [64, 32], [100, 200], [256, 1], 0)
    with pytest.raises(NotImplementedError, match="type 99"):
        utils.fill_tma_descriptor_tiled(4096, 3, 2, 99, [64, 32], [100, 200], [256, 1], 0)


def test_im2col_maps_have_the_innermost_dimension_first() -> None:
    utils = Utils(DeviceModel())
    corners = ([-1, -2], [-3, 0], [1, 2, 4, 1])
    shape, strides = [3, 20, 30, 64], [38400, 1920, 64, 1]
    raw = utils.fill_tma_descriptor_im2col(4096, 3, 2, 6, [48, 32], shape, strides, 0, *corners)
    tiled = TensorMap("FLOAT16", 4096, (64, 30, 20, 3), (128, 3840, 76800), (32, 1, 1, 1),
                      (1, 4, 2, 1), TmaSwizzle.B128, l2=2)  # fmt: skip
    assert raw == Im2colMap(tiled, (-2, -1), (0, -3), 48).encode()
    with pytest.raises(TensorMapRefused):
        utils.fill_tma_descriptor_im2col(4096, 3, 2, 6, [2000, 32], shape, strides, 0, *corners)


def test_events_read_the_time_that_launches_took_here() -> None:
    clock = Clock()
    start, end = Event(clock), Event(clock)
    start.record()
    launch: Any = SimpleNamespace(seconds=0.25)
    clock.add(launch)
    end.record()
    assert start.elapsed_time(end) == 250
    assert clock.report is launch


def test_what_the_device_answers() -> None:
    device = Driver(100, DeviceModel(sm_count=7))
    assert device.get_device_capability() == (10, 0)
    assert device.utils.get_device_properties(0)["multiprocessor_count"] == 7
    assert device.utils.cuOccupancyMaxActiveClusters(None, 0, 2) == 3
    start, end = (device.get_device_interface().Event() for _ in range(2))
    start.record()
    end.record()
    assert start.elapsed_time(end) > 0


def test_only_known_capabilities() -> None:
    with pytest.raises(ValueError, match="capability: 120 is not one of"):
        virtual.activate(capability=120)


SCRIPT = """
import sys
assert "triton" not in sys.modules
{}import triton
print(triton.runtime.driver.active.get_current_target().arch)
"""


@pytest.mark.parametrize(
    "first", ["", pytest.param("import triton.runtime.driver\n", marks=pytest.mark.slow)]
)
def test_a_program_of_the_command_line_needs_no_line_for_it(first: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(SCRIPT.format(first))
    words = [sys.executable, "-m", "sm100sim", "run", str(tmp_path / "script.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.splitlines()[0] == "100", done.stderr


def test_a_program_that_has_imported_triton_gets_it_and_gives_it_back() -> None:
    config = pytest.importorskip("triton.runtime").driver
    before = config._active
    with when_imported(activation.MODULE, activation.put_into_module, virtual.deactivate):
        assert isinstance(config.active, Driver)
    assert config._active is before


def test_activation_is_undone() -> None:
    config = pytest.importorskip("triton.runtime").driver
    before = config._active
    virtual.activate(sm_count=3)
    virtual.activate()
    assert isinstance(config.active, Driver)
    assert virtual.last_report() is None
    virtual.deactivate()
    virtual.deactivate()
    assert config._active is before

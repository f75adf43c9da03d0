"""K and V tiles through the package's rings: shared memory on an H200 and on the simulator.

The recorded kernels are compiled for sm_90a; what they copied on the chip is the reference for the
simulator, which runs their PTX and that of the same kernel for sm_100a.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.run import simulator
from fa4_cute.plan.facts.hardware import SM100A
from fa4_cute.plan.facts.tensor_map_bits import encode_tensor_map
from fa4_cute.plan.memory.rings import Ring
from sm100sim.options import Check
from testing.hardware import kv_copy_device
from testing.hardware.kv_copy import CASES, HOPPER, KvCopyCase, compile_copy
from testing.hardware.kv_copy_record import read_images, read_kernel, specs
from tests.hardware.hopper import on_hopper

ROOT = Path(__file__).resolve().parents[2]
NAMES = [case.name for case in CASES]
by_case = pytest.mark.parametrize("case", CASES, ids=NAMES)


def simulated(case: KvCopyCase, artifact: CompiledArtifact) -> np.ndarray:
    """Image of the case on the simulator."""
    k, v = case.operands()
    image = np.full(case.image_bytes, kv_copy_device.UNWRITTEN, np.uint8)
    packed = case.pack((k.ctypes.data, v.ctypes.data, image.ctypes.data))
    buffers = [
        simulator.HostBuffer(array.ctypes.data, array.nbytes, array is image)
        for array in (k, v, image)
    ]
    report = simulator.launch(artifact.ptx, artifact.kernel_name, packed, buffers)
    assert report.verdict == "clean"
    return image


def expected(case: KvCopyCase) -> np.ndarray:
    """The image in formulas: zero-padded rows, 64-column chunks outermost, 128-byte swizzle."""
    config = case.spec(HOPPER).attention.config
    chunk_columns = 64
    rows = np.arange(config.BN)[:, None]
    unit = np.arange(8)[None, :]
    slots = []
    padded = case.num_tiles * config.BN
    for bits in case.operands():
        chunks = -(-case.head_dim // chunk_columns)
        full = np.zeros((case.batch, padded, case.heads, chunks * chunk_columns), np.uint16)
        full[:, : case.seqlen, :, : case.head_dim] = bits
        tiles = full.reshape(case.batch, case.num_tiles, config.BN, case.heads, chunks, 8, 8)
        tiles = tiles.transpose(0, 3, 1, 4, 2, 5, 6)
        slots.append(tiles[..., rows, unit ^ rows % 8, :])
    return np.ascontiguousarray(np.stack(slots, axis=3)).reshape(-1).view(np.uint8)


@by_case
def test_the_recorded_ptx_copies_what_the_chip_did(case: KvCopyCase) -> None:
    artifact = read_kernel(case.spec(HOPPER))
    assert np.array_equal(simulated(case, artifact), read_images()[case.name])


@pytest.mark.slow
@pytest.mark.parametrize("arch", [HOPPER, SM100A])
@by_case
def test_the_kernel_of_today_copies_what_the_chip_did(case: KvCopyCase, arch: str) -> None:
    pytest.importorskip("cutlass", reason="needs CuTe DSL")
    artifact = compile_copy(case.spec(arch))
    assert f".target {arch}" in artifact.ptx
    assert np.array_equal(simulated(case, artifact), read_images()[case.name])


@by_case
def test_the_chip_wrote_the_swizzled_tiles(case: KvCopyCase) -> None:
    assert np.array_equal(read_images()[case.name], expected(case))


@pytest.mark.parametrize("mode", ["random", "late"])
def test_every_landing_order_under_all_checks(mode: str) -> None:
    case = CASES[-2]
    with simulator.simulator_options(mode=mode, seed=3, checks=Check.ALL):
        image = simulated(case, read_kernel(case.spec(HOPPER)))
    assert np.array_equal(image, read_images()[case.name])


def test_the_copies_cover_both_rings_parts_and_edges() -> None:
    configs = [case.spec(HOPPER).attention.config for case in CASES]
    assert {c.use_fused_kv for c in configs} == {False, True}
    assert {c.num_qk_stages for c in configs} == {1, 2}
    for case, config in zip(CASES, configs, strict=True):
        assert case.seqlen % config.BN, "the last tile lies partly outside"
        slots = case.num_tiles * (2 if config.use_fused_kv else 1)
        assert slots > config.num_kv_stages or case is CASES[-1], "the ring wraps"


def test_the_recorded_ptx_announces_the_bytes_of_the_plan() -> None:
    for spec in specs():
        config = spec.attention.config
        found = re.findall(r"expect_tx\S+ _, \[%r\d+\], (%?\w+);", read_kernel(spec).ptx)
        plans = [Ring.of_keys(config), Ring.of_values(config)]
        assert len(found) == config.num_qk_stages + 1
        constants = dict(re.findall(r"mov\.b32\s+(%r\d+), (\d+);", read_kernel(spec).ptx))
        sizes = [int(constants.get(text, text)) for text in found]
        assert sizes == [plans[0].tile_bytes] * config.num_qk_stages + [plans[1].tile_bytes]


@on_hopper
@pytest.mark.parametrize("own_bits", [False, True], ids=["driver's maps", "our maps"])
@by_case
def test_the_chip_repeats_its_record(case: KvCopyCase, own_bits: bool) -> None:
    encode = encode_tensor_map if own_bits else None
    artifact = read_kernel(case.spec(HOPPER))
    image = kv_copy_device.run(case, artifact, kv_copy_device.launcher_of(), encode)
    assert np.array_equal(image, read_images()[case.name])


@on_hopper
def test_the_driver_compiles_the_recorded_ptx() -> None:
    case = CASES[0]
    launcher = kv_copy_device.launcher_of(from_ptx=True)
    image = kv_copy_device.run(case, read_kernel(case.spec(HOPPER)), launcher)
    assert np.array_equal(image, read_images()[case.name])


@on_hopper
def test_a_second_process_launches_from_the_disk_cache(tmp_path: Path) -> None:
    kv_copy_device.publish(tmp_path)
    command = [sys.executable, "-m", "testing.hardware.kv_copy_device", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    want = hashlib.sha256(read_images()[CASES[0].name].tobytes()).hexdigest()
    assert done.stdout.split()[-1] == want


def test_the_disk_cache_gives_the_kernel_without_a_compiler(tmp_path: Path) -> None:
    published = kv_copy_device.publish(tmp_path)
    assert kv_copy_device.cached(tmp_path) == published
    with pytest.raises(RuntimeError, match="not in the cache"):
        kv_copy_device.cached(tmp_path / "empty")

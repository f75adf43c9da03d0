"""Tensor maps that a kernel changes: tensormap.replace, cp_fenceproxy, fences; and the other
fences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import TensorMap
from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of, only, wait

BASE = TensorMap(
    "BFLOAT16", 0x7F0000001000, (128, 64, 8), (256, 16384), (64, 8, 1), (1, 1, 1), TmaSwizzle.B128
)
COPY_IN = (
    "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 2; "
    "add.u32 %r3, %r1, %r2; cvt.u64.u32 %rd1, %r2; add.s64 %rd2, %rd1, %p0;"
    "ld.global.b32 %r4, [%rd2]; st.shared.b32 [%r3+1024], %r4; bar.warp.sync -1;"
)
PUBLISH = (
    "bar.warp.sync -1; add.s64 %rd3, %p0, 0; add.u32 %r5, %r1, 1024;"
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%rd3], [%r5], 128;"
)


def replaced(*instructions: str, source: TensorMap = BASE) -> bytes:
    raw = aligned(128, np.uint8)
    raw[:] = np.frombuffer(source.encode(), np.uint8)
    body = "".join(instructions).replace("SMEM", "[%r1+1024]")
    run_ptx(COPY_IN + only(0, body, "T") + PUBLISH, raw, shared=SMEM, smem=2048)
    return raw.tobytes()


def field(name: str, value: str, bits: int = 32) -> str:
    return f"tensormap.replace.tile.{name}.shared::cta.b1024.b{bits} SMEM, {value};"


@pytest.mark.parametrize(
    ("instruction", "change"),
    [
        (
            "mov.b64 %rd5, 0x123456789A0; " + field("global_address", "%rd5", 64),
            {"address": 0x123456789A0},
        ),
        (
            field("rank", "1"),
            {"sizes": (128, 64), "strides": (256,), "box": (64, 8), "element_strides": (1, 1)},
        ),
        (field("box_dim", "1, 16"), {"box": (64, 16, 1)}),
        (field("global_dim", "0, 100"), {"sizes": (100, 64, 8)}),
        (field("global_dim", "2, 3"), {"sizes": (128, 64, 3)}),
        (
            "mov.b64 %rd5, 0xFFFFFFFFF0; " + field("global_stride", "1, %rd5", 64),
            {"strides": (256, 0xFFFFFFFFF0)},
        ),
        ("mov.b64 %rd5, 512; " + field("global_stride", "0, %rd5", 64), {"strides": (512, 16384)}),
        (field("element_stride", "1, 3"), {"element_strides": (1, 3, 1)}),
        (field("elemtype", "6"), {"element": "FLOAT16"}),
        (
            field("elemtype", "7") + field("box_dim", "0, 32"),
            {"element": "FLOAT32", "box": (32, 8, 1)},
        ),
        (
            field("elemtype", "11") + field("box_dim", "0, 32"),
            {"element": "TFLOAT32", "box": (32, 8, 1)},
        ),
        (
            field("swizzle_mode", "2") + field("box_dim", "0, 32"),
            {"swizzle": TmaSwizzle.B64, "box": (32, 8, 1)},
        ),
        (field("fill_mode", "1"), {"nan_fill": True}),
        (field("interleave_layout", "0"), {}),
    ],
)
def test_each_field(instruction: str, change: dict[str, Any]) -> None:
    got = TensorMap.decode(replaced(instruction))
    assert got == replace(BASE, **change)


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("mov.b64 %rd5, 8; " + field("global_address", "%rd5", 64), "multiple of 16"),
        (field("rank", "5"), "tensormap: tensormap.replace with a rank above 5"),
        (field("box_dim", "0, 257"), "box size"),
        ("mov.b64 %rd5, 24; " + field("global_stride", "0, %rd5", 64), "stride"),
        (field("element_stride", "0, 9"), "element stride"),
        (field("interleave_layout", "1"), "interleaved"),
        (field("swizzle_mode", "4"), "swizzle mode"),
    ],
)
def test_values_are_checked(instruction: str, reason: str) -> None:
    raw = aligned(128, np.uint8)
    raw[:] = np.frombuffer(BASE.encode(), np.uint8)
    body = COPY_IN + only(0, instruction.replace("SMEM", "[%r1+1024]"), "T")
    assert reason in fault_of(body, raw, shared=SMEM, smem=2048)


def test_forms_that_do_not_exist_stop() -> None:
    for text in (
        "tensormap.replace.tile.rank.shared::cta.b1024.b64 [%r1], %rd1;",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], %r2;",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 5, %r2;",
    ):
        with pytest.raises(PtxError):
            run_ptx(text, shared=SMEM, smem=64)


def test_a_map_made_on_the_device_is_used_by_a_copy() -> None:
    """Start from a map of another array; set address and sizes; publish, acquire, load."""
    source = aligned(64 * 64, np.uint16).reshape(64, 64)
    source[:] = np.arange(4096).reshape(64, 64)
    out = aligned(1024, np.uint8)
    raw = aligned(128, np.uint8)
    raw[:] = np.frombuffer(TensorMap("BFLOAT16", 16, (1, 1), (128,), (64, 8)).encode(), np.uint8)
    text = COPY_IN + only(
        0,
        (
            field("global_address", "%p1", 64)
            + field("global_dim", "0, 64")
            + field("global_dim", "1, 64")
        ).replace("SMEM", "[%r1+1024]"),
        "E",
    )
    text += (
        PUBLISH
        + "fence.proxy.tensormap::generic.acquire.gpu [%p0], 128;"
        + only(
            0,
            (
                "mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; "
                "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 1024;"
                "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
                "[%r1+1024], [%p0, {0, 3}], [%r1];"
            ),
            "T",
        )
        + "bar.warp.sync -1;"
        + wait("%r1", 0, "W")
    )
    text += (
        "shl.b32 %r2, %r0, 5; add.u32 %r3, %r1, %r2; "
        "ld.shared.v8.b32 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%r3+1024]; "
        "cvt.u64.u32 %rd1, %r2; add.s64 %rd1, %rd1, %p2; "
        "st.global.v8.b32 [%rd1], {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17};"
    )
    run_ptx(text, raw, source, out, shared=SMEM, smem=4096)
    assert (out.view(np.uint16).reshape(8, 64) == source[3:11]).all()


@pytest.mark.parametrize(
    "form",
    [
        "fence.acq_rel.cta;",
        "fence.sc.gpu;",
        "fence.acquire.cluster;",
        "fence.release.sys;",
        "membar.cta;",
        "membar.gl;",
        "membar.sys;",
        "fence.mbarrier_init.release.cluster;",
        "fence.proxy.alias;",
        "fence.proxy.async;",
        "fence.proxy.async.global;",
        "fence.proxy.async.shared::cta;",
        "fence.proxy.async.shared::cluster;",
        "fence.proxy.tensormap::generic.release.gpu;",
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
    ],
)
def test_fences_are_executed(form: str) -> None:
    assert not run_ptx(form).findings


@pytest.mark.parametrize(
    "form",
    [
        "fence.cta.gpu;",
        "fence.proxy.unknown;",
        "membar.warp;",
        "fence.mbarrier_init.release.gpu;",
        "fence.proxy.tensormap::generic.acquire.gpu;",
    ],
)
def test_unknown_fences_stop(form: str) -> None:
    with pytest.raises(PtxError):
        run_ptx(form)

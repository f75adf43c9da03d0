"""Tensor stores and reductions, bulk async-groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import TensorMap
from sm100sim.options import Check
from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx
from tests.sim.isa.memory.boxes import element_addresses, element_offsets
from tests.sim.isa.memory.programs import SMEM, aligned, aligned_copy, fault_of, only, tensor

MODES = ["fast", "random", "late"]
FENCE = "fence.proxy.async.shared::cta;"
DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


def fill(count: int) -> str:
    """Copy `count` bytes (a multiple of 512) from %p0 to the box at dyn + 1024."""
    return (
        "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 4; mov.u32 %r3, 0; "
        "F: add.u32 %r4, %r2, %r3; add.u32 %r5, %r1, %r4;"
        "cvt.u64.u32 %rd1, %r4; add.s64 %rd1, %rd1, %p0; "
        "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd1];"
        "st.shared.v4.b32 [%r5+1024], {%r10, %r11, %r12, %r13}; add.u32 %r3, %r3, 512;"
        f"setp.lt.u32 %q1, %r3, {count}; @%q1 bra F;"
    )


def store(
    tm: TensorMap, start: tuple[int, ...], op: str = "", groups: str = DONE, fence: str = FENCE
) -> str:
    coords = "{" + ", ".join(str(x) for x in start) + "}"
    name = (
        f"cp.reduce.async.bulk.tensor.{tm.rank}d.global.shared::cta.{op}"
        if op
        else f"cp.async.bulk.tensor.{tm.rank}d.global.shared::cta"
    )
    return (
        fence
        + "bar.sync 0;"
        + only(0, f"{name}.tile.bulk_group [%m0, {coords}], [%r1+1024]; {groups}", "T")
    )


def written(
    tm: TensorMap,
    target: np.ndarray,
    source: np.ndarray,
    start: tuple[int, ...],
    combine: Any = None,
) -> np.ndarray:
    """`target` after a store of the box whose shared bytes are `source`, by the Python
    statement."""
    out = target.copy()
    flat, elements = out.reshape(-1), source.view(target.dtype)
    offsets = (element_offsets(tm, 0x800) - 0x800).ravel() // tm.element_bytes
    addresses = element_addresses(tm, start).ravel()
    inside = addresses >= 0
    index = (addresses[inside] - target.ctypes.data) // tm.element_bytes
    values = elements[offsets[inside]]
    flat[index] = combine(flat[index], values) if combine else values
    return out


def box(tm: TensorMap) -> np.ndarray:
    data = aligned(tm.box_bytes, np.uint8)
    data[:] = np.random.default_rng(8).integers(0, 256, tm.box_bytes)
    return data


def run_store(
    text: str, source: np.ndarray, target: np.ndarray, tm: TensorMap, **options: Any
) -> Any:
    return run_ptx(
        fill(tm.box_bytes) + text,
        source,
        target,
        tm.encode(),
        shared=SMEM,
        smem=1024 + tm.box_bytes,
        **options,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("swizzle", list(TmaSwizzle))
@pytest.mark.parametrize("start", [(0, 0), (0, 35), (64, 3), (1000, 0)])
def test_store_drops_what_is_outside(
    start: tuple[int, int], swizzle: TmaSwizzle, mode: str
) -> None:
    target = aligned(40 * 80, np.uint16).reshape(40, 80)
    tm = tensor(target, ((swizzle.span or 128) // 2, 16), "BFLOAT16", swizzle=swizzle)
    source = box(tm)
    expected = written(tm, target, source, start)
    run_store(store(tm, start), source, target, tm, mode=mode)
    assert (target == expected).all()


@pytest.mark.parametrize(
    ("op", "element", "dtype", "combine"),
    [
        ("add", "UINT32", np.uint32, np.add),
        ("min", "INT32", np.int32, np.minimum),
        ("max", "UINT64", np.uint64, np.maximum),
        ("and", "UINT32", np.uint32, np.bitwise_and),
        ("or", "UINT64", np.uint64, np.bitwise_or),
        ("xor", "INT32", np.int32, np.bitwise_xor),
        ("inc", "UINT32", np.uint32, lambda a, b: np.where(a >= b, 0, a + 1)),
        ("add", "FLOAT32", np.float32, np.add),
        ("max", "FLOAT16", np.float16, np.maximum),
    ],
)
def test_reductions(op: str, element: str, dtype: Any, combine: Any) -> None:
    rng = np.random.default_rng(9)
    size = np.dtype(dtype).itemsize
    floats = element.startswith("FLOAT")
    target = aligned_copy(
        rng.standard_normal((8, 64 // size)).astype(dtype)
        if floats
        else np.frombuffer(rng.bytes(512), dtype).reshape(8, -1)
    )
    tm = tensor(target, (64 // size, 8), element)
    values = (
        rng.standard_normal(512 // size).astype(dtype)
        if floats
        else np.frombuffer(rng.bytes(512), dtype)
    )
    source = aligned_copy(values).view(np.uint8)
    expected = written(tm, target, source, (0, 2), combine)
    run_store(store(tm, (0, 2), op), source, target, tm)
    assert (target == expected).all()


TARGET = aligned(64 * 64, np.uint16).reshape(64, 64)
GOOD = tensor(TARGET, (64, 8), "BFLOAT16", swizzle=TmaSwizzle.B128)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (store(GOOD, (0, -1)), "negative"),
        (store(GOOD, (4, 0)), "multiple of 16"),
        (store(GOOD, (0, 0), "and"), "no form for"),
        (store(GOOD, (0, 0)).replace("[%r1+1024]", "[%r1+1088]"), "alignment of 128"),
        (store(GOOD, (0, 0)).replace("[%r1+1024]", "[%r1+1152]"), "past the end"),
    ],
)
def test_operands_are_checked(text: str, reason: str) -> None:
    assert reason in fault_of(
        fill(1024) + text, box(GOOD), TARGET, GOOD.encode(), shared=SMEM, smem=2048
    )


def test_stores_need_a_writable_allocation() -> None:
    elsewhere = tensor(TARGET, (64, 8), "BFLOAT16", swizzle=TmaSwizzle.B128)
    beyond = TensorMap(
        elsewhere.element,
        elsewhere.address + (1 << 30),
        elsewhere.sizes,
        elsewhere.strides,
        elsewhere.box,
        swizzle=TmaSwizzle.B128,
    )
    assert "outside of every known" in fault_of(
        fill(1024) + store(beyond, (0, 0)),
        box(GOOD),
        TARGET,
        beyond.encode(),
        shared=SMEM,
        smem=2048,
    )


def two_groups(keep: str) -> str:
    """Two groups with a wait between them; then the source of the first is overwritten."""
    one = (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m0, {0, 0}], "
        "[%r1+1024]; cp.async.bulk.commit_group;"
    )
    two = (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m0, {0, 16}], "
        "[%r1+2048]; cp.async.bulk.commit_group;"
    )
    clobber = "st.shared.b32 [%r1+1024], 0; st.shared.b32 [%r1+2044], 0;"
    return (
        FENCE
        + "bar.sync 0;"
        + only(0, one + two + keep + clobber + "cp.async.bulk.wait_group 0;", "T")
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "keep",
    [
        "cp.async.bulk.wait_group.read 1;",
        "cp.async.bulk.wait_group 1;",
        "cp.async.bulk.wait_group.read 0;",
    ],
)
def test_waiting_protects_the_source(keep: str, mode: str) -> None:
    target = aligned(64 * 64, np.uint16).reshape(64, 64)
    tm = tensor(target, (64, 8), "BFLOAT16", swizzle=TmaSwizzle.B128)
    source = aligned(2048, np.uint8)
    source[:] = np.random.default_rng(1).integers(1, 256, 2048)
    first, second = (
        written(tm, target, part, start)
        for part, start in ((source[:1024], (0, 0)), (source[1024:], (0, 16)))
    )
    report = run_ptx(
        fill(2048) + two_groups(keep),
        source,
        target,
        tm.encode(),
        shared=SMEM,
        smem=3072,
        mode=mode,
        checks=Check.RACES,
    )
    assert not report.findings
    assert (target == np.where(first != 0, first, second)).all()


def test_without_the_wait_late_mode_shows_the_clobbered_source_and_the_checker_names_it() -> None:
    target = aligned(64 * 64, np.uint16).reshape(64, 64)
    tm = tensor(target, (64, 8), "BFLOAT16", swizzle=TmaSwizzle.B128)
    source = aligned(2048, np.uint8)
    source[:] = 7
    report = run_ptx(
        fill(2048) + two_groups(""),
        source,
        target,
        tm.encode(),
        shared=SMEM,
        smem=3072,
        mode="late",
        checks=Check.RACES,
    )
    assert target[0, 0] == 0
    assert any(f.code == "race-shared" for f in report.findings)


def test_read_wait_does_not_cover_the_writes() -> None:
    """wait_group.read promises the sources only: a load of the result may still see the old
    bytes."""
    target = aligned(64 * 64, np.uint16).reshape(64, 64)
    out = aligned(4, np.uint32)
    tm = tensor(target, (64, 8), "BFLOAT16", swizzle=TmaSwizzle.B128)
    source = aligned(1024, np.uint8)
    source[:] = 7
    look = (
        "ld.global.b32 %r20, [%p1]; st.global.b32 [%p2], %r20; "
        "cp.async.bulk.wait_group 0; ld.global.b32 %r20, [%p1]; "
        "st.global.b32 [%p2+4], %r20;"
    )
    text = store(
        tm, (0, 0), groups="cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" + look
    )
    run_ptx(
        fill(1024) + text, source, target, out, tm.encode(), shared=SMEM, smem=2048, mode="late"
    )
    assert out[:2].tolist() == [0, 0x07070707]


def test_leaving_before_the_source_was_read_is_told_of() -> None:
    written, told = [], []  # with a wait, and without
    for groups in (DONE, "cp.async.bulk.commit_group;"):
        TARGET[:] = 0
        text = fill(1024) + store(GOOD, (0, 0), groups=groups)
        args = (box(GOOD), TARGET, GOOD.encode())
        report = run_ptx(text, *args, shared=SMEM, smem=2048, mode="late")
        told.append([(f.code, f.fatal) for f in report.findings])
        written.append(TARGET.copy())
    assert told == [[], [("exited-cta", False)]]
    assert (written[0] == written[1]).all()
    assert written[0].any()


def test_a_missing_proxy_fence_is_found() -> None:
    source = box(GOOD)
    args = (source, TARGET, GOOD.encode())
    clean = run_ptx(
        fill(1024) + store(GOOD, (0, 0)), *args, shared=SMEM, smem=2048, checks=Check.RACES
    )
    unfenced = run_ptx(
        fill(1024) + store(GOOD, (0, 0), fence=""),
        *args,
        shared=SMEM,
        smem=2048,
        checks=Check.RACES,
    )
    assert not clean.findings
    assert any("fence.proxy.async" in f.message for f in unfenced.findings)


def test_forms_that_do_not_exist_stop() -> None:
    for text in (
        store(GOOD, (0, 0), "exch"),
        store(GOOD, (0, 0)).replace(".bulk_group", ".mbarrier::complete_tx::bytes"),
    ):
        with pytest.raises(PtxError):
            run_ptx(fill(1024) + text, box(GOOD), TARGET, GOOD.encode(), shared=SMEM, smem=2048)


@pytest.mark.parametrize("op", ["", "add"])
@pytest.mark.parametrize("columns", [37, 39, 40])
def test_store_ends_at_a_multiple_of_16_bytes(columns: int, op: str) -> None:
    """The rest of the last 16-byte chunk lands in the padding of the row (H200 record)."""
    target = aligned(8 * 48, np.uint32).reshape(8, 48)
    target[:] = np.arange(8 * 48).reshape(8, 48)
    tm = TensorMap(
        element="UINT32",
        address=target.ctypes.data,
        sizes=(columns, 8),
        strides=(192,),
        box=(16, 8),
        element_strides=(1, 1),
        swizzle=TmaSwizzle.NONE,
        nan_fill=False,
    )
    source = box(tm)
    expected = target.copy()
    tile = source.view(np.uint32).reshape(8, 16)[:2, :8]
    expected[6:, 32:40] = tile + expected[6:, 32:40] * bool(op)
    run_store(store(tm, (32, 6), op), source, target, tm)
    assert (target == expected).all()


def test_store_behind_the_last_row_needs_memory_there() -> None:
    target = np.zeros(3 * 48 + 37, np.uint32)  # no bytes behind it, which `aligned` would leave
    assert target.ctypes.data % 16 == 0
    tm = TensorMap(
        element="UINT32",
        address=target.ctypes.data,
        sizes=(37, 4),
        strides=(192,),
        box=(16, 8),
        element_strides=(1, 1),
        swizzle=TmaSwizzle.NONE,
        nan_fill=False,
    )
    arguments = (box(tm), target, tm.encode())
    text = fault_of(fill(512) + store(tm, (32, 0)), *arguments, shared=SMEM, smem=1536)
    assert "outside of every known" in text

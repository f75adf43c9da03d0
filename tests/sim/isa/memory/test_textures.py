"""Texture fetches and surfaces against arithmetic on the host."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sm100sim.contract.textures import TEXTURE_MARK, Outside, TexelType, TextureRecord
from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import aligned, aligned_copy, fault_of

Texels = npt.NDArray[Any]
TYPES = {"f": TexelType.FLOAT, "u": TexelType.UNSIGNED, "i": TexelType.SIGNED}
ALL_MODES = list(Outside)
DATA = Path(__file__).parents[3] / "data" / "texture-gathers-h100.json"
GATHERS = json.loads(DATA.read_text())["rows"]


def record(texels: Texels, rank: int = 2, **fields: Any) -> Texels:
    """A texture record, as memory, of an array with its channels last and x before them."""
    shape, steps = texels.shape[::-1], texels.strides[::-1]
    size = (*shape[1 : 1 + rank], 1, 1)[:3]
    fields.setdefault("outside", (ctypes.c_uint8 * 3)(*[Outside.CLAMP] * 3))
    made = TextureRecord(
        mark=TEXTURE_MARK, address=texels.ctypes.data, size=size, rank=rank, channels=shape[0],
        channel_bytes=texels.itemsize, type=TYPES[texels.dtype.kind],
        pitch=steps[2] if len(steps) > 2 else 0, slice=steps[3] if len(steps) > 3 else 0, **fields,
    )  # fmt: skip
    return aligned_copy(np.frombuffer(bytes(made), np.uint8))


def modes(mode: Outside) -> Any:
    return (ctypes.c_uint8 * 3)(mode, mode, mode)


def fetch(
    texels: Texels, handle: Texels, points: Texels, form: str = "2d.v4.f32.f32", **options: Any
) -> Texels:
    """What 32 lanes get: [lane, channel]; `points`: [lane, 4] words of coordinates."""
    given, out = aligned_copy(points), aligned(128, np.uint32)
    op = options.pop("op", "tex")
    geometry = form.split(".")[op == "tld4"]
    names = {"1d": "%r4", "2d": "%r4, %r5"}.get(geometry, "%r4, %r5, %r6, %r7")
    body = f"""
mov.u32 %r0, %tid.x; mad.wide.u32 %rd0, %r0, 16, %p2; mad.wide.u32 %rd1, %r0, 16, %p3;
ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd0];
{op}.{form} {{%r10, %r11, %r12, %r13}}, [%p1, {{{names}}}];
st.global.v4.b32 [%rd1], {{%r10, %r11, %r12, %r13}};
"""
    run_ptx(body, texels, handle, given, out, **options)
    return out.reshape(32, 4)


def position(at: int, size: int, mode: Outside) -> int | None:
    if 0 <= at < size:
        return at
    if mode == Outside.WRAP:
        return at % size
    if mode == Outside.MIRROR:
        at %= 2 * size
        return at if at < size else 2 * size - 1 - at
    if mode == Outside.CLAMP:
        return min(max(at, 0), size - 1)
    return None


def expected(texels: Texels, point: Texels, mode: Outside, linear: bool, border: float) -> float:
    """The first channel at a point in texels, x first, by the formulas of the guide."""
    taps: list[tuple[tuple[int | None, ...], float]] = [((), 1.0)]
    for x, size in zip(point, texels.shape[-2::-1], strict=False):
        fixed = int(np.floor((float(x) - 0.5) * 256 + 0.5))
        pairs = [(fixed // 256, 1 - fixed % 256 / 256), (fixed // 256 + 1, fixed % 256 / 256)]
        chosen = pairs if linear else [(int(np.floor(x)), 1.0)]
        taps = [
            ((position(at, size, mode), *where), weight * part)
            for where, weight in taps
            for at, part in chosen
        ]
    return sum(
        weight * (border if None in where else float(texels[(*where, 0)]))
        for where, weight in taps
    )


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_modes_outside_and_filters(mode: Outside, linear: bool, rank: int) -> None:
    """Normalized coordinates from -2 to 3 in arrays of up to three dimensions."""
    rng = np.random.default_rng(8)
    texels = aligned_copy(rng.standard_normal((4, 8, 16, 1)[3 - rank :]).astype(np.float32))
    border = (ctypes.c_uint32 * 4)(int(np.float32(7).view(np.uint32)))
    how = {"linear": linear, "normalized": True, "border": border}
    handle = record(texels, rank, outside=modes(mode), **how)
    points = np.zeros((32, 4), np.float32)
    points[:, :rank] = rng.uniform(-2, 3, (32, rank))
    got = fetch(texels, handle, points.view(np.uint32), f"{rank}d.v4.f32.f32").view(np.float32)
    sizes = np.array(texels.shape[-2::-1])
    for point, value in zip(points[:, :rank].astype(np.float64) * sizes, got[:, 0], strict=True):
        assert value == np.float32(expected(texels, point, mode, linear, 7.0))


@pytest.mark.parametrize("channel", range(4))
@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("linear", [False, True])
def test_gathers_are_those_of_an_h100(linear: bool, mode: Outside, channel: int) -> None:
    """Each channel of the texels is 100 more than the one before."""
    rows = [r[2:] for r in GATHERS if r[:2] == [int(linear), int(mode)]]
    first = np.add.outer(10 * np.arange(6), np.arange(8))
    texels = aligned_copy(np.add.outer(first, 100 * np.arange(4)).astype(np.float32))
    outside = np.array([7000, 7100, 7200, 7300], np.float32).view(np.uint32)
    normalized = mode in (Outside.WRAP, Outside.MIRROR)
    how = {"linear": linear, "normalized": normalized, "outside": modes(mode)}
    handle = record(texels, border=(ctypes.c_uint32 * 4)(*outside.tolist()), **how)
    points = np.zeros((32, 4), np.float32)
    points[:24, :2] = np.array(rows)[:, :2]
    if normalized:
        points[:, :2] /= np.array([8, 6], np.float32)
    form = f"{'rgba'[channel]}.2d.v4.f32.f32"
    got = fetch(texels, handle, points.view(np.uint32), form, op="tld4")
    assert (got.view(np.float32)[:24] == np.array(rows)[:, 2:] + 100 * channel).all()


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_formats(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(9)
    numbers = rng.integers(0, 100, (4, 32, channels)).astype(dtype)
    texels = aligned_copy(numbers - np.array(3, dtype))
    kind = {"u": "u32", "i": "s32", "f": "f32"}[dtype[0]]
    points = np.zeros((32, 4), np.int32)
    points[:, 0], points[:, 1] = np.arange(32), 2
    got = fetch(texels, record(texels), points.view(np.uint32), f"2d.v4.{kind}.s32")
    wide = {"u": np.uint32, "i": np.int32, "f": np.float32}[dtype[0]]
    assert (got.view(wide)[:, :channels] == texels[2].astype(wide)).all()


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2"])
def test_integers_as_fractions(dtype: str) -> None:
    limits = np.iinfo(dtype)
    texels = aligned_copy(np.linspace(limits.min, limits.max, 32).astype(dtype).reshape(32, 1))
    points = np.zeros((32, 4), np.float32)
    points[:, 0] = np.arange(32) + 0.5
    handle = record(texels, 1, fraction=True)
    got = fetch(texels, handle, points.view(np.uint32), "1d.v4.f32.f32").view(np.float32)[:, 0]
    want = np.maximum(texels[:, 0].astype(np.float64) / limits.max, -1)
    assert (got == want.astype(np.float32)).all()


def test_layers() -> None:
    texels = aligned_copy(np.arange(3 * 4 * 8, dtype=np.float32).reshape(3, 4, 8, 1))
    points = np.zeros((32, 4), np.float32)
    points[:, 1:3] = np.stack([np.arange(32) % 8, np.arange(32) // 8], 1) + 0.5
    words = points.view(np.uint32)
    words[:, 0] = 2
    got = fetch(texels, record(texels, layers=3), words, "a2d.v4.f32.f32").view(np.float32)
    assert (got[:, 0] == texels[2].ravel()).all()
    words[:, 0] = 3
    with pytest.raises(Exception, match=r"layer 3 .* of 3"):
        fetch(texels, record(texels, layers=3), words, "a2d.v4.f32.f32")


DIRECTIONS = ((1, 0.5, 0.25), (-1, 0.5, 0.25), (0.5, 1, 0.25), (0.5, -1, 0.25), (0.5, 0.25, 1),
              (0.5, 0.25, -1))  # fmt: skip
PLACES = ((-0.25, -0.5), (0.25, -0.5), (0.5, 0.25), (0.5, -0.25), (0.5, -0.25), (-0.5, -0.25))
"""What the table of faces makes of the directions."""


def test_faces_of_a_cube() -> None:
    texels = aligned_copy(np.arange(6 * 8 * 8, dtype=np.float32).reshape(6, 8, 8, 1))
    points = np.zeros((32, 4), np.float32)
    points[:, :3] = np.resize(DIRECTIONS, (32, 3))
    handle = record(texels, layers=6, cube=True, normalized=True)
    got = fetch(texels, handle, points.view(np.uint32), "cube.v4.f32.f32").view(np.float32)[:, 0]
    for lane in range(32):
        x, y = (int((place + 1) / 2 * 8) for place in PLACES[lane % 6])
        assert got[lane] == texels[lane % 6, y, x, 0]
    points[:, :3] = 1
    with pytest.raises(Exception, match="between faces"):
        fetch(texels, handle, points.view(np.uint32), "cube.v4.f32.f32")


def test_facts() -> None:
    texels = aligned(2 * 4 * 8, np.float32).reshape(2, 4, 8, 1)
    out = aligned(5, np.uint32)
    names = ("width", "height", "depth", "array_size", "normalized_coords")
    body = "".join(
        f"txq.{name}.b32 %r{k}, [%p1]; st.global.u32 [%p2+{4 * k}], %r{k};"
        for k, name in enumerate(names)
    )
    run_ptx(body, texels, record(texels, layers=2, normalized=True), out)
    assert out.tolist() == [8, 4, 0, 2, 1]


def surface(texels: Texels, rank: int = 2, **fields: Any) -> Texels:
    return record(texels, rank, surface=True, **fields)


@pytest.mark.parametrize("mode", ["clamp", "zero"])
def test_surfaces(mode: str) -> None:
    """Each lane moves 8 bytes one element to the right; the last of a row lies outside."""
    source = aligned_copy(np.arange(4 * 8 * 2, dtype=np.float32).reshape(4, 8, 2))
    target = aligned(4 * 8 * 2, np.float32).reshape(4, 8, 2)
    body = f"""
mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 7; shl.b32 %r1, %r1, 3; shr.u32 %r2, %r0, 3;
suld.b.2d.v2.b32.trap {{%r4, %r5}}, [%p1, {{%r1, %r2}}]; add.s32 %r1, %r1, 8;
sust.b.2d.v2.b32.{mode} [%p3, {{%r1, %r2}}], {{%r4, %r5}};
"""
    run_ptx(body, source, surface(source), target, surface(target))
    want = np.roll(source, 1, axis=1)
    want[:, 0] = 0
    if mode == "clamp":
        want[:, 7] = source[:, 7]
    assert (target == want).all()


def test_surfaces_of_layers_and_planes() -> None:
    for form, rank, fields in (("a2d", 2, {"layers": 3}), ("3d", 3, {})):
        texels = aligned_copy(np.arange(3 * 4 * 8, dtype=np.uint16).reshape(3, 4, 8, 1))
        where = "{2, 6, 1, 0}" if form == "a2d" else "{6, 1, 2, 0}"
        out = aligned(1, np.uint16)
        body = f"suld.b.{form}.b16.trap %h0, [%p1, {where}]; st.global.u16 [%p2], %h0;"
        run_ptx(body, texels, surface(texels, rank, **fields), out)
        assert out[0] == texels[2, 1, 3, 0]


TEX = "tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%p1, {%r8, %r9}];"


@pytest.mark.parametrize(
    ("body", "fields", "says"),
    [
        (TEX.replace("2d", "1d").replace(", %r9", ""), {}, "has 2 dimensions"),
        (TEX.replace("v4.f32", "v4.u32"), {}, "gives floats"),
        (TEX.replace("%r8, %r9", "0f7F800000, %r9"), {}, "texture: coordinate 0"),
        (TEX.replace("%p1", "%p0"), {}, "texture-handle"),
        ("sust.b.2d.b32.trap [%p1, {0, 0}], {%r0};", {}, "needs a surface"),
        ("sust.b.2d.b32.trap [%p1, {0, 4}], {%r0};", {"surface": True}, "surface-address"),
        ("sust.b.2d.b32.trap [%p1, {2, 0}], {%r0};", {"surface": True}, "misaligned"),
        ("tex.level.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%p1, {%r8, %r9}], %f0;", {}, "level"),
    ],
)  # fmt: skip
def test_what_stops(body: str, fields: dict[str, Any], says: str) -> None:
    texels = aligned(32, np.float32).reshape(4, 8, 1)
    body = "mov.b32 %r8, 0; mov.b32 %r9, 0;" + body
    assert says in fault_of(body, texels, record(texels, **fields))


STORES = ("st.global.f32 [%p0], %f0;", "sust.b.2d.b32.trap [%p1, {0, 0}], {%f0};")


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("wrote", STORES)
def test_reads_of_what_the_launch_wrote(wrote: str, broken: bool) -> None:
    """Not kept coherent, even behind a barrier; other texels may be read."""
    texels = aligned(32, np.float32).reshape(4, 8, 1)
    column = 0 if broken else 1
    body = f"""
mov.u32 %r20, %tid.x; setp.ne.u32 %q0, %r20, 0; mov.b32 %f0, 0f3F800000;
@!%q0 {wrote} bar.sync 0; mov.b32 %r8, {column}; mov.b32 %r9, 0;
{TEX.replace("f32.f32", "f32.s32")}
"""
    report = run_ptx(body, texels, surface(texels), checks=Check.RACES)
    codes = {finding.code for finding in report.findings}
    assert codes == ({"texture-after-write"} if broken else set())


def test_a_texture_read_races_with_a_later_store() -> None:
    texels = aligned(32, np.float32).reshape(4, 8, 1)
    store = "setp.ne.u32 %q0, %r20, 32; @!%q0 st.global.f32 [%p0], %f0;"
    for barrier, found in (("bar.sync 0;", set()), ("", {"race-global"})):
        body = f"""
mov.u32 %r20, %tid.x; mov.b32 %r8, 0; mov.b32 %r9, 0; mov.b32 %f0, 0f3F800000;
setp.ge.u32 %q1, %r20, 32; @!%q1 {TEX.replace("f32.f32", "f32.s32")} {barrier} {store}
"""
        report = run_ptx(body, texels, record(texels), block=64, checks=Check.RACES)
        assert {finding.code for finding in report.findings} == found

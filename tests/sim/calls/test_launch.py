"""Launches by PTX text and Python values."""

from __future__ import annotations

import contextlib
import io
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sm100sim

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
SUM = """
.visible .entry sum(.param .u64 a, .param .u64 b, .param .u32 n)
{
    .reg .pred %p; .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .f32 %f<3>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1; @%p ret;
    mul.wide.u32 %rd3, %r2, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; add.f32 %f1, %f1, %f2;
    st.global.f32 [%rd2], %f1;
    ret;
}
"""


def returned(kind: str, value: Any) -> bytes:
    """The bytes that a kernel finds in a parameter of `kind`, e.g. "f32" or "b8[16]"."""
    name, _, count = kind.partition("[")
    array = f"[{count}" if count else ""
    size = int(name[1:]) // 8 * int(count[:-1] if count else 1)
    copies = "".join(f"ld.param.b8 %r, [v+{k}]; st.global.b8 [%o+{k}], %r;\n" for k in range(size))
    ptx = (
        f"{HEAD}.entry k(.param .u64 out, .param .align 8 .{name} v{array}) .reqntid 1 {{\n"
        f".reg .b64 %o; .reg .b32 %r; ld.param.u64 %o, [out];\n{copies}ret; }}"
    )
    out = np.zeros(size, np.uint8)
    assert sm100sim.launch(ptx, grid=1, args=[out, value]).verdict == "clean"
    return out.tobytes()


def test_arrays_and_tensors_are_the_buffers() -> None:
    a, b = np.arange(100, dtype=np.float32), torch.ones(100)
    report = sm100sim.launch(HEAD + SUM, grid=(4,), block=32, args=[a, b, 100])
    assert report.verdict == "clean"
    assert (report.kernel, report.grid, report.block) == ("sum", (4, 1, 1), (32, 1, 1))
    assert report.memory_check == "registered allocations"
    assert (b.numpy() == np.arange(100) + 1).all()
    with pytest.raises(sm100sim.SimulationFault, match="global-address"):
        sm100sim.launch(HEAD + SUM, grid=4, block=32, args=[a, b, 101])


def test_what_may_not_be_written_is_not() -> None:
    fixed = np.zeros(32, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(sm100sim.SimulationFault, match="global"):
        sm100sim.launch(HEAD + SUM, grid=1, block=32, args=[fixed, fixed, 1])


@pytest.mark.parametrize(
    ("kind", "value", "raw"),
    [
        ("u32", 7, struct.pack("<I", 7)),
        ("u32", -1, b"\xff" * 4),
        ("s32", np.int64(-5), struct.pack("<i", -5)),
        ("u8", True, b"\1"),
        ("s64", -(2**63), struct.pack("<q", -(2**63))),
        ("f32", 3, struct.pack("<f", 3.0)),
        ("f32", np.float32(0.1), struct.pack("<f", np.float32(0.1))),
        ("f64", 0.1, struct.pack("<d", 0.1)),
        ("f16", 0.5, struct.pack("<e", 0.5)),
        ("b32", 1.5, struct.pack("<f", 1.5)),
        ("b32", 1, struct.pack("<I", 1)),
        ("b64", None, bytes(8)),
        ("b8[12]", b"twelve bytes", b"twelve bytes"),
        ("u64", b"8  bytes", b"8  bytes"),
    ],
)
def test_values_are_packed_by_type(kind: str, value: Any, raw: bytes) -> None:
    assert returned(kind, value) == raw


@pytest.mark.parametrize(
    ("kind", "value", "error", "words"),
    [
        ("u32", 2**32, ValueError, "4294967296 does not fit into 32 bits"),
        ("s8", -129, ValueError, "-129 does not fit into 8 bits"),
        ("u32", 1.0, TypeError, r"1.0 \(float\) is no whole number"),
        ("f32", "x", TypeError, "'x' is no number"),
        ("f32", 1e39, ValueError, "1e\\+39 is too large for 32 bits"),
        ("u32", np.zeros(1), TypeError, r"an array \(ndarray\) gives an address"),
        ("u32", None, TypeError, "None gives an address, which has 8 bytes"),
        ("f64", torch.zeros(1), TypeError, r"an array \(Tensor\) gives an address"),
        ("u64", torch.zeros(1, device="meta"), ValueError, "a tensor on meta; give a CPU tensor"),
        ("b8[12]", b"short", ValueError, "5 bytes given, 12 are needed"),
        ("b8[12]", 5, TypeError, "int given; give its 12 bytes as a byte string"),
    ],
)
def test_what_does_not_fit_is_refused(kind: str, value: Any, error: type, words: str) -> None:
    name = re.escape(f"args[1], parameter v (.{kind}): ")
    with pytest.raises(error, match=name + words):
        returned(kind, value)


def test_the_number_of_arguments() -> None:
    words = r"args: 1 given, the kernel has 3 parameters: a \(.u64\), b \(.u64\), n \(.u32\)"
    with pytest.raises(ValueError, match=words):
        sm100sim.launch(HEAD + SUM, grid=1, block=32, args=[1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"args": 3}, "args=3: expected a list, one value per parameter"),
        ({"args": [np.array([object()]), 0, 0]}, r"buffer: object\[1\] holds Python objects"),
        ({"options": "a"}, r"options='a': expected sm100sim.RunOptions\(...\), got str"),
        ({"seed": 3}, r"seed: an option; give options=sm100sim.RunOptions\(seed=...\)"),
        ({"smem": 3}, "smem: no such argument; choose from grid, block, args, .*smem_bytes"),
        ({"program": b"text"}, "program: expected PTX text or a LaunchRequest, got bytes"),
    ],
)
def test_what_is_no_call_is_refused(call: dict[str, Any], words: str) -> None:
    zeros = (np.zeros(1), np.zeros(1), 0)
    with pytest.raises(TypeError, match=words):
        sm100sim.launch(**{"program": HEAD + SUM, "grid": 1, "block": 32, "args": zeros, **call})


def test_arguments_may_come_one_by_one() -> None:
    zeros = np.zeros(32, np.float32)
    given = iter((zeros, zeros, 0))
    assert sm100sim.launch(HEAD + SUM, grid=1, block=32, args=given).verdict == "clean"


def test_the_kernel_and_the_extents() -> None:
    two = HEAD + ".entry a() .reqntid 8, 2 { ret; }\n.entry b() { ret; }"
    report = sm100sim.launch(two, kernel="a", grid=(2, 3), cluster=2)
    assert (report.grid, report.block, report.cluster) == ((2, 3, 1), (8, 2, 1), (2, 1, 1))
    for call, words in (
        ({"grid": 1}, "kernel: say which; it has a, b"),
        ({"grid": 1, "kernel": "c"}, "'c' is not in the PTX; it has a, b"),
        ({"grid": 1, "kernel": "b"}, "block: say how many threads; b has no .reqntid"),
        ({"grid": (1, 1, 1, 1), "kernel": "a"}, "grid=.*: expected one to three whole numbers"),
        ({"grid": 1.5, "kernel": "a"}, "grid=1.5: expected one to three whole numbers"),
        ({"grid": 0, "kernel": "a"}, "grid=.*at least 1"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            sm100sim.launch(two, **call)


def test_a_request_says_all_itself() -> None:
    request = sm100sim.LaunchRequest(HEAD + ".entry a() { ret; }", "a", (1, 1, 1), (32, 1, 1))
    assert sm100sim.launch(request, sm100sim.RunOptions(mode="late")).verdict == "clean"
    with pytest.raises(TypeError, match="grid: a LaunchRequest says this itself"):
        sm100sim.launch(request, grid=1)  # type: ignore[call-overload]  # refused


def test_the_example_of_the_readme() -> None:
    text = (Path(sm100sim.__file__).parent / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(code, {})
    assert shown.getvalue() == "clean [0 2 4 6]\n"

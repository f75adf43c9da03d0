"""tcgen05.ld, st and wait: every shape against layouts/tmem_addr.py, and the rules that fault."""

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.ptx.errors import Unsupported
from sm100sim.report import Report, SimulationFault
from testing.layouts.tmem_addr import LD_SHAPES, ld_map
from tests.sim.isa.tcgen05.programs import run_frame

IMAGE = [np.zeros(16, np.uint8)]
LARGEST = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}
CASES = [
    (shape, count, packed)
    for shape, largest in LARGEST.items()
    for count in (1, 2, 4, 8, 16, 32, 64, 128)
    for packed in (False, True)
    if count <= largest and not (packed and shape == "16x64b" and count > 64)
]


def tmem_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, (1, 128, 512), np.uint32)


def registers(count: int) -> str:
    return "{" + ", ".join(f"%v{k}" for k in range(count)) + "}"


class Access:
    """One form of ld or st, at a column and lane where it fits."""

    def __init__(self, shape: str, count: int, packed: bool) -> None:
        self.shape, self.count, self.packed = shape, count, packed
        self.half = (2 if packed else 1) * count if shape == "16x32bx2" else 0
        self.n = LD_SHAPES[shape] * count
        self.lane = 0 if shape == "32x32b" else 16
        cells = self.cells()
        used = max(int(c[..., 1].max()) for c in cells) + 1
        self.column = min(7, 512 - used)

    def cells(self) -> list[np.ndarray]:
        """(lane, column) behind each register; packed: of its low and of its high half."""
        if not self.packed:
            return [ld_map(self.shape, self.count, self.half)]
        low = ld_map(self.shape, self.count) * [1, 2]
        low[:, 16:, 1] += self.half
        return [low, low + np.array([0, 1])]

    def physical(self, warp: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Index arrays [register, thread] into Tensor Memory."""
        return [(c[..., 0] + 32 * warp + self.lane, c[..., 1] + self.column) for c in self.cells()]

    def text(self, op: str) -> str:
        """PTX of the access; %r12 holds its address."""
        split = f", {self.half}" if self.shape == "16x32bx2" else ""
        pack = "" if not self.packed else ".pack::16b" if op == "ld" else ".unpack::16b"
        name = f"tcgen05.{op}.sync.aligned.{self.shape}.x{self.count}{pack}.b32"
        address = f"[%r12 + {self.column}]{split}"
        if op == "ld":
            return f"{name} {registers(self.n)}, {address};"
        return f"{name} {address}, {registers(self.n)};"

    def run(self, op: str, tmem: np.ndarray, values: np.ndarray, **options: Any) -> np.ndarray:
        """Execute by four warps; `values` [register, 128 threads] is st's source, ld's result."""
        moves = {
            "ld": "st.global.b32 [%rd4 + {0}], %v{1};",
            "st": "ld.global.b32 %v{1}, [%rd4 + {0}];",
        }[op]
        lines = [moves.format(512 * v, v) for v in range(self.n)]
        access = [self.text(op), f"tcgen05.wait::{op}.sync.aligned;"]
        body = [
            "mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %p3;",
            f"or.b32 %r12, %r30, %r10; add.u32 %r12, %r12, {self.lane << 16};",
            *(access + lines if op == "ld" else lines + access),
        ]
        regs = f".reg .b32 %v<{self.n}>;"
        return run_frame("\n".join(body), IMAGE, tmem, values, wait=False, regs=regs, **options)[1]


@pytest.mark.parametrize(("shape", "count", "packed"), CASES)
def test_load_reads_the_cells_of_its_shape(shape: str, count: int, packed: bool) -> None:
    access = Access(shape, count, packed)
    tmem, values = tmem_image(count), np.zeros((access.n, 128), np.uint32)
    after = access.run("ld", tmem, values)
    np.testing.assert_array_equal(after, tmem)
    for warp in range(4):
        parts = [tmem[0][cells] for cells in access.physical(warp)]
        want = parts[0]
        if packed:
            want = parts[0] & np.uint32(0xFFFF) | parts[1] << np.uint32(16)
        np.testing.assert_array_equal(values[:, 32 * warp : 32 * warp + 32], want)


@pytest.mark.parametrize("mode", ["fast", "random"])
@pytest.mark.parametrize(("shape", "count", "packed"), [c for c in CASES if c[1] in (1, 2, 16)])
def test_store_writes_the_cells_of_its_shape(
    shape: str, count: int, packed: bool, mode: str
) -> None:
    access = Access(shape, count, packed)
    values = np.random.default_rng(count).integers(0, 1 << 32, (access.n, 128), np.uint32)
    tmem = tmem_image(count + 1)
    want = tmem.copy()
    for warp in range(4):
        mine = values[:, 32 * warp : 32 * warp + 32]
        for k, cells in enumerate(access.physical(warp)):
            want[0][cells] = mine if not packed else mine >> np.uint32(16 * k) & np.uint32(0xFFFF)
    after = access.run("st", tmem, values, mode=mode, poison=False)
    np.testing.assert_array_equal(after, want)


def one(body: str, **options: Any) -> tuple[Report, np.ndarray]:
    """Run `body` on warp-private addresses: %r12 is the warp's address of column 0."""
    text = f"or.b32 %r12, %r30, %r10;\n{body}"
    return run_frame(text, IMAGE, tmem_image(1), wait=False, **options)


LD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r40, %r41, %r42, %r43}, "


@pytest.mark.parametrize(
    ("legal", "illegal", "code"),
    [
        (f"{LD}[%r12 + 508];", f"{LD}[%r12 + 509];", "access-out-of-physical-bounds"),
        (
            "add.u32 %r12, %r12, 0x100000; tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r40}, [%r12];",
            "add.u32 %r12, %r12, 0x80000; tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r40}, [%r12];",
            "invalid-datapath-alignment",
        ),
        (
            f"and.b32 %r13, %r0, 32; add.u32 %r12, %r12, %r13; {LD}[%r12];",
            f"and.b32 %r13, %r0, 1; add.u32 %r12, %r12, %r13; {LD}[%r12];",
            "not-uniform",
        ),
        (
            f"setp.ge.u32 %q7, %r0, 0; @%q7 {LD}[%r12];",
            f"setp.ge.u32 %q7, %r0, 1; @%q7 {LD}[%r12];",
            "partial-warp",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) and "-" in x and len(x) < 40 else "",
)
def test_rules_of_access(legal: str, illegal: str, code: str) -> None:
    assert not one(legal)[0].findings
    with pytest.raises(SimulationFault, match=code):
        one(illegal)


@pytest.mark.parametrize(
    "wrong",
    ["and.b32 %r12, %r12, 0x1FFFFF;", "add.u32 %r12, %r12, 0x800000;",
     "and.b32 %r40, %r0, 31; shl.b32 %r40, %r40, 16; add.u32 %r12, %r12, %r40;"],
)  # fmt: skip
def test_a_warp_reaches_its_own_quarter_whatever_the_address_names(wrong: str) -> None:
    """The quarter left out, as shipped kernels do, 128 lanes more, or the lane of each thread: one
    finding, own lanes."""
    words = np.zeros(128, np.uint32)
    report, _ = one(
        f"{wrong} tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r40}}, [%r12];"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r41}, [%r12];"
        "mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %p3; st.global.b32 [%rd4], %r40;",
        words=words,
    )
    np.testing.assert_array_equal(words, tmem_image(1)[0, :, 0])
    assert [f.code for f in report.findings] == ["current-warp-owner-invalid"]


def test_a_store_is_visible_after_its_wait_only() -> None:
    """In late mode nothing lands by itself, so the value read before the wait is the old one."""
    body = """
mov.b32 %r40, 77; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%r40};
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r41}, [%r12];
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r42}, [%r12];
mul.wide.u32 %rd4, %r0, 8; add.s64 %rd4, %rd4, %p3; st.global.v2.b32 [%rd4], {%r41, %r42};
"""
    words = np.zeros(256, np.uint32)
    one(body, words=words, mode="late")
    np.testing.assert_array_equal(words[0::2], tmem_image(1)[0, :, 0])
    np.testing.assert_array_equal(words[1::2], 77)


def test_reading_a_cell_that_nothing_wrote_is_reported() -> None:
    packed = "tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {%r40, %r41}, [%r12];"
    plain = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r12];"
    store = "tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r12], {%r0, %r1};"
    wait = "tcgen05.wait::st.sync.aligned;"
    for load, expected in ((packed, []), (plain, ["uninitialised-tmem"])):
        findings = one(f"{store} {wait} {load}", checks=Check.TMEM)[0].findings
        in_body = [f for f in findings if "x8" not in f.source]
        assert [f.code for f in in_body] == expected


@pytest.mark.parametrize(
    "text",
    [
        "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r40}, [%r12];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r40}, [%r12];",
        "tcgen05.ld.aligned.32x32b.x1.b32 {%r40}, [%r12];",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r40, %r41}, %r42, [%r12];",
        "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r40}, [%r12];",
    ],
)
def test_unknown_forms_stop_with_their_line(text: str) -> None:
    with pytest.raises(Unsupported, match="tcgen05"):
        one(text)

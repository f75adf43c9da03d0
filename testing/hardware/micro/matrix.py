"""ldmatrix and stmatrix on permuted row addresses."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case, filled
from testing.hardware.micro import samples
from testing.hardware.micro.shared import BASE, DATA, SMEM, dump, fill

BYTES = 2048
ROWS = BYTES // 16


def _rows(seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).permutation(ROWS)[:32].astype(np.uint32)


ROW = "mad.wide.u32 %rd2, %r0, 4, %p1; ld.global.b32 %r20, [%rd2]; shl.b32 %r20, %r20, 4; add.u32 %r20, %r20, %r1;"


def cases() -> list[Case]:
    """All forms of sm_90: m8n8, x1 x2 x4, .trans."""
    data, out = samples.random_bits(BYTES // 4, np.uint32, 71), []
    for count in (1, 2, 4):
        registers = ", ".join(f"%r{30 + k}" for k in range(count))
        for trans in ("", ".trans"):
            body = BASE + fill(BYTES, "F", "%p0") + ROW
            body += f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r20+{DATA}];"
            body += "mad.wide.u32 %rd3, %r0, 16, %p2;"
            body += "".join(f"st.global.b32 [%rd3+{4 * k}], %r{30 + k};" for k in range(count))
            out.append(Case(f"ldmatrix.x{count}{trans}", "matrix", body, (data, _rows(count)), (filled(128, np.uint32),),
                            shared=SMEM, smem=DATA + BYTES, group="ldmatrix"))  # fmt: skip
            body = BASE + fill(BYTES) + ROW + "mad.wide.u32 %rd3, %r0, 16, %p0;"
            body += "".join(f"ld.global.b32 %r{30 + k}, [%rd3+{4 * k}];" for k in range(count))
            body += f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r20+{DATA}], {{{registers}}}; bar.warp.sync -1;\n"
            out.append(Case(f"stmatrix.x{count}{trans}", "matrix", body + dump(BYTES, "%p2"), (data[:128], _rows(9 + count)),
                            (filled(BYTES),), shared=SMEM, smem=DATA + BYTES, group="stmatrix"))  # fmt: skip
    return out

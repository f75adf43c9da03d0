"""Kernels that an H200 ran, all SMs at once (`together`): the share that is joined.

    python -m benchmarks.timing.sharing.together_kernels RESULTS.json [LIMIT | clocks]

Only their orders of tiles, slots and products are taken over: no instruction, no epilogue, no
memory. Orders are those of quack's scheduler and of the judges' programs; those of persistent CTAs
are as their first CTA executes them. LIMIT: bytes a cycle out of the L2, for `Machine.limit`;
"clocks": what rows of several GPCs get (`LIMIT_SHARED`), at the clock of SMs that a measurement
recorded: the L2 has a clock of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.timing.questions import ROW_BYTES, SMS
from benchmarks.timing.sharing.operands import COLUMNS, Sharing, Table, ordered
from benchmarks.timing.sharing.together import (
    HERE,
    Asked,
    Machine,
    Outcome,
    Together,
    begins_of,
    placed,
    requests_of,
)
from testing.site.target import options

COUNTERS: Final = HERE.with_name("waits") / "h200_counters.json"
GROUP: Final = 8
"""Blocks that quack's scheduler takes first."""
LIMIT_SHARED: Final = 5010
"""Bytes a cycle that leave the L2 at `PROBES_MHZ`, of rows that SMs of all GPCs ask for
(`sharing/h200.json`, 38.0 an SM; `h200_paces.json` has 38.1, and 49.4 at 1,468 MHz)."""
PROBES_MHZ: Final = 1980
"""Clock of SMs in those probes."""
MEASURED: Final = HERE.parent / "judges" / "measured.json"
TILE_STEPS: Final = 64
MOST_STEPS: Final = 6 * TILE_STEPS
"""Tiles of a run; the first one is not counted."""
SECTOR: Final = 32
BOXES: Final = "Triton GEMM, boxes 4096x4096x4096"
PERSISTENT: Final = "CUTLASS persistent GEMM 4096x4096x4096 64 × 128, cluster 1 × 1"


def quack_order(tile: tuple[int, int], ctas: int = SMS) -> Table:
    """Tiles of each persistent CTA: groups of eight blocks, every other one backwards.

    The groups are of A's blocks where there are fewer of them than of B's, else of B's.
    """
    blocks = tuple(-(-COLUMNS // size) for size in tile)
    of_a = blocks[1] > blocks[0]
    fast, slow = blocks if of_a else blocks[::-1]
    places = []
    for first in range(0, fast, GROUP):
        many = min(GROUP, fast - first)
        along = range(slow) if first // GROUP % 2 == 0 else range(slow - 1, -1, -1)
        places += [(first + k, at) for at in along for k in range(many)]
    found = places if of_a else [place[::-1] for place in places]
    whole = len(found) // ctas * ctas
    return tuple(tuple(found[k:whole:ctas]) for k in range(ctas))


@dataclass(frozen=True)
class Product:
    """A product of 4096 cubed.

    Attributes:
        name: of the counters. tile: rows and columns. slots: of the ring.
        order: of tiles: "quack", or "columns", all blocks of A first.
        resident: CTAs of an SM; each is followed as if it had a port of its own.
    """

    name: str
    tile: tuple[int, int]
    slots: int
    order: str = "quack"
    resident: int = 1

    @property
    def work(self) -> float:
        """Cycles of a step's products: 64 columns of A and B, 4 of 16, of 64 rows each."""
        return 4 * self.tile[0] / 64 * self.tile[1] / 2 * self.resident

    @property
    def asks(self) -> float:
        """Bytes a cycle of an SM where nothing but products takes time."""
        return sum(self.tile) * ROW_BYTES * self.resident / self.work

    @property
    def table(self) -> Table:
        """Tiles of each CTA, and of those that follow it at its place."""
        ctas = SMS * self.resident
        if self.order == "quack":
            return quack_order(self.tile, ctas)
        return ordered(self.tile, COLUMNS // self.tile[0], along_a=True, ctas=ctas)


KERNELS: Final = (
    Product("gemm-4096x4096x4096-tile128x64-cluster1x1", (128, 64), 8),
    Product("gemm-4096x4096x4096-tile128x128-cluster1x1", (128, 128), 6),
    Product("gemm-4096x4096x4096-tile128x192-cluster1x1", (128, 192), 4),
    Product("gemm-4096x4096x4096-tile128x256-cluster1x1", (128, 256), 4),
    Product("gemm-4096x4096x4096-tile256x128-cluster1x1", (256, 128), 4),
    Product(f"{BOXES} 128 × 256, 3 stages, 8 warps", (128, 256), 3, "columns"),
    Product(f"{BOXES} 128 × 128, 3 stages, 8 warps", (128, 128), 3, "columns", 2),
    Product(f"{BOXES} 64 × 128, 3 stages, 4 warps", (64, 128), 3, "columns", 3),
    Product(PERSISTENT, (64, 128), 8, "columns"),
)


def ran(product: Product, limit: float = Machine.limit) -> tuple[Outcome, float]:
    """The run of some tiles, and bytes a cycle of an SM."""
    machine = Machine(limit=limit)
    record = json.loads((HERE / "h200_tiles.json").read_text())
    asked = Sharing("", product.tile, product.table, slots=product.slots)
    smid = record["sms of CTAs"] * product.resident
    steps = min(asked.tiles * TILE_STEPS, MOST_STEPS)
    requests = requests_of(asked, steps, machine.rows)
    groups = placed(asked, record["gpcs"], smid)
    begins = begins_of(asked, smid, 1)
    what = Asked(
        groups, begins, requests, product.slots, work=product.work, resident=product.resident
    )
    outcome = Together(what, machine).run()
    rate = outcome.bytes_per_cycle(asked.size, TILE_STEPS).mean() * product.resident
    return outcome, float(rate)


def counted(name: str) -> tuple[float, float] | None:
    """Bytes a cycle that an SM got on the chip, and the share that was joined, where it is kept."""
    kernels = json.loads(COUNTERS.read_text())["kernels"]
    one = next((kernel for kernel in kernels if kernel["name"] == name), None)
    if one is None:
        return None
    asked = one["lrc__request_sectors_op_read_coalescable.sum"]
    joined = one["lrc__request_sectors_op_read_coalescing_achieved_type_hardware.sum"]
    return asked * SECTOR / one["sm__cycles_elapsed.max"] / SMS, joined / asked


def limit_at(name: str) -> float:
    """Bytes a cycle out of the L2 at the clock that a kernel was measured with."""
    rows = json.loads(MEASURED.read_text())["rows"]
    mhz = next(row["mhz"] for row in rows if row["name"] == name)
    return LIMIT_SHARED * PROBES_MHZ / float(mhz)


def main(path: Path, asked: str = "") -> None:
    """Run all, and keep what came."""
    found = []
    for product in KERNELS:
        limit = limit_at(product.name) if asked == "clocks" else float(asked or Machine.limit)
        outcome, rate = ran(product, limit)
        chip = counted(product.name)
        row = {
            "name": product.name,
            "limit": round(limit),
            "asks": round(product.asks, 1),
            "chip": chip and [round(chip[0], 1), round(chip[1], 3)],
            "here": [round(rate, 1), round(outcome.joined, 3)],
        }
        print(row, flush=True)
        found.append(row)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("asked", nargs="?", default="", help='a limit, or "clocks"')
    given = parser.parse_args()
    main(given.file, given.asked)

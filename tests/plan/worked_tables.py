"""Worked values of the configuration, computed from the formulas of ``docs/sources.md`` section 1.

One line of ``worked_tables.txt`` per configuration; ``-`` marks values that do not exist because no
key tile fits. The last column is the source's own verdict, which does not know the limit of 64
mbarriers. Where the plan goes by that limit, its rings are shorter than the line states.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode

_TYPES = {t.value.removesuffix("_e4m3"): t for t in DType} | {"-": DType.INVALID}

TABLE = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Row:
    """One line of the table: the configuration it describes and the values it states."""

    line: str

    @property
    def cells(self) -> list[str]:
        return self.line.split()

    @property
    def config(self) -> FA4Config:
        dtype, rope, scale, page, depths, mode, swizzle = self.cells[:7]
        qk, ov = (int(d) for d in depths.split("/"))
        return FA4Config(
            num_q_heads=8,
            group=1,
            qk_depth=qk,
            ov_depth=ov,
            swizzle_mode=SwizzleMode(int(swizzle)),
            page_size=int(page),
            is_mla=rope != "-",
            pair_cta=mode.endswith("pair"),
            num_qo=int(mode[0]),
            qkv_dtype=_TYPES[dtype],
            rope_dtype=_TYPES[rope],
            scale_dtype=_TYPES[scale],
        )

    @property
    def stated(self) -> dict[str, object]:
        padded = tuple(int(d) for d in self.cells[7].split("/"))
        names = "num_kv_stages num_qk_stages BK0 TMEM_S1 TMEM_O0 TMEM_O1 tmem_used smem_used"
        values: dict[str, object] = {
            "padded": padded,
            "BM": int(self.cells[8]),
            "BN": int(self.cells[9]),
        }
        if self.is_capped:
            values |= dict(zip(names.split()[3:7], map(int, self.cells[14:18]), strict=True))
        elif self.has_tiles:
            values["ring"] = self.cells[10]
            values |= dict(zip(names.split(), map(int, self.cells[11:19]), strict=True))
        return values

    @property
    def has_tiles(self) -> bool:
        return self.cells[10] != "-"

    @property
    def layout_bytes(self) -> int:
        return int(self.cells[19])

    @property
    def mbars(self) -> int:
        return int(self.cells[20])

    @property
    def is_capped(self) -> bool:
        return self.has_tiles and self.mbars > 64

    @property
    def verdict(self) -> bool:
        return self.cells[21] == "yes"


LINES = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
ROWS = [Row(line) for line in LINES]
# fp16 has the sizes of bf16.
ROWS += [Row(line.replace("bf16", "fp16", 1)) for line in LINES if line.startswith("bf16 - - 0")]

"""Worked values of the configuration, computed from the formulas of ``docs/sources.md`` section 1.

One line per configuration; ``-`` marks values that do not exist because no key tile fits. The last
column is the source's own verdict, which does not know the limit of 64 mbarriers. Where the plan
goes by that limit, its rings are shorter than the line states.
"""

from __future__ import annotations

from dataclasses import dataclass

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode

_TYPES = {t.value.removesuffix("_e4m3"): t for t in DType} | {"-": DType.INVALID}

# dtype rope scale page; qk/ov mode swizzle padded; BM BN ring kv qk BK0 S1 O0 O1 tmem;
# smem layout mbars verdict
TABLE = """
bf16 - - 0 64/64 2Q 128 64/64 256 192 split 4 1 64 192 384 448 512 230636 230636 29 yes
bf16 - - 0 64/64 1Q 128 64/64 128 192 split 4 1 64 192 384 448 512 214244 214244 28 yes
bf16 - - 0 64/64 2Q-pair 128 64/64 256 192 split 8 1 64 192 384 448 512 230764 230764 45 no
bf16 - - 0 72/72 2Q 128 128/128 256 128 fused 5 1 128 128 256 384 512 230596 230588 23 yes
bf16 - - 0 72/72 1Q 128 128/128 128 128 split 3 2 64 128 256 384 512 230644 230644 30 yes
bf16 - - 0 72/72 2Q-pair 128 128/128 256 128 split 5 2 64 128 256 384 512 230756 230756 44 yes
bf16 - - 0 80/80 2Q 128 128/128 256 128 fused 5 1 128 128 256 384 512 230596 230588 23 yes
bf16 - - 0 80/80 1Q 128 128/128 128 128 split 3 2 64 128 256 384 512 230644 230644 30 yes
bf16 - - 0 80/80 2Q-pair 128 128/128 256 128 split 5 2 64 128 256 384 512 230756 230756 44 yes
bf16 - - 0 96/96 2Q 128 128/128 256 128 fused 5 1 128 128 256 384 512 230596 230588 23 yes
bf16 - - 0 96/96 1Q 128 128/128 128 128 split 3 2 64 128 256 384 512 230644 230644 30 yes
bf16 - - 0 96/96 2Q-pair 128 128/128 256 128 split 5 2 64 128 256 384 512 230756 230756 44 yes
bf16 - - 0 128/128 2Q 128 128/128 256 128 fused 5 1 128 128 256 384 512 230596 230588 23 yes
bf16 - - 0 128/128 1Q 128 128/128 128 128 split 3 2 64 128 256 384 512 230644 230644 30 yes
bf16 - - 0 128/128 2Q-pair 128 128/128 256 128 split 5 2 64 128 256 384 512 230756 230756 44 yes
bf16 - - 0 192/192 2Q 128 192/192 256 64 fused 5 1 192 64 128 320 512 222412 222396 23 yes
bf16 - - 0 192/192 1Q 128 192/192 128 64 fused 7 1 192 64 128 320 512 222420 222420 26 yes
bf16 - - 0 192/192 2Q-pair 128 192/192 256 64 split 5 3 64 64 128 320 512 222652 222652 55 no
bf16 - - 0 256/256 2Q 128 256/256 256 0 - - - - - - - - - - - no
bf16 - - 0 256/256 1Q 128 256/256 128 0 - - - - - - - - - - - no
bf16 - - 0 256/256 2Q-pair 128 256/256 256 0 - - - - - - - - - - - no
fp8 - - 0 64/64 2Q 64 64/64 256 192 fused 17 1 64 192 384 448 512 226684 226684 47 yes
fp8 - - 0 64/64 1Q 64 64/64 128 192 split 9 1 64 192 384 448 512 230788 230788 48 yes
fp8 - - 0 64/64 2Q-pair 64 64/64 256 192 split 17 1 64 192 384 448 512 226956 226956 81 no
fp8 - - 0 80/80 2Q 64 128/128 256 128 split 6 2 64 128 256 384 512 230804 230804 50 yes
fp8 - - 0 80/80 1Q 64 128/128 128 128 fused 13 1 128 128 256 384 512 230708 230708 38 yes
fp8 - - 0 80/80 2Q-pair 64 128/128 256 128 split 12 2 64 128 256 384 512 231092 231092 86 yes
fp8 - - 0 96/96 2Q 64 128/128 256 128 split 6 2 64 128 256 384 512 230804 230804 50 yes
fp8 - - 0 96/96 1Q 64 128/128 128 128 fused 13 1 128 128 256 384 512 230708 230708 38 yes
fp8 - - 0 96/96 2Q-pair 64 128/128 256 128 split 12 2 64 128 256 384 512 231092 231092 86 yes
fp8 - - 0 128/128 2Q 64 128/128 256 128 split 6 2 64 128 256 384 512 230804 230804 50 yes
fp8 - - 0 128/128 1Q 64 128/128 128 128 fused 13 1 128 128 256 384 512 230708 230708 38 yes
fp8 - - 0 128/128 2Q-pair 64 128/128 256 128 split 12 2 64 128 256 384 512 231092 231092 86 yes
fp8 - - 0 192/192 2Q 64 192/192 256 64 split 7 3 64 64 128 320 512 222780 222780 71 yes
fp8 - - 0 192/192 1Q 64 192/192 128 64 split 8 3 64 64 128 320 512 222820 222820 76 yes
fp8 - - 0 192/192 2Q-pair 64 192/192 256 64 fused 29 1 192 64 128 320 512 228940 228924 71 no
fp8 - - 0 256/256 2Q 64 256/256 256 0 - - - - - - - - - - - no
fp8 - - 0 256/256 1Q 64 256/256 128 0 - - - - - - - - - - - no
fp8 - - 0 256/256 2Q-pair 64 256/256 256 0 - - - - - - - - - - - no
fp8 - - 0 64/64 2Q 128 128/128 256 128 split 6 1 128 128 256 384 512 230700 230700 37 yes
fp8 - - 0 128/128 2Q 128 128/128 256 128 split 6 1 128 128 256 384 512 230700 230700 37 yes
bf16 bf16 - 0 192/128 2Q 128 192/128 256 128 fused 3 1 192 128 256 384 512 230556 230556 19 yes
bf16 bf16 - 0 192/128 1Q 128 192/128 128 128 split 2 1 192 128 256 384 512 214180 214180 20 yes
fp8 bf16 - 0 192/128 2Q 64 192/128 256 128 split 3 1 192 128 256 384 512 214220 214220 25 yes
fp8 bf16 - 0 192/128 1Q 64 192/128 128 128 split 4 1 192 128 256 384 512 230628 230628 28 yes
fp8 fp8 - 0 192/128 2Q 64 192/128 256 128 split 4 1 192 128 256 384 512 214252 214252 29 yes
fp8 fp8 - 0 192/128 1Q 64 192/128 128 128 split 5 1 192 128 256 384 512 230660 230660 32 yes
fp8 bf16 fp32 0 192/128 2Q 64 192/128 256 128 split 3 1 192 128 256 384 512 216780 216780 25 yes
fp8 bf16 fp32 0 192/128 1Q 64 192/128 128 128 fused 7 1 192 128 256 384 512 216788 216788 26 yes
bf16 - - 64 64/64 2Q 128 64/64 256 192 split 4 1 64 192 384 448 512 230636 230636 29 yes
bf16 - - 128 64/64 2Q 128 64/64 256 128 split 6 1 64 128 256 320 384 230700 230700 37 yes
bf16 - - 256 64/64 2Q 128 64/64 256 128 split 6 1 64 128 256 320 384 230700 230700 37 yes
"""


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


LINES = TABLE.strip().splitlines()
ROWS = [Row(line) for line in LINES]
# fp16 has the sizes of bf16.
ROWS += [Row(line.replace("bf16", "fp16", 1)) for line in LINES if line.startswith("bf16 - - 0")]

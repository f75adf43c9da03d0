"""Cycles that the timing model predicts: ``benchmarks.tune.costs`` writes them.

The first row that holds a kernel is taken; a kernel that none holds has no prediction.
"""

from __future__ import annotations

from typing import Final

from .prediction import Costs, DecodingRow, PredictedRow

LAUNCH_CYCLES: Final = 3946
MEMORY_BYTES_PER_CYCLE: Final = 3895
PREDICTED: Final[tuple[PredictedRow, ...]] = (
    PredictedRow("2q", 2, 64, 64,
                 Costs(0, 8996, 15592), Costs(4031, 4885, 16862), Costs(3402, 5395, 19472),
                 dear_keys=21665,
                 causal=True),
    PredictedRow("2q", 2, 64, 64,
                 Costs(0, 7240, 15039), Costs(4887, 2268, 16116), Costs(5096, 2789, 18056),
                 dear_keys=19448),
    PredictedRow("2q", 2, 96, 96,
                 Costs(0, 9451, 16005), Costs(5306, 3099, 16086), Costs(5556, 3311, 16138),
                 dear_keys=16529),
    PredictedRow("2q", 2, 128, 128,
                 Costs(0, 9502, 16838), Costs(5271, 3397, 16662), Costs(5952, 3449, 16717),
                 dear_keys=16839),
    PredictedRow("2q", 2, 192, 128,
                 Costs(0, 9429, 20480), Costs(5788, 2903, 20481), Costs(6337, 2950, 20480),
                 dear_keys=20486),
    PredictedRow("2q", 1, 64, 64,
                 Costs(0, 6870, 15432), Costs(4285, 1925, 15289), Costs(4247, 3059, 17265),
                 dear_keys=18340),
    PredictedRow("2q", 1, 96, 96,
                 Costs(0, 8376, 15234), Costs(5116, 1973, 15383), Costs(4965, 2136, 15772),
                 dear_keys=16321),
    PredictedRow("2q", 1, 128, 128,
                 Costs(0, 8865, 15069), Costs(4901, 2676, 15346), Costs(6022, 2701, 15416),
                 dear_keys=15989),
    PredictedRow("2q", 1, 192, 128,
                 Costs(0, 8344, 15879), Costs(5381, 2950, 15241), Costs(6485, 3159, 15018),
                 dear_keys=15351),
    PredictedRow("pair", 2, 256, 256,
                 Costs(0, 12040, 16384), Costs(8940, 1245, 16384), Costs(8252, 1563, 16384),
                 dear_keys=16384),
    PredictedRow("pair", 2, 512, 512,
                 Costs(0, 7771, 32768), Costs(6317, 752, 32768), Costs(6372, 942, 32768),
                 dear_keys=32768),
    PredictedRow("pair", 1, 256, 256,
                 Costs(0, 11395, 11785), Costs(8922, 1029, 11708), Costs(8253, 1877, 11613),
                 dear_keys=11952),
    PredictedRow("pair", 1, 512, 512,
                 Costs(0, 8979, 16380), Costs(6169, 1964, 16356), Costs(6079, 2231, 16348),
                 dear_keys=16367),
    PredictedRow("1q", 2, 64, 64,
                 Costs(0, 9848, 12271), Costs(2793, 5958, 13602),
                 causal=True),
    PredictedRow("1q", 2, 64, 64,
                 Costs(0, 10721, 11297), Costs(4001, 8371, 11957)),
    PredictedRow("1q", 2, 128, 128,
                 Costs(0, 8575, 9571), Costs(3473, 6354, 9740)),
    PredictedRow("1q", 2, 192, 128,
                 Costs(0, 9487, 10586), Costs(3519, 7282, 10619)),
    PredictedRow("1q", 1, 128, 128,
                 Costs(0, 7903, 9067), Costs(3085, 6271, 9189)),
)  # fmt: skip
DECODING: Final[tuple[DecodingRow, ...]] = (
    DecodingRow("1q", 2, 64, 64,
                Costs(0, 6822, 13587), Costs(5259, 261, 649), (2755, 2755, 2755),
                Costs(943, 193, 363861)),
    DecodingRow("1q", 2, 128, 128,
                Costs(0, 8706, 9570), Costs(5244, 226, 582), (1436, 1514, 1514),
                Costs(748, 195, 401408)),
)  # fmt: skip

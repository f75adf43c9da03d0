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
                 Costs(0, 9097, 15628), Costs(7403, 4577, 16996), Costs(3286, 5359, 19524),
                 causal=True),
    PredictedRow("2q", 2, 64, 64,
                 Costs(0, 7321, 14972), Costs(4876, 2293, 16082), Costs(5069, 2779, 17905)),
    PredictedRow("2q", 2, 96, 96,
                 Costs(0, 9573, 15946), Costs(5091, 3207, 16080), Costs(5493, 3343, 16107)),
    PredictedRow("2q", 2, 128, 128,
                 Costs(0, 9595, 16968), Costs(5243, 3444, 16421), Costs(5857, 3504, 16501)),
    PredictedRow("2q", 2, 192, 128,
                 Costs(0, 9438, 20480), Costs(5679, 2840, 20480), Costs(6327, 3028, 20480)),
    PredictedRow("2q", 1, 64, 64,
                 Costs(0, 6993, 15614), Costs(4248, 1838, 15299), Costs(4098, 2907, 17253)),
    PredictedRow("2q", 1, 96, 96,
                 Costs(0, 8328, 17612), Costs(4648, 2839, 17359), Costs(4465, 2984, 17427)),
    PredictedRow("2q", 1, 128, 128,
                 Costs(0, 8971, 14902), Costs(4749, 2528, 15262), Costs(6073, 2595, 15335)),
    PredictedRow("2q", 1, 192, 128,
                 Costs(0, 8418, 19626), Costs(4726, 3822, 17925), Costs(6034, 3718, 18293)),
    PredictedRow("pair", 2, 256, 256,
                 Costs(0, 12200, 16384), Costs(8840, 1215, 16384), Costs(8249, 1573, 16384)),
    PredictedRow("pair", 2, 512, 512,
                 Costs(0, 7858, 32768), Costs(6406, 654, 32768), Costs(6456, 856, 32768)),
    PredictedRow("pair", 1, 256, 256,
                 Costs(0, 11643, 11810), Costs(8875, 1053, 11780), Costs(8525, 1754, 11593)),
    PredictedRow("pair", 1, 512, 512,
                 Costs(0, 9214, 16380), Costs(6247, 2006, 16354), Costs(6119, 2223, 16343)),
    PredictedRow("1q", 2, 64, 64,
                 Costs(0, 10249, 11485), Costs(3397, 8530, 11846)),
    PredictedRow("1q", 2, 128, 128,
                 Costs(0, 8668, 9572), Costs(3332, 6208, 9690)),
    PredictedRow("1q", 2, 192, 128,
                 Costs(0, 9699, 10508), Costs(3457, 7314, 10566)),
    PredictedRow("1q", 1, 128, 128,
                 Costs(0, 8093, 9032), Costs(3073, 6228, 9207)),
)  # fmt: skip
DECODING: Final[tuple[DecodingRow, ...]] = (
    DecodingRow("1q", 2, 64, 64,
                Costs(0, 6822, 13587), Costs(5259, 261, 649), (2755, 2755, 2755),
                Costs(943, 193, 363861)),
    DecodingRow("1q", 2, 128, 128,
                Costs(0, 8706, 9570), Costs(5244, 226, 582), (1436, 1514, 1514),
                Costs(748, 195, 401408)),
)  # fmt: skip

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
                 Costs(0, 9097, 15628), Costs(7403, 4577, 16996), Costs(3243, 5796, 17973),
                 causal=True),
    PredictedRow("2q", 2, 64, 64,
                 Costs(0, 7321, 14972), Costs(4876, 2293, 16082), Costs(5069, 2779, 17905)),
    PredictedRow("2q", 2, 96, 96,
                 Costs(0, 9559, 15922), Costs(5259, 3167, 16181), Costs(5493, 3343, 16107)),
    PredictedRow("2q", 2, 128, 128,
                 Costs(0, 9580, 16870), Costs(5163, 3474, 16522), Costs(5931, 3450, 16536)),
    PredictedRow("2q", 2, 192, 128,
                 Costs(0, 9409, 20480), Costs(5643, 2850, 20480), Costs(6303, 2907, 20480)),
    PredictedRow("2q", 1, 64, 64,
                 Costs(0, 6976, 15483), Costs(3965, 2632, 14839), Costs(4098, 2907, 17253)),
    PredictedRow("2q", 1, 96, 96,
                 Costs(0, 8310, 17612), Costs(4651, 2839, 17359), Costs(4465, 2984, 17427)),
    PredictedRow("2q", 1, 128, 128,
                 Costs(0, 8940, 15033), Costs(4780, 2780, 15296), Costs(6073, 2595, 15335)),
    PredictedRow("2q", 1, 192, 128,
                 Costs(0, 8431, 19626), Costs(4745, 3822, 17925), Costs(6034, 3718, 18293)),
    PredictedRow("pair", 2, 256, 256,
                 Costs(0, 12200, 16384), Costs(8840, 1215, 16384)),
    PredictedRow("pair", 2, 512, 512,
                 Costs(0, 7858, 32768), Costs(6406, 654, 32768)),
    PredictedRow("pair", 1, 256, 256,
                 Costs(0, 11643, 11810), Costs(8875, 1053, 11780)),
    PredictedRow("pair", 1, 512, 512,
                 Costs(0, 9214, 16380), Costs(6247, 2006, 16354)),
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

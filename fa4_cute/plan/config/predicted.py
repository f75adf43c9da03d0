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
                 Costs(0, 7499, 15996), Costs(3907, 3465, 15991)),
    PredictedRow("2q", 2, 96, 96,
                 Costs(0, 9765, 15946), Costs(3966, 4384, 16073)),
    PredictedRow("2q", 2, 128, 128,
                 Costs(0, 9789, 16968), Costs(3689, 5035, 16413)),
    PredictedRow("2q", 2, 192, 128,
                 Costs(0, 9482, 21642), Costs(3938, 4720, 21520)),
    PredictedRow("2q", 1, 64, 64,
                 Costs(0, 6993, 15614), Costs(3887, 2852, 15015)),
    PredictedRow("2q", 1, 96, 96,
                 Costs(0, 8738, 18127), Costs(4140, 3652, 17670)),
    PredictedRow("2q", 1, 128, 128,
                 Costs(0, 8971, 14902), Costs(3578, 3713, 15207)),
    PredictedRow("2q", 1, 192, 128,
                 Costs(0, 9543, 19468), Costs(4386, 4099, 19615)),
    PredictedRow("pair", 2, 256, 256,
                 Costs(0, 12226, 16384), Costs(7095, 6099, 16384)),
    PredictedRow("pair", 2, 512, 512,
                 Costs(0, 8534, 32768), Costs(6411, 4368, 32768)),
    PredictedRow("pair", 1, 256, 256,
                 Costs(0, 11643, 11810), Costs(6565, 6068, 11642)),
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
                Costs(0, 6822, 13587), Costs(5338, 240, 645), 2755),
    DecodingRow("1q", 2, 128, 128,
                Costs(0, 8706, 9570), Costs(5244, 226, 582), 1436),
)  # fmt: skip

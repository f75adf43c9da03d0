"""What the virtual device answers when a program asks for its properties.

Values are those of a B200 (compute capability 10.0) as documented in the CUDA C++ Programming
Guide, "Compute Capabilities", and the tuning guide; the number of SMs may be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..contract.codes import SM_COUNT

DEFAULT_SM_COUNT = SM_COUNT


@dataclass(frozen=True)
class DeviceModel:
    """Properties of the virtual SM100.

    Attributes:
        sm_count: streaming multiprocessors; persistent kernels size their grid by it.
        shared_memory_per_block: largest dynamic shared memory of a block, bytes (opt-in limit).
        l2_bytes: size of the L2 cache, bytes.
    """

    sm_count: int = DEFAULT_SM_COUNT
    shared_memory_per_block: int = 232_448
    l2_bytes: int = 126 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.sm_count < 1:
            raise ValueError(f"sm_count={self.sm_count}: expected at least 1")

    def max_active_clusters(self, cluster_size: int) -> int:
        """How many clusters of ``cluster_size`` CTAs, one CTA per SM, run at once.

        Raises:
            ValueError: not a cluster size between 1 and 16.
        """
        if not 1 <= cluster_size <= 16:
            raise ValueError(f"cluster_size={cluster_size}: expected 1 to 16")
        return max(1, self.sm_count // cluster_size)

    @property
    def attributes(self) -> Mapping[int, int]:
        """Value by ``cudaDeviceAttr`` number."""
        return MappingProxyType(
            {
                1: 1024,  # threads per block
                2: 1024,  # block x, y, z
                3: 1024,
                4: 64,
                5: 2**31 - 1,  # grid x, y, z
                6: 65535,
                7: 65535,
                8: 48 * 1024,  # static shared memory per block
                10: 32,  # warp size
                12: 65536,  # registers per block
                16: self.sm_count,
                38: self.l2_bytes,
                39: 2048,  # threads per SM
                75: 10,  # compute capability, major and minor
                76: 0,
                81: 233_472,  # shared memory per SM
                82: 65536,  # registers per SM
                95: 1,  # cooperative launch
                97: self.shared_memory_per_block,
                106: 32,  # blocks per SM
                111: 1024,  # shared memory per block reserved by the system
                120: 1,  # clusters
            }
        )

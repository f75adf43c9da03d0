"""What a kernel launch consists of, as plain data that a runtime hands to the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Dim3 = tuple[int, int, int]

CLUSTER_DIMENSION = 4
"""Launch attribute id of the cluster shape (``cudaLaunchAttributeClusterDimension``)."""

COOPERATIVE = 2
"""Launch attribute id of a cooperative launch (``cudaLaunchAttributeCooperative``)."""


@dataclass(frozen=True)
class LaunchRequest:
    """One launch of one PTX entry.

    Attributes:
        ptx: the module's PTX text.
        kernel: name of the ``.entry`` in it.
        grid: CTAs in x, y, z.
        block: threads per CTA in x, y, z.
        cluster: CTAs per cluster in x, y, z; (1, 1, 1) when launched without clusters.
        smem_bytes: dynamic shared memory per CTA, bytes.
        params: the kernel's arguments, one byte string per PTX ``.param`` in order.
        attributes: the launch attributes as given: id -> the 64 bytes of its value.
        placed: (name, address) of global variables that the caller has placed and initialised, as
            a loader of modules does; the simulator places the others for each kernel. For a
            register that the driver defines, `%envreg1`, its value.
    """

    ptx: str
    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3 = (1, 1, 1)
    smem_bytes: int = 0
    params: tuple[bytes, ...] = ()
    attributes: Mapping[int, bytes] = field(default_factory=dict)
    placed: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for name in ("grid", "block", "cluster"):
            dim = getattr(self, name)
            if len(dim) != 3 or any(not isinstance(n, int) or n < 1 for n in dim):
                raise ValueError(f"{name}={dim!r}: expected three integers of at least 1")
        for axis, (ctas, per_cluster) in enumerate(zip(self.grid, self.cluster, strict=True)):
            if ctas % per_cluster:
                raise ValueError(
                    f"grid={self.grid} is not a multiple of cluster={self.cluster} in dimension "
                    f"{'xyz'[axis]}; nearest grid: {-(-ctas // per_cluster) * per_cluster}"
                )
        if not isinstance(self.smem_bytes, int) or self.smem_bytes < 0:
            raise ValueError(f"smem_bytes={self.smem_bytes!r}: expected a whole number, 0 or more")
        for k, raw in enumerate(self.params):
            if not isinstance(raw, bytes | bytearray | memoryview):
                raise TypeError(f"params[{k}]: {type(raw).__name__} is no byte string")

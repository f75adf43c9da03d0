"""The family of a warp's mma.sync, and of sparse matrices in mma.sp and wgmma.mma_async.sp."""

from testing.hardware.micro.mma.table import cases

__all__ = ["cases"]

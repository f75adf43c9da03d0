"""The family of wgmma.mma_async."""

from testing.hardware.micro.wgmma.table import cases

__all__ = ["cases"]

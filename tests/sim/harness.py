"""The programs of the simulator's tests: those of :mod:`testing.harness`."""

from testing.harness import kernel_text, lanewise, run_ptx

__all__ = ["kernel_text", "lanewise", "run_ptx"]

"""Micro-kernels that ran on a real H200, and their replay on the simulator."""

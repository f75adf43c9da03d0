"""Kernels that this project did not write, run on the virtual SM100 and compared with float64."""

"""A stand-in for the CUDA driver and runtime: programs run unmodified on the virtual SM100."""

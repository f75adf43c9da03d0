"""Triton and Gluon on the simulator."""
